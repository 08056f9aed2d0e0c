//! Tests of whole models, on tiny ones that the tests make themselves or let the generator make.

mod architectures;
mod damaged;
mod fixture;
mod prefix;
mod whole;

pub use fixture::Random;
