//! The opening sentences of an engine's page: how it stands, made from comparisons alone, and
//! whether only small models were measured.

use crate::fmt;
use crate::view::Shown;
use crate::view::eligible::PARAMETERS_MIN;
use crate::view::place::{parameters, publishable};
use crate::words::plural;
use stats::analysis::{Cell, Comparison, Role};

/// Say that all publishable runs in `all` with a number of an engine are of models too small for a
/// recommendation; empty where one is of a larger model or of unknown size, and where there is no
/// such run.
pub fn only_small(all: &[Shown], engine: &str) -> String {
    let has_numbers = |run: &&Shown| run.targets_of(engine).any(|t| run.has_numbers(&t.id));
    let measured = publishable(all).into_iter().filter(has_numbers);
    let sizes: Option<Vec<u64>> = measured.map(parameters).collect();
    let sizes = sizes.unwrap_or_default();
    let Some(&most) = sizes.iter().max().filter(|most| **most < PARAMETERS_MIN) else {
        return String::new();
    };
    let models = match sizes.iter().all(|size| *size == most) {
        true => "a model of",
        false => "models of at most",
    };
    format!(
        "In runs that may be published it was measured only with {models} {}, in which most of a request is overhead; that says nothing about real models.",
        plural(most, "parameter", "parameters")
    )
}

/// Write how an engine stands in a run, named as `named`: its best target in every scenario against
/// the baseline, and how many scenarios it leads, alone or tied.
pub fn of_engine(shown: &Shown, engine: &str, named: &str) -> String {
    let targets = || shown.targets_of(engine);
    let mut best: Vec<(&str, &Comparison)> = Vec::new();
    let (mut led, mut ranked) = (0, 0);
    for (scenario, case, id) in shown.headlines().filter(|(s, ..)| !s.has_own_loads()) {
        if shown.analysis.undecided(&scenario.case_key(case)) {
            continue;
        }
        let cells = targets().filter_map(|t| shown.cell(&scenario.cell_key(case, &t.id)));
        let cells: Vec<_> = cells.filter(|cell| cell.metric(id).is_some()).collect();
        if cells.is_empty() {
            continue;
        }
        ranked += 1;
        led += u64::from(cells.iter().any(|cell| cell.rank == Some(1)));
        let of = |cell: &&Cell| {
            let key = scenario.cell_key(case, &cell.target);
            shown.analysis.comparison(&key, Role::Baseline)
        };
        let finite = cells.iter().filter_map(of).filter(|c| c.ratio.is_finite());
        let found = finite.max_by(|a, b| a.ratio.total_cmp(&b.ratio));
        best.extend(found.map(|c| (shown.title(scenario), c)));
    }
    if ranked == 0 {
        return format!("Nothing of it can be ranked in {named}.");
    }
    let leads = match (led, ranked) {
        (0, 1) => format!("In {named} it does not lead the only scenario"),
        (_, 1) => format!("In {named} it leads the only scenario, alone or tied"),
        (0, _) => format!("In {named} it leads none of {ranked} scenarios"),
        _ => format!("In {named} it leads {led} of {ranked} scenarios, alone or tied"),
    };
    best.sort_by(|a, b| a.1.ratio.total_cmp(&b.1.ratio));
    let words = |(title, c): &(&str, &Comparison)| {
        let ratio = fmt::joined(fmt::ratio(c.ratio, c.ci95));
        let tie = match c.verdict.is_tie() {
            true => ", no detectable difference",
            false => "",
        };
        format!("{ratio} ({} in {}{tie})", c.target, title.to_lowercase())
    };
    match best.as_slice() {
        [] if targets().any(|target| target.id == shown.baseline()) => {
            format!("{leads}; it is what the others are compared with.")
        }
        [] => format!(
            "{leads}; the baseline {} has no number there.",
            shown.baseline()
        ),
        [one] => format!(
            "{leads}; its best target is {} as good as the baseline {}, by the scenario’s leading metric at the size shown.",
            words(one),
            shown.baseline()
        ),
        [least, .., most] => format!(
            "{leads}. Scenario by scenario, by its leading metric at the size shown, its best target is between {} and {} as good as the baseline {}. Other metrics differ: the table has them.",
            words(least),
            words(most),
            shown.baseline()
        ),
    }
}
