//! The main job: what is chosen and what refuses it beforehand, then building, the gate,
//! measuring and the report, in this order; and what does it again, in part or in another way.

// What is printed goes through its macros.
#[macro_use]
extern crate base;

pub mod beside;
pub mod handicap;
pub mod job;
pub mod list;
pub mod reproduce;
pub mod trace;
mod trial;
