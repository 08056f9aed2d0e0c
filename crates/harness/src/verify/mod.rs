//! The parity gate: checks that a target does the same work as the reference.
//!
//! `architecture` refuses targets that can't run the model, `gate` judges scores and `output`
//! generated outputs (both pure), `setup` says what a target is verified with and asks one prompt,
//! `target` takes one engine through all checks, `lengths` checks contexts beyond the usual ones
//! and prompts of every length, `batch` requests in a batch, `repeats` prompts that were asked
//! before, `prefix` prompts that begin alike, `outliers` a model on which shortcuts show. `golden`
//! makes the reference's answers and stories, `judges` chooses the targets that make them,
//! `own_weights` has them read the rounded weights of a target's file, `subject` says which weights
//! a golden is of, `goldens` finds the golden that holds, `of_run` is the gate within a run, and
//! `told` reports progress.

pub mod architecture;
pub mod batch;
pub mod gate;
pub mod golden;
pub mod goldens;
pub mod judges;
mod lengths;
pub mod of_run;
mod outliers;
pub mod output;
pub(crate) mod own_weights;
mod prefix;
mod repeats;
pub mod setup;
pub mod subject;
pub mod target;
pub mod told;
