//! The pages. Each has a view model with everything it prints, decided before any template runs: as
//! text, or as the record itself where a filter of the template formats its numbers. A page that has
//! parts of its own is a folder. What several pages share is in [`view`](crate::view), except a part
//! of one page that another page quotes. Everything here is pure.

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
