//! Finds comparisons in other runs, for the cases in which the run shown doesn't compare a pair.
//! Each comparison is made within one run, as those of the run shown are.

use super::{AllPairs, CasePairs};
use crate::view::Shown;
use crate::view::eligible::is_real_size;
use crate::view::place::{coverage_rank, machine, model, publishable};
use schema::key::CaseKey;
use serde::Serialize;
use stats::analysis::MetricId;
use stats::pairs::Compared;
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// The other publishable runs that have at least two targets of the run shown, with all their
/// pairs. Runs of the same model come first, and then those that cover more of the benchmark.
pub struct OtherRuns<'s, 'a> {
    runs: Vec<(&'s Shown<'a>, AllPairs<'a>)>,
}

/// A comparison that another run has.
pub struct Found {
    /// Label of the case, e.g. `Sustained load, 8 in flight`.
    pub case: String,
    /// The metric that is compared.
    pub metric: MetricId,
    /// The comparison, as seen from the first of the pair.
    pub compared: Compared,
    /// The run that has it.
    pub of: OfRun,
}

/// The run that a row is of, where it isn't the run shown.
#[derive(Serialize)]
pub struct OfRun {
    id: String,
    model: String,
    /// The lengths of prompt and answer.
    load: String,
    /// How model or machine differ from those of the run shown; empty if neither does.
    differs: String,
}

impl<'s, 'a> OtherRuns<'s, 'a> {
    /// Compare the pairs of all runs but `shown`.
    pub fn new(shown: &Shown, all: &'s [Shown<'a>]) -> Self {
        let is_another = |run: &Shown| run.run.header.id != shown.run.header.id;
        let has_pairs = |run: &Shown| {
            let targets = run.targets().iter();
            targets.filter(|t| shown.target(&t.id).is_some()).count() >= 2
        };
        let mut runs = publishable(all);
        runs.retain(|run| is_another(run) && has_pairs(run));
        runs.sort_by_key(|run| {
            let rank = coverage_rank(run.run, run.input.models);
            Reverse((has_same_model(shown, run), rank))
        });
        let with_pairs = runs.into_iter().map(|run| (run, AllPairs::new(run)));
        Self {
            runs: with_pairs.collect(),
        }
    }

    /// Find the comparisons of `target` with `other` in the cases for which `pairs`, those of the
    /// run `shown`, have none. Each case comes from the first run that compares the two in it.
    pub fn find(&self, shown: &Shown, pairs: &AllPairs, target: &str, other: &str) -> Vec<Found> {
        let of_pair = |case: &CasePairs| case.seen_from(target, other)?.ok();
        let compared_here = pairs.cases.iter().filter(|case| of_pair(case).is_some());
        let mut known: BTreeSet<(CaseKey, u32)> = compared_here.map(load_of).collect();
        let mut found = Vec::new();
        for (run, pairs) in &self.runs {
            for case in &pairs.cases {
                let Some(compared) = of_pair(case) else {
                    continue;
                };
                if known.insert(load_of(case)) {
                    found.push(Found {
                        case: case.label(run),
                        metric: case.metric,
                        compared,
                        of: of_run(shown, run, case),
                    });
                }
            }
        }
        found
    }
}

/// What identifies a load across runs: the case, which includes the number of users, and the length
/// of its prompts (tokens).
fn load_of(case: &CasePairs) -> (CaseKey, u32) {
    (case.scenario.case_key(case.case), case.case.prompt_tokens)
}

fn has_same_model(shown: &Shown, run: &Shown) -> bool {
    run.run.header.plan.model == shown.run.header.plan.model
}

fn of_run(shown: &Shown, run: &Shown, pairs: &CasePairs) -> OfRun {
    let case = pairs.case;
    let mut differs = Vec::new();
    if !has_same_model(shown, run) {
        let small = match is_real_size(run) {
            Some(false) => ", so small that most of a request is overhead",
            _ => "",
        };
        differs.push(format!("another model than that of the run shown{small}"));
    }
    if machine(run.run) != machine(shown.run) {
        differs.push(format!("another machine: {}", machine(run.run)));
    }
    let at_most = match case.has_mixed_lengths() {
        true => "up to ",
        false => "",
    };
    OfRun {
        id: run.run.header.id.clone(),
        model: model(run),
        load: format!(
            "{at_most}{} prompt and {} output tokens",
            case.prompt_tokens, case.new_tokens
        ),
        differs: differs.join("; "),
    }
}
