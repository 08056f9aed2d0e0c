//! The harness against `fake`, end to end: the real binary, real processes, a
//! checkout of its own in a temporary directory. Nothing here asserts a
//! wall-clock time; timing is compared with what `fake` says it really emitted.

mod bare;
mod checkout;
mod compare;
mod dashboard;
mod dry_run;
mod far;
mod faults;
mod fleet;
// Of the tests of `fetch`, which use all of it.
#[allow(dead_code)]
#[path = "../fetch/hub.rs"]
mod hub;
mod input;
mod isa;
mod matrix;
mod merge;
mod micro;
mod names;
mod open_loop;
mod own_model;
mod own_prompts;
mod prefix;
mod printing;
mod programs;
mod published;
mod reproduce;
mod residents;
mod resume;
mod stop;
mod surroundings;
mod synthetic;
mod telemetry;
mod terminal;
mod timing;
mod trace;
mod trusted;
mod turns;
mod twins;
mod variables;
