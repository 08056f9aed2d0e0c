//! What another run of the same place adds to a choice: the best of the targets that the chosen run
//! didn't plan or had no time for, compared with the choice in that other run, which measured both
//! in the same blocks.

use super::caveats::mended;
use super::decided::{decision, value_of};
use super::estimate;
use super::workload::{Asked, Workload};
use crate::fmt;
use crate::view::{Shown, paths, place};
use schema::record::Status;
use serde::Serialize;
use stats::analysis::Verdict;
use stats::decide::Decision;
use stats::pairs::{Compared, pairs};

/// The best target that the chosen run left out; empty where there is none.
#[derive(Clone, Default, Serialize)]
pub(super) struct Elsewhere {
    /// Id of the target where it is detectably better than the choice, else empty.
    pub(super) ahead: String,
    /// The target with its value, how it compares with the choice, and what was mended.
    words: String,
    /// Path of the run that has both.
    pub(super) run_path: String,
    /// The estimate for a usual answer, with its heading; empty where the work has none.
    longer: String,
    /// The target's estimate beside that of the choice, for the guide's sentence.
    pub(super) estimate: String,
}

/// A target that another run has beside the choice.
pub(super) struct There<'s, 'a> {
    /// The run that has both.
    pub(super) run: &'s Shown<'a>,
    /// The case that stands for the work there.
    pub(super) asked: Asked<'a>,
    /// The decision among the targets that the chosen run left out.
    pub(super) found: Decision,
    /// The comparison of that decision's target with the choice.
    pub(super) compared: Compared,
}

/// Say which target of a kind that `shown` left out is the best beside `choice`.
pub(super) fn elsewhere(
    shown: &Shown,
    asked: &Asked,
    workload: &Workload,
    choice: &str,
    runs: &[&Shown],
    is_of_kind: impl Fn(&Shown, &str) -> bool,
) -> Elsewhere {
    let Some(there) = best(shown, asked, workload, choice, runs, is_of_kind) else {
        return Elsewhere::default();
    };
    let target = &there.found.choice;
    let fix = match mended(there.run, target) {
        fix if fix.is_empty() => fix,
        fix => format!(", measured with {fix}"),
    };
    Elsewhere {
        ahead: match there.compared.verdict {
            Verdict::Better => target.clone(),
            _ => String::new(),
        },
        words: format!(
            "{}, {}{fix}",
            value_of(&there.asked, target),
            against(&there.compared, choice)
        ),
        run_path: paths::run_path(&there.run.run.header.id),
        longer: estimate::headed(workload, &there.asked, target),
        estimate: estimate::beside(workload, &there.asked, target, choice),
    }
}

/// Look among `runs` for targets of a kind that `shown` left out, measured beside `choice` with the
/// same load; of several runs take the one in which such a target compares best with the choice.
pub(super) fn best<'s, 'a>(
    shown: &Shown,
    asked: &Asked,
    workload: &Workload,
    choice: &str,
    runs: &[&'s Shown<'a>],
    is_of_kind: impl Fn(&Shown, &str) -> bool,
) -> Option<There<'s, 'a>> {
    let alike = alike(shown, asked, workload, runs);
    let found = alike.into_iter().filter_map(|(run, there)| {
        let is_new =
            |id: &str| is_left_out(shown, asked, id) && !run.is_ours(id) && is_of_kind(run, id);
        let found = decision(run, &there, is_new)?;
        let all = compare(run, &there, choice, is_new);
        let (_, compared) = all.into_iter().find(|(id, _)| *id == found.choice)?;
        Some(There {
            run,
            asked: there,
            found,
            compared,
        })
    });
    found.max_by(|a, b| a.compared.ratio.total_cmp(&b.compared.ratio))
}

/// Whether another run of the place has a target that is detectably better than `choice`.
pub(super) fn is_beaten(
    shown: &Shown,
    asked: &Asked,
    workload: &Workload,
    choice: &str,
    runs: &[&Shown],
) -> bool {
    alike(shown, asked, workload, runs)
        .iter()
        .any(|(run, there)| {
            let is_new = |id: &str| is_left_out(shown, asked, id) && !run.is_ours(id);
            let all = compare(run, there, choice, is_new);
            all.iter()
                .any(|(_, compared)| compared.verdict == Verdict::Better)
        })
}

/// The runs of the same place that asked the same of their engines, each with the case.
fn alike<'s, 'a>(
    shown: &Shown,
    asked: &Asked,
    workload: &Workload,
    runs: &[&'s Shown<'a>],
) -> Vec<(&'s Shown<'a>, Asked<'a>)> {
    let all = runs.iter().copied();
    let same_place = all.filter(|run| place::place(run) == place::place(shown));
    let alike = same_place.filter_map(|run| Some((run, workload.asked(run)?)));
    alike.filter(|(_, there)| is_same(asked, there)).collect()
}

/// Whether a run has no number of a target because none was planned, or there was no time for it.
/// One that failed there is not left out: its failure is what the run found.
fn is_left_out(shown: &Shown, asked: &Asked, target: &str) -> bool {
    let cell = shown.cell(&asked.scenario.cell_key(asked.case, target));
    cell.is_none_or(|cell| matches!(cell.status, Status::OverBudget | Status::NotRun))
}

/// Whether two runs asked the same of their engines.
fn is_same(a: &Asked, b: &Asked) -> bool {
    let load = |asked: &Asked| (asked.case.prompt_tokens, asked.case.new_tokens);
    a.metric == b.metric
        && a.scenario.case_key(a.case) == b.scenario.case_key(b.case)
        && load(a) == load(b)
}

/// Compare each new target with the choice; p is adjusted over all pairs of these targets and the
/// choice.
fn compare(
    run: &Shown,
    asked: &Asked,
    choice: &str,
    is_new: impl Fn(&str) -> bool,
) -> Vec<(String, Compared)> {
    let ids = asked.cells.iter().map(|cell| cell.target.as_str());
    let ids: Vec<&str> = ids.filter(|id| *id == choice || is_new(id)).collect();
    let at = asked.scenario.case_key(asked.case);
    let all = pairs(run.analysis, &at, asked.metric, &ids);
    let with_choice = all.into_iter().filter_map(|pair| match pair.outcome {
        Ok(compared) if pair.b == choice => Some((pair.a, compared)),
        Ok(compared) if pair.a == choice => Some((pair.b, compared.reversed())),
        _ => None,
    });
    with_choice.collect()
}

/// Word how a target compares with the choice.
pub(super) fn against(compared: &Compared, choice: &str) -> String {
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
