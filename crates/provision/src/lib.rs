//! Provides everything that a measurement needs: fetches or makes models, builds engines, examines
//! the machine, and describes all of it for the record.

#[macro_use]
extern crate base;

pub mod build;
pub mod dist;
pub mod doctor;
pub mod fetch;
pub mod pins;
pub mod provenance;
pub mod train;
mod waiting_lock;
