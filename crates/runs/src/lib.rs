//! Recorded runs: finding, merging, publishing, comparing, exporting and rendering them. Nothing
//! here starts an engine.

#[macro_use]
extern crate base;

pub mod compare;
pub mod export;
pub mod merge;
pub mod page;
pub mod publish;
pub mod results;
pub mod shard;
pub mod submit;
pub mod summary;
