//! What to take among engines of one kind alone (written in Rust, or available as a crate), to
//! stand beside a choice of another kind.

use super::caveats::{Caveat, limit, mended, stale};
use super::decided::{ahead, decision, tied_with, value_of};
use super::elsewhere::{Chosen, Elsewhere, against, compare, elsewhere};
use super::estimate;
use super::fewer_bits::is_memory;
use super::workload::Asked;
use crate::fmt;
use crate::view::{Shown, case_label, paths};
use serde::Serialize;
use stats::analysis::MetricId;
use stats::decide::Decision;

/// The target to take among engines of one kind; all but `instead` is empty where none is named.
#[derive(Clone, Default, Serialize)]
pub(super) struct Narrower {
    /// Id of the target.
    pub(super) choice: String,
    /// The target, with the form in which its engine comes unless that is a crate, with the words
    /// `in another run` if only another run has it, and with the size if none has a number at the
    /// size that decides.
    pub(super) name: String,
    /// The target with its value, and who is tied with it.
    short: String,
    /// Its lead, what limits it, what was mended, its speed where memory decides, and whether its
    /// engine is still released, each in a few words.
    more: Vec<Caveat>,
    /// Whether one of these has particulars.
    has_rest: bool,
    /// The estimate for a usual answer, with its heading; empty where the work has none.
    longer: String,
    /// Id and path of the run that has it; empty where that is the run of the choice.
    run: String,
    pub(super) run_path: String,
    /// The best target of the kind that the choice's run left out and another run measured beside
    /// the choice. If `run` names a run, only the estimate is set.
    pub(super) elsewhere: Elsewhere,
    /// Whether it was chosen at another size than the one that decides.
    is_at_another_size: bool,
    /// What to say where no target is named, such as `none measured`; empty where one is.
    instead: &'static str,
}

impl Narrower {
    /// Name no target.
    pub(super) fn none(instead: &'static str) -> Self {
        Self {
            instead,
            ..Self::default()
        }
    }

    /// The target, where the run of the choice has it at the size that decides.
    pub(super) fn here(&self) -> Option<&str> {
        let is_here = !self.choice.is_empty() && self.run.is_empty() && !self.is_at_another_size;
        is_here.then_some(self.choice.as_str())
    }
}

/// Decide among the engines of one kind that others maintain, if the choice is not of that kind.
/// Also name the best target of the kind that the run left out and another measured beside the
/// choice; if the run has no number of the kind, take that target, or else the best at another size.
pub(super) fn narrower(chosen: &Chosen, is_of_kind: impl Fn(&Shown, &str) -> bool) -> Narrower {
    let (shown, choice) = (chosen.shown, chosen.target);
    if is_of_kind(shown, choice) {
        return Narrower::none("the one under “Take”");
    }
    let of = |target: &str| is_of_kind(shown, target) && !shown.is_ours(target);
    if let Some(found) = decision(shown, chosen.asked, of) {
        return Narrower {
            elsewhere: elsewhere(chosen, is_of_kind),
            ..view(chosen, shown, chosen.asked, &found)
        };
    }
    let Some(there) = chosen.best_there(&is_of_kind) else {
        return at_another_size(chosen, of).unwrap_or(Narrower::none("none measured"));
    };
    let mut found = view(chosen, there.run, there.asked, &there.found);
    found.elsewhere.estimate =
        estimate::beside(chosen.workload, there.asked, &there.found.choice, choice);
    found.name.push_str(" in another run");
    let compared = against(&there.compared, choice);
    found.more.insert(0, Caveat::new(compared));
    found.run = there.run.run.header.id.clone();
    found.run_path = paths::run_path(&found.run);
    found
}

/// Decide among the targets of a kind that the run had no time for at the size that decides, at the
/// nearest size at which any of them has a number.
fn at_another_size(chosen: &Chosen, of: impl Fn(&str) -> bool) -> Option<Narrower> {
    let is_left_out = |target: &str| of(target) && chosen.left_out(target);
    let sizes = chosen.asked.at_other_sizes(chosen.shown).into_iter();
    let mut found = sizes.filter_map(|asked| {
        let found = decision(chosen.shown, &asked, is_left_out)?;
        Some((asked, found))
    });
    let (asked, found) = found.next()?;
    let size = case_label(asked.scenario, asked.case);
    let wanted = case_label(chosen.asked.scenario, chosen.asked.case);
    let mut view = view(chosen, chosen.shown, &asked, &found);
    let all = compare(chosen.shown, &asked, chosen.target, is_left_out);
    let compared = all.iter().find(|(id, _)| *id == found.choice);
    let compared = compared.map(|(_, compared)| Caveat::new(against(compared, chosen.target)));
    let size_first = Caveat::new(format!("at {size}, since it has no number at {wanted}"));
    view.more = [Some(size_first), compared]
        .into_iter()
        .flatten()
        .chain(view.more)
        .collect();
    view.name.push_str(&format!(" at {size}"));
    view.longer.clear();
    view.is_at_another_size = true;
    Some(view)
}

/// Describe a decision of `run`, which measured the choice too.
fn view(chosen: &Chosen, run: &Shown, asked: &Asked, found: &Decision) -> Narrower {
    let target = found.choice.clone();
    let only = (found.measured == 1).then(|| Caveat::new("the only one with a number"));
    let mended = mended(run, &target).map(|fix| fix.after("measured with "));
    let more = [
        ahead(found).map(Caveat::new),
        only,
        limit(run, &target),
        mended,
        speed(asked, &target, chosen.target).map(Caveat::new),
        stale(run, &target),
    ];
    let more: Vec<Caveat> = more.into_iter().flatten().collect();
    Narrower {
        name: match run.comes_as(&target) {
            Some("in Rust, as a Python package") => {
                format!("{target} (a Python package; this version’s Rust form was not measured)")
            }
            Some(form) if !run.is_crate(&target) => format!("{target} ({form})"),
            _ => target.clone(),
        },
        short: format!("{}{}", value_of(asked, &target), tied_with(found)),
        has_rest: more.iter().any(Caveat::has_rest),
        more,
        longer: estimate::headed(chosen.workload, asked, &target),
        choice: target,
        ..Narrower::default()
    }
}

/// Where memory decides, how fast a target is beside the choice: the least memory may be slow.
fn speed(asked: &Asked, target: &str, choice: &str) -> Option<String> {
    let of = |id: &str| Some(fmt::metric(asked.cell(id)?.metric(MetricId::OutputTokPerS)?).0);
    let (here, of_choice) = (of(target)?, of(choice)?);
    let said = || format!("output throughput there {here}, of {choice} {of_choice}");
    is_memory(asked).then(said)
}
