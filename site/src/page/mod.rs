//! The pages: for each a view model with everything it prints, as text, decided before any template
//! runs. A page that has parts of its own is a folder; what several pages share is in
//! [`view`](crate::view), but for what is a part of one page and is quoted by another. Everything here
//! is pure.

pub mod compare;
pub mod cost;
pub mod coverage;
pub mod data;
pub mod engine;
pub mod glossary;
pub mod guide;
pub mod hypotheses;
pub mod index;
pub mod kernels;
pub mod methodology;
pub mod micro;
pub mod roadmap;
pub mod run;
pub mod scenario;
pub mod search;
