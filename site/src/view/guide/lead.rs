//! The sentences at the top of the guide and of the first page: what to take, place by place.

use super::{Recommendation, WorkloadView};
use crate::view::Shown;
use crate::words::{join, plural};

/// What to take for each kind of work: a sentence a place, in which each place is named once. How
/// far ahead and how sure stands in the table below it.
pub(super) fn lead(workloads: &[WorkloadView]) -> String {
    let taken = |work: &WorkloadView, r: &Recommendation| {
        let whose = match r.choice_of_others.as_str() {
            _ if !r.is_ours => String::new(),
            "" => " (this project’s own engine)".into(),
            others => format!(" (this project’s own engine; otherwise {others})"),
        };
        format!("{}: {}{whose}", work.title.to_lowercase(), r.choice)
    };
    let places = by_place(workloads, taken);
    let sentences: Vec<String> = places
        .into_iter()
        .map(|(place, taken)| format!("On {place}, take for {}.", taken.join("; for ")))
        .collect();
    sentences.join(" ")
}

/// The sentence at the top of the guide. `fit`: how many of the runs may carry a recommendation.
pub(super) fn answer(shown: &[Shown], fit: u64, workloads: &[WorkloadView]) -> String {
    let taken = |work: &WorkloadView, r: &Recommendation| {
        format!("{}: {}", work.title.to_lowercase(), r.short)
    };
    let places = by_place(workloads, taken);
    let found: Vec<String> = places
        .into_iter()
        .map(|(place, taken)| format!("On {place}, take for {}.", taken.join("; ")))
        .collect();
    let open: Vec<String> = workloads
        .iter()
        .filter(|w| w.recommendations.is_empty())
        .map(|w| w.title.to_lowercase())
        .collect();
    let of = plural(shown.len() as u64, "run", "runs");
    match (found.is_empty(), open.is_empty()) {
        (true, _) if shown.is_empty() => {
            "Nothing has been measured yet, so nothing is recommended.".into()
        }
        (true, _) if fit > 0 => format!(
            "Of {of} here {fit} may carry a recommendation, but no number in them allows one."
        ),
        (true, _) => format!(
            "Of {of} here none may carry a recommendation: that takes a model of 1\u{a0}B parameters or more and a profile that may be published."
        ),
        (false, true) => found.join(" "),
        (false, false) => format!(
            "{} For {} no run here can say.",
            found.join(" "),
            join(&open)
        ),
    }
}

/// Place → what is said of each recommendation there, in the page's order.
fn by_place(
    workloads: &[WorkloadView],
    said: impl Fn(&WorkloadView, &Recommendation) -> String,
) -> Vec<(&str, Vec<String>)> {
    let mut places: Vec<(&str, Vec<String>)> = Vec::new();
    for work in workloads {
        for r in &work.recommendations {
            let said = said(work, r);
            match places.iter_mut().find(|(place, _)| *place == r.place) {
                Some((_, all)) => all.push(said),
                None => places.push((&r.place, vec![said])),
            }
        }
    }
    places
}
