//! The guide in short, for the index: what to take for each kind of work.

use crate::fmt::NONE;
use serde::Serialize;

/// What to take for one kind of work, for the index.
#[derive(Serialize)]
pub struct Take {
    pub(super) title: &'static str,
    pub(super) about: &'static str,
    /// Of the guide's part on it.
    pub(super) path: String,
    pub(super) choices: Vec<Choice>,
    /// Where nothing was measured, what would measure it.
    pub(super) command: String,
}

/// What was chosen, and what that rests on.
#[derive(Serialize)]
pub(super) struct Choice {
    pub(super) choice: String,
    /// How far the next is behind.
    pub(super) ahead: String,
    pub(super) case: String,
    pub(super) place: String,
    pub(super) started: String,
    pub(super) run_path: String,
}

/// The first thing that the index says: what to take, where it was measured; empty where nothing was.
pub fn lead(takes: &[Take]) -> String {
    let of = |take: &Take| {
        let said = take.choices.iter().map(|c| {
            let ahead = match c.ahead.as_str() {
                NONE => String::new(),
                ahead => format!(": {ahead}"),
            };
            format!("{}: take {}{ahead}, on {}.", take.title, c.choice, c.place)
        });
        said.collect::<Vec<_>>()
    };
    takes.iter().flat_map(of).collect::<Vec<_>>().join(" ")
}
