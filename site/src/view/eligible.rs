//! Decides which runs may carry a recommendation.

use crate::view::Shown;
use crate::view::place::parameters;
use crate::words::plural;

/// Fewest parameters of a model that a recommendation may rest on: a smaller model fits in caches,
/// and shows what an engine costs around the work instead of the work.
pub const PARAMETERS_MIN: u64 = 1_000_000_000;

/// Why a run may not carry a recommendation; `None` where it may.
pub fn refusal(shown: &Shown) -> Option<String> {
    if !shown.run.header.plan.publishable {
        return Some("it has too few samples to be published".into());
    }
    match parameters(shown) {
        None => Some("the size of its model is not known".into()),
        Some(n) if n < PARAMETERS_MIN => Some(format!(
            "its model has {}, and a choice rests on none under 1\u{a0}B",
            plural(n, "parameter", "parameters")
        )),
        Some(_) => None,
    }
}

/// Whether a run's model is of a size that a recommendation may rest on; `None` where its size
/// isn't known.
pub fn is_real_size(shown: &Shown) -> Option<bool> {
    parameters(shown).map(|n| n >= PARAMETERS_MIN)
}
