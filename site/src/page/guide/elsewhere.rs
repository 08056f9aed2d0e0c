//! A choice, and what another run of the same place adds to it: the best of the targets that the
//! chosen run didn't plan or had no time for, compared with the choice in that other run, which
//! measured both in the same blocks.

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

/// A choice, with the runs that may add to it.
pub(super) struct Chosen<'s, 'a> {
    /// The run in which it was chosen.
    pub(super) shown: &'s Shown<'a>,
    /// The case that decided.
    pub(super) asked: &'s Asked<'a>,
    /// The kind of work that it was chosen for.
    pub(super) workload: &'s Workload,
    /// Id of the target.
    pub(super) target: &'s str,
    /// All runs that the guide reads.
    pub(super) runs: &'s [&'s Shown<'a>],
    /// Those of the same place that asked the same of their engines, each with the case.
    alike: Vec<(&'s Shown<'a>, Asked<'a>)>,
}

/// A target that another run has beside the choice.
pub(super) struct There<'c, 'a> {
    /// The run that has both.
    pub(super) run: &'c Shown<'a>,
    /// The case that stands for the work there.
    pub(super) asked: &'c Asked<'a>,
    /// The decision among the targets that the chosen run left out.
    pub(super) found: Decision,
    /// The comparison of that decision's target with the choice.
    pub(super) compared: Compared,
}

impl<'s, 'a> Chosen<'s, 'a> {
    /// Find those of `runs` that are alike.
    pub(super) fn new(
        shown: &'s Shown<'a>,
        asked: &'s Asked<'a>,
        workload: &'s Workload,
        target: &'s str,
        runs: &'s [&'s Shown<'a>],
    ) -> Self {
        let of_place = place::place(shown);
        let all = runs.iter().copied();
        let same_place = all.filter(|run| place::place(run) == of_place);
        let alike = same_place.filter_map(|run| Some((run, workload.asked(run)?)));
        Self {
            shown,
            asked,
            workload,
            target,
            runs,
            alike: alike.filter(|(_, there)| is_same(asked, there)).collect(),
        }
    }

    /// Whether the chosen run left a target out of the case that decides: none was planned, or
    /// there was no time for it. One that failed there is not left out: its failure is what the run
    /// found.
    pub(super) fn left_out(&self, target: &str) -> bool {
        let key = self.asked.scenario.cell_key(self.asked.case, target);
        let cell = self.shown.cell(&key);
        cell.is_none_or(|cell| matches!(cell.status, Status::OverBudget | Status::NotRun))
    }

    /// Whether a target of another run is one that others maintain and that the chosen run left
    /// out.
    fn is_new(&self, run: &Shown, target: &str) -> bool {
        self.left_out(target) && !run.is_ours(target)
    }

    /// Look for targets of a kind that the chosen run left out, measured beside the choice with the
    /// same load; of several runs take the one in which such a target compares best with it.
    pub(super) fn best_there(
        &self,
        is_of_kind: impl Fn(&Shown, &str) -> bool,
    ) -> Option<There<'_, 'a>> {
        let found = self.alike.iter().filter_map(|(run, asked)| {
            let is_new = |id: &str| self.is_new(run, id) && is_of_kind(run, id);
            let found = decision(run, asked, is_new)?;
            let all = compare(run, asked, self.target, is_new);
            let (_, compared) = all.into_iter().find(|(id, _)| *id == found.choice)?;
            Some(There {
                run,
                asked,
                found,
                compared,
            })
        });
        found.max_by(|a, b| a.compared.ratio.total_cmp(&b.compared.ratio))
    }

    /// Whether another run of the place has a target that is detectably better than the choice.
    pub(super) fn is_beaten(&self) -> bool {
        self.alike.iter().any(|(run, asked)| {
            let all = compare(run, asked, self.target, |id| self.is_new(run, id));
            let mut verdicts = all.iter().map(|(_, compared)| compared.verdict);
            verdicts.any(|verdict| verdict == Verdict::Better)
        })
    }
}

/// Say which target of a kind that the chosen run left out is the best beside the choice.
pub(super) fn elsewhere(chosen: &Chosen, is_of_kind: impl Fn(&Shown, &str) -> bool) -> Elsewhere {
    let Some(there) = chosen.best_there(is_of_kind) else {
        return Elsewhere::default();
    };
    let (workload, choice) = (chosen.workload, chosen.target);
    let target = &there.found.choice;
    let fix = mended(there.run, target);
    let fix = fix.map_or(String::new(), |fix| {
        format!(", measured with {}", fix.whole())
    });
    Elsewhere {
        ahead: match there.compared.verdict {
            Verdict::Better => target.clone(),
            _ => String::new(),
        },
        words: format!(
            "{}, {}{fix}",
            value_of(there.asked, target),
            against(&there.compared, choice)
        ),
        run_path: paths::run_path(&there.run.run.header.id),
        longer: estimate::headed(workload, there.asked, target),
        estimate: estimate::beside(workload, there.asked, target, choice),
    }
}

/// Whether two runs asked the same of their engines.
fn is_same(a: &Asked, b: &Asked) -> bool {
    let load = |asked: &Asked| (asked.case.prompt_tokens, asked.case.new_tokens);
    a.metric == b.metric
        && a.scenario.case_key(a.case) == b.scenario.case_key(b.case)
        && load(a) == load(b)
}

/// Compare each target for which `is_new` holds with the choice; p is adjusted over all pairs of
/// these targets and the choice.
pub(super) fn compare(
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
