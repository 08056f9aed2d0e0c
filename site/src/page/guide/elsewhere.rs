//! What another run of the same place adds to a choice: the best of the targets that the chosen run
//! lacks, compared with the choice in that other run, where both ran in the same blocks.

use super::workload::{Asked, Workload};
use super::{decision, value_of};
use crate::fmt;
use crate::view::{Shown, paths, place};
use serde::Serialize;
use stats::analysis::Verdict;
use stats::pairs::{Compared, pairs};

/// The best target that the chosen run lacks; empty where there is none.
#[derive(Clone, Default, Serialize)]
pub(super) struct Elsewhere {
    /// Id of the target where it is detectably better than the choice, else empty.
    pub(super) ahead: String,
    /// The target with its value, and how it compares with the choice.
    words: String,
    /// Path of the run that has both.
    run_path: String,
}

/// Look among `runs` for targets that `shown` lacks, measured beside `choice` with the same load; of
/// several runs take the one in which such a target compares best with the choice.
pub(super) fn elsewhere(
    shown: &Shown,
    asked: &Asked,
    workload: &Workload,
    choice: &str,
    runs: &[&Shown],
) -> Elsewhere {
    let same_place = |run: &&&Shown| place::place(run) == place::place(shown);
    let found = runs.iter().filter(same_place).filter_map(|run| {
        let there = workload.asked(run).filter(|there| is_same(asked, there))?;
        let is_new = |id: &str| shown.target(id).is_none() && !run.is_ours(id);
        let target = decision(run, &there, is_new)?.choice;
        let compared = compare(run, &there, &target, choice, is_new)?;
        let words = format!(
            "{}, {}",
            value_of(&there, &target),
            against(&compared, choice)
        );
        let found = Elsewhere {
            ahead: match compared.verdict {
                Verdict::Better => target,
                _ => String::new(),
            },
            words,
            run_path: paths::run_path(&run.run.header.id),
        };
        Some((compared.ratio, found))
    });
    let best = found.max_by(|a, b| a.0.total_cmp(&b.0));
    best.map_or(Elsewhere::default(), |(_, found)| found)
}

/// Whether two runs asked the same of their engines.
fn is_same(a: &Asked, b: &Asked) -> bool {
    let load = |asked: &Asked| (asked.case.prompt_tokens, asked.case.new_tokens);
    a.metric == b.metric
        && a.scenario.case_key(a.case) == b.scenario.case_key(b.case)
        && load(a) == load(b)
}

/// Compare a target with the choice; p is adjusted over all pairs of the new targets and the choice.
fn compare(
    run: &Shown,
    asked: &Asked,
    target: &str,
    choice: &str,
    is_new: impl Fn(&str) -> bool,
) -> Option<Compared> {
    let ids = asked.cells.iter().map(|cell| cell.target.as_str());
    let ids: Vec<&str> = ids.filter(|id| *id == choice || is_new(id)).collect();
    let at = asked.scenario.case_key(asked.case);
    let all = pairs(run.analysis, &at, asked.metric, &ids);
    all.into_iter().find_map(|pair| match pair.outcome {
        Ok(compared) if pair.a == target && pair.b == choice => Some(compared),
        Ok(compared) if pair.a == choice && pair.b == target => Some(compared.reversed()),
        _ => None,
    })
}

/// Word how a target compares with the choice.
fn against(compared: &Compared, choice: &str) -> String {
    let ratio = |compared: &Compared| fmt::joined(fmt::ratio(compared.ratio, compared.ci95));
    match compared.verdict {
        Verdict::Better => format!("{} over {choice}", ratio(compared)),
        Verdict::Worse => format!(
            "behind {choice}, which has {} over it",
            ratio(&compared.reversed())
        ),
        _ => format!("not told from {choice} ({})", ratio(compared)),
    }
}
