//! End-to-end tests of the harness with `fake`: the real binary, real processes, and a checkout of
//! its own in a temporary directory. No test asserts a wall-clock time; timing is compared with the
//! times at which `fake` says it really emitted tokens.

mod blocks;
mod bundle;
mod checkout;
mod compare;
mod contexts;
mod dashboard;
mod dry_run;
mod faults;
// Shared with the tests of `fetch`, which use all of it.
#[allow(dead_code)]
#[path = "../fetch/hub.rs"]
mod hub;
mod input;
mod isa;
mod merge;
mod micro;
mod open_loop;
mod outliers;
mod own_model;
mod own_prompts;
mod own_weights;
mod predictions;
mod printing;
mod programs;
mod rented;
mod reproduce;
mod resume;
mod shards;
mod submit;
mod surroundings;
mod synthetic;
mod terminal;
mod timing;
mod trace;
mod trusted;
