//! The harness against `fake`, end to end: the real binary, real processes, a
//! checkout of its own in a temporary directory. Nothing here asserts a
//! wall-clock time; timing is compared with what `fake` says it really emitted.

mod checkout;
mod faults;
mod input;
mod matrix;
mod open_loop;
mod programs;
mod resume;
mod surroundings;
mod telemetry;
mod timing;
mod trace;
