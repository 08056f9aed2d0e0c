//! Tests of whole models, on tiny ones that the tests make themselves.

mod damaged;
mod fixture;
mod whole;

pub use fixture::Random;
