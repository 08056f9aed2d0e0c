//! What must be here before anything is measured: models fetched or made, engines built, the
//! machine looked at, and what all of it was, for the record.

#[macro_use]
extern crate base;

pub mod build;
pub mod dist;
pub mod doctor;
pub mod fetch;
pub mod pins;
pub mod provenance;
pub mod train;
