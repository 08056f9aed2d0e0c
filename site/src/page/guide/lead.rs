//! Writes the sentences at the top of the guide and of the index: which target to take in each
//! place.

use super::{Recommendation, WorkloadView};
use crate::view::Shown;
use crate::words::{by_key, join, plural};

/// Say place by place which target to take for each kind of work: of those that come as a crate,
/// where these aren't the best of all, and of all. How far ahead it is and how surely stands in the
/// table below.
pub(super) fn lead(workloads: &[WorkloadView]) -> String {
    let places = by_place(workloads).into_iter();
    let sentences = places.map(|(place, taken)| {
        let chosen = taken.iter().map(|(work, r)| {
            let name = match r.comes_as {
                "" => r.choice.clone(),
                how => format!("{} ({how})", r.choice),
            };
            (name, work.title.to_lowercase())
        });
        let of_all = grouped(chosen);
        let crates = taken.iter().filter(|(_, r)| !r.as_crate.is_empty());
        let crates = crates.map(|(work, r)| (r.as_crate.clone(), work.title.to_lowercase()));
        let of_crates = grouped(crates);
        if of_crates.is_empty() || taken.iter().all(|(_, r)| r.as_crate == r.choice) {
            return format!("On {place}, take {of_all}.");
        }
        format!("On {place}, take as a crate {of_crates}. Of all engines, take {of_all}.")
    });
    sentences.collect::<Vec<_>>().join(" ")
}

/// Say what stands beside these choices: which were measured with a defect mended; the best engines
/// in Rust, for work where another is taken; and where a target of
/// another run or this project's own engine is ahead. The place is named only if there are several.
pub(super) fn beside(workloads: &[WorkloadView]) -> Vec<String> {
    let places = by_place(workloads);
    let named = places.len() > 1;
    let sentences = places.into_iter().flat_map(|(place, taken)| {
        let of = |pick: fn(&Recommendation) -> &str| {
            let some = taken.iter().filter(|(_, r)| !pick(r).is_empty());
            grouped(some.map(|(work, r)| (pick(r).to_owned(), work.title.to_lowercase())))
        };
        let on = if named {
            format!("On {place}: ")
        } else {
            String::new()
        };
        let sentence = |start: &str, found: String| {
            (!found.is_empty()).then(|| format!("{on}{start}: {found}."))
        };
        [
            sentence(
                "Measured with a fix of ours, which the engine itself lacks",
                of(|r| r.mended.as_ref().map_or("", |_| &r.choice)),
            ),
            sentence("Of engines in Rust", of(|r| &r.in_rust.name)),
            sentence(
                "Ahead of these choices, measured beside them in another run",
                of(|r| &r.elsewhere.ahead),
            ),
            sentence(
                "This project’s own engine, which has no server, tokeniser or sampling, is ahead",
                of(|r| &r.own.target),
            ),
        ]
    });
    sentences.flatten().collect()
}

/// Say place by place for which kinds of work an engine is taken: of all, of those in Rust, and of
/// those that come as a crate; empty where for none.
pub(super) fn taken(workloads: &[WorkloadView], engine: &str) -> String {
    let is_its = |target: &str| target.split(['.', '+']).next() == Some(engine);
    let places = by_place(workloads).into_iter();
    let sentences = places.flat_map(|(place, taken)| {
        let of = |among: &str, pick: fn(&Recommendation) -> &String| {
            let its = taken.iter().filter(|(_, r)| is_its(pick(r)));
            let chosen = its.map(|(work, r)| (pick(r).clone(), work.title.to_lowercase()));
            let chosen = grouped(chosen);
            (!chosen.is_empty()).then(|| format!("On {place}{among}, the guide takes {chosen}."))
        };
        [
            of("", |r| &r.choice),
            of(", where only engines in Rust count", |r| &r.in_rust.name),
            of(", where only engines that come as a crate count", |r| {
                &r.of_crates.name
            }),
        ]
    });
    sentences.flatten().collect::<Vec<_>>().join(" ")
}

/// Join targets with the work that each is taken for:
/// `a for interactive and batch; b for little memory`.
fn grouped(taken: impl Iterator<Item = (String, String)>) -> String {
    let each = by_key(taken).into_iter();
    let each = each.map(|(target, works)| format!("{target} for {}", join(&works)));
    each.collect::<Vec<_>>().join("; ")
}

/// Write the sentence at the top of the guide; `fit` is the number of runs that may carry a
/// recommendation.
pub(super) fn answer(shown: &[Shown], fit: u64, workloads: &[WorkloadView]) -> String {
    let found: Vec<String> = by_place(workloads)
        .into_iter()
        .map(|(place, taken)| {
            let said = |(work, r): &Taken| format!("{}: {}", work.title.to_lowercase(), r.short);
            let taken: Vec<String> = taken.iter().map(said).collect();
            format!("On {place}: {}.", taken.join("; "))
        })
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
            "Of {of} here none may carry a recommendation: that takes measured cells of a model of 1\u{a0}B parameters or more, in a profile that may be published."
        ),
        (false, true) => found.join(" "),
        (false, false) => format!("{} No run here covers {}.", found.join(" "), join(&open)),
    }
}

/// A kind of work, and what is taken for it in a place.
pub(super) type Taken<'w> = (&'w WorkloadView, &'w Recommendation);

/// All recommendations by place, in the page's order.
pub(super) fn by_place(workloads: &[WorkloadView]) -> Vec<(&str, Vec<Taken<'_>>)> {
    by_key(workloads.iter().flat_map(|work| {
        let all = work.recommendations.iter();
        all.map(move |r| (r.place.as_str(), (work, r)))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_named_once_with_all_the_work_that_it_is_taken_for() {
        let taken = [("a", "interactive"), ("b", "batch"), ("a", "many users")];
        let taken = taken.map(|(target, work)| (target.to_owned(), work.to_owned()));
        assert_eq!(
            grouped(taken.into_iter()),
            "a for interactive and many users; b for batch"
        );
    }
}
