//! The tables of the cost page: each target at the load at which it delivers most, and which columns
//! have a value.

use super::loads::{Basis, UTILISATION, cost, load, per_hour, per_joule, saved};
use super::prices::{Number, dollars, percent, saving_in_words, with_interval};
use crate::fmt::Unit;
use crate::view::Shown;
use crate::view::cells::swatch;
use crate::view::place::target_path;
use crate::words::lower_first;
use schema::registry::Target;
use serde::Serialize;
use stats::cost::{
    Point, api_usd_per_request, break_even_utilisation, energy_usd_per_m_tokens, requests_per_h,
};

/// What the baseline has in the place of a saving.
const BASELINE: &str = "the baseline";

/// The table of each target's best load.
#[derive(Serialize)]
pub struct CostGroup {
    /// Whether it has only loads that keep the limits.
    within: bool,
    /// The load of every row, for the caption; empty where they differ, and where a target has none.
    load: String,
    columns: Columns,
    rows: Vec<CostRow>,
}

/// Which columns have a value in any row. Others are left out; those that a typed-in price may fill
/// stay on the page, hidden, and the script shows them.
#[derive(Serialize)]
struct Columns {
    /// Throughput, and what follows from it without a price.
    measured: bool,
    per_joule: bool,
    cost: bool,
    saving: bool,
    energy: bool,
    break_even: bool,
}

/// A row; what is empty can't be said.
#[derive(Default, Serialize)]
struct CostRow {
    swatch: String,
    target: String,
    path: String,
    load: String,
    tok_per_s: String,
    per_hour: String,
    per_joule: String,
    cost: Number,
    requests: Number,
    saving: String,
    energy: Number,
    break_even: Number,
}

impl CostGroup {
    /// Whether any row has energy readings.
    pub fn has_energy(&self) -> bool {
        self.rows.iter().any(|row| !row.energy.kind.is_empty())
    }
}

/// Make the table of each target's best load; if `within`, of those that keep the limits.
pub fn group(shown: &Shown, basis: &Basis, targets: &[&Target], within: bool) -> CostGroup {
    let best = |target: &str| basis.work.best(target, within);
    let throughput = |target: &Target| best(&target.id).map_or(-1.0, |p| p.tok_per_s.value);
    let mut targets = targets.to_vec();
    targets.sort_by(|a, b| throughput(b).total_cmp(&throughput(a)));
    let baseline = best(shown.baseline());
    let rows: Vec<CostRow> = targets
        .into_iter()
        .map(|target| row(shown, basis, target, best(&target.id), baseline, within))
        .collect();
    CostGroup {
        within,
        load: common_load(&rows),
        columns: columns(&rows),
        rows,
    }
}

/// The load that all rows have; empty where they differ, and where a target has none.
fn common_load(rows: &[CostRow]) -> String {
    let first = rows.first().map_or("", |row| row.load.as_str());
    let is_common = |row: &CostRow| row.load == first && !row.tok_per_s.is_empty();
    match rows.iter().all(is_common) {
        true => lower_first(first),
        false => String::new(),
    }
}

fn columns(rows: &[CostRow]) -> Columns {
    let any = |has: fn(&CostRow) -> bool| rows.iter().any(has);
    Columns {
        measured: any(|row| !row.tok_per_s.is_empty()),
        per_joule: any(|row| !row.per_joule.is_empty()),
        cost: any(|row| row.cost.is_known()),
        saving: any(|row| !row.saving.is_empty() && row.saving != BASELINE),
        energy: any(|row| row.energy.is_known()),
        break_even: any(|row| row.break_even.is_known()),
    }
}

fn row(
    shown: &Shown,
    basis: &Basis,
    target: &Target,
    best: Option<&Point>,
    baseline: Option<&Point>,
    within: bool,
) -> CostRow {
    let mut row = CostRow {
        swatch: swatch(shown, &target.id),
        target: target.id.clone(),
        path: target_path(shown, &target.id),
        ..CostRow::default()
    };
    let Some(point) = best else {
        let measured = basis.work.points.iter().any(|p| p.target == target.id);
        row.load = match measured && within {
            true => "no measured load keeps the limits".into(),
            false => "not measured under load".into(),
        };
        return row;
    };
    row.load = load(shown, point);
    row.tok_per_s = with_interval(Unit::TokPerS, point.tok_per_s);
    row.per_hour = per_hour(basis, point);
    row.per_joule = per_joule(point).unwrap_or_default();
    row.cost = cost(basis, point);
    let per_h = requests_per_h(point.requests_per_s, UTILISATION);
    row.requests = Number::new(
        "requests",
        point.requests_per_s,
        per_h.map(|r| with_interval(Unit::Plain, r)),
    );
    row.saving = match baseline {
        Some(base) if base.target == point.target => BASELINE.into(),
        Some(base) => saved(shown, point, base).map_or(String::new(), saving_in_words),
        None => String::new(),
    };
    if let Some(energy) = point.j_per_token {
        let usd = basis
            .usd_per_kwh
            .and_then(|kwh| energy_usd_per_m_tokens(energy, kwh));
        row.energy = Number::new("energy", energy, usd.map(dollars));
    }
    let work = &basis.work;
    let share = basis.api.zip(basis.usd_per_h);
    let share = share.and_then(|((input, output), usd_per_h)| {
        let request = api_usd_per_request(work.prompt_tokens, work.new_tokens, input, output);
        break_even_utilisation(point.requests_per_s, usd_per_h, request)
    });
    row.break_even = Number::new("even", point.requests_per_s, share.map(percent));
    row
}
