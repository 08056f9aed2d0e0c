//! What to take among engines of one kind alone, to stand beside a choice of another kind: written in
//! Rust, or to be had as a crate.

use super::workload::Asked;
use super::{ahead, decision, limit, tied_with, value_of};
use crate::view::Shown;
use serde::Serialize;

/// The target to take among engines of one kind; empty where the choice is of that kind or none is.
#[derive(Clone, Default, Serialize)]
pub(super) struct Narrower {
    /// Id of the target.
    pub(super) choice: String,
    /// The target, and that its engine came as a Python package where it did.
    pub(super) name: String,
    /// The target with its value, and who is tied with it.
    short: String,
    /// Its lead and what limits it, each in a few words.
    more: Vec<String>,
}

/// Decide among the engines of one kind that others maintain, where `choice` is not of it.
pub(super) fn narrower(
    shown: &Shown,
    asked: &Asked,
    choice: &str,
    is_of_kind: impl Fn(&str) -> bool,
) -> Narrower {
    let of = |target: &str| is_of_kind(target) && !shown.is_ours(target);
    let found = decision(shown, asked, of).filter(|_| !is_of_kind(choice));
    let Some(found) = found else {
        return Narrower::default();
    };
    let choice = found.choice.clone();
    let only = (found.measured == 1).then(|| "the only one with a number".to_owned());
    let limit = Some(limit(shown, &choice).to_owned()).filter(|limit| !limit.is_empty());
    Narrower {
        name: match shown.is_crate(&choice) {
            true => choice.clone(),
            false => format!("{choice} (a Python package)"),
        },
        short: format!("{}{}", value_of(asked, &choice), tied_with(&found)),
        more: [ahead(&found), only, limit].into_iter().flatten().collect(),
        choice,
    }
}
