//! What limits a target's numbers, as its record says.

use crate::view::Shown;

/// How far a target was verified, where that is less than the run asked for; else empty. What
/// follows in the record names the prompt and the position; the run's page has it.
pub(super) fn limit<'a>(shown: &Shown<'a>, target: &str) -> &'a str {
    let record = shown.run.verify.get(target);
    let reason = record.and_then(|record| record.reason.split("; ").next());
    reason.unwrap_or_default()
}
