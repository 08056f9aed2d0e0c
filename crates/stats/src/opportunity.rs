//! Gaps between targets and limits, and what reaching a limit would give at most: an upper bound
//! for those who look for something to optimise, never a promise.
//!
//! Each limit is one that was measured on the same machine, or arithmetic: memory bandwidth in
//! decode, arithmetic in prefill, linear growth under load, work in proportion to the prompt, a GPU
//! without gaps between kernels. They bound different work, so the gains of two limits don't
//! multiply, and each gain is of its own metric only.

use crate::analysis::{Analysis, Cell, MetricId};
use crate::ci::Interval;
use crate::kernels;
use crate::power_law;
use schema::key::CaseKey;
use schema::plan::PlannedScenario;
use schema::run::Run;
use schema::scenario::{Axis, LoadShape};

/// Minimum gain of a gap that is listed, because no limit is known more exactly than this.
pub const GAIN_MIN: f64 = 1.05;

/// The kind of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Decode, limited by the memory bandwidth of the target's device, measured in the same run.
    /// The measured value is a percentage of it.
    Decode,
    /// Prefill, limited by the device's FLOP/s in the target's number format, measured in the same
    /// run. The measured value is a percentage of it.
    Prefill,
    /// Throughput under load, limited by linear growth from one request. The measured value is a
    /// fraction of it.
    Scaling,
    /// Time to first token, limited by work in proportion to the prompt. The measured value is the
    /// exponent.
    Context,
    /// Decode on a GPU, where at the limit there are no gaps between kernels. The measured value is
    /// the share of gaps in one traced launch, a fraction.
    LaunchGaps,
}

/// A gap between a target and a limit.
#[derive(Clone, Debug, PartialEq)]
pub struct Opportunity {
    /// Kind of the limit.
    pub kind: Kind,
    /// Target id.
    pub target: String,
    /// Scenario id.
    pub scenario: String,
    /// Case id; where several cases are measured, that of the last.
    pub case: String,
    /// Least and greatest value on the axis; equal where one case is measured.
    pub span: (u32, u32),
    /// Measured value, as `kind` says.
    pub measured: f64,
    /// 95 % interval of the measured value; `None` with one launch.
    pub ci95: Option<(f64, f64)>,
    /// How many times better the metric would be at the limit.
    pub gain: f64,
    /// Interval of the gain, from that of the measured value.
    pub gain_ci95: Option<(f64, f64)>,
}

impl Opportunity {
    /// Return the key of the case.
    pub fn case_key(&self) -> CaseKey {
        CaseKey::new(&self.scenario, &self.case)
    }

    /// Return the value that gaps are ranked by: the lower end of the gain's interval, 1 without an
    /// interval. It is the part of the gain that is certain; whether any of it can be reached is
    /// another question.
    fn sure(&self) -> f64 {
        self.gain_ci95.map_or(1.0, |(low, _)| low)
    }
}

/// Find all gaps of a run, in descending order of their certain gain.
pub fn opportunities(run: &Run, analysis: &Analysis) -> Vec<Opportunity> {
    let mut all = Vec::new();
    for scenario in &run.header.plan.scenarios {
        for target in &run.header.plan.targets {
            let of = |c: &&Cell| c.scenario == scenario.id && c.target == target.id;
            let cells: Vec<&Cell> = analysis.cells.iter().filter(of).collect();
            all.extend(of_cells(scenario, &cells));
        }
    }
    all.extend(analysis.scalings.iter().filter_map(|scaling| {
        let of = |c: &&Cell| {
            let same = c.scenario == scaling.scenario && c.target == scaling.target;
            same && c.axis_value == scaling.load
        };
        let cell = analysis.cells.iter().find(of)?;
        let found = (Kind::Scaling, scaling.fraction, scaling.ci95);
        make(found, cell, (1, scaling.load), |fraction| 1.0 / fraction)
    }));
    all.extend(run.kernels.iter().filter_map(|launch| {
        let traced = kernels::analyse(launch)
            .ok()
            .filter(|found| !found.synthetic)?;
        let share = traced.decode.gap_fraction()?;
        let case = launch.log.launch.cases.first()?;
        let cell = analysis.cell(&launch.log.launch.cell_key(case))?;
        let at = (cell.axis_value, cell.axis_value);
        make((Kind::LaunchGaps, share, None), cell, at, |gaps| {
            1.0 / (1.0 - gaps)
        })
    }));
    all.retain(|o| o.gain >= GAIN_MIN);
    // The sort is stable, so equal gaps keep the plan's order.
    all.sort_by(|a, b| b.sure().total_cmp(&a.sure()));
    all
}

/// Find the gaps of one target's cells in a scenario of one request at a time.
fn of_cells(scenario: &PlannedScenario, cells: &[&Cell]) -> Vec<Opportunity> {
    // Where prompts are cached, a request is less work than its length says.
    if scenario.load != LoadShape::Serial || scenario.reuses_prompts() {
        return Vec::new();
    }
    let of = |kind, id| {
        let has = |c: &&&Cell| c.metric(id).is_some();
        let cell = cells.iter().filter(has).max_by_key(|c| c.axis_value)?;
        let metric = cell.metric(id)?;
        let at = (cell.axis_value, cell.axis_value);
        make((kind, metric.value, metric.ci95), cell, at, |percent| {
            100.0 / percent
        })
    };
    let decode = of(Kind::Decode, MetricId::DecodeMbuPercent);
    let prefill = of(Kind::Prefill, MetricId::PrefillMfuPercent);
    let context = || {
        // The time of short prompts is mostly the fixed cost of a request, so two lengths aren't
        // enough.
        if scenario.axis != Axis::PromptTokens || cells.len() < 3 {
            return None;
        }
        let grown = power_law::of_cells(cells, MetricId::TtftNs)?;
        let longer = f64::from(grown.to) / f64::from(grown.from);
        let last = cells.iter().find(|c| c.axis_value == grown.to)?;
        let Interval { mean, low, high } = grown.law.exponent;
        let found = (Kind::Context, mean, Some((low, high)));
        make(found, last, (grown.from, grown.to), |e| {
            longer.powf(e - 1.0)
        })
    };
    [decode, prefill, context()].into_iter().flatten().collect()
}

/// Make a gap from a measured value; `None` where value or gain isn't finite and positive.
fn make(
    (kind, measured, ci95): (Kind, f64, Option<(f64, f64)>),
    cell: &Cell,
    span: (u32, u32),
    gain: impl Fn(f64) -> f64,
) -> Option<Opportunity> {
    let usable = |x: f64| (x.is_finite() && x > 0.0).then_some(x);
    let gain_ci95 = ci95.and_then(|(low, high)| {
        let (a, b) = (usable(gain(low))?, usable(gain(high))?);
        Some((a.min(b), a.max(b)))
    });
    Some(Opportunity {
        kind,
        target: cell.target.clone(),
        scenario: cell.scenario.clone(),
        case: cell.case.clone(),
        span,
        measured: usable(measured)?,
        ci95,
        gain: usable(gain(measured))?,
        gain_ci95,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::Metric;
    use schema::key::CellKey;

    fn cell(axis_value: u32, metrics: &[(MetricId, [f64; 3])]) -> Cell {
        let metric = |(id, values): &(MetricId, [f64; 3])| Metric {
            ci95: crate::ci::mean_interval(values).map(|i| (i.low, i.high)),
            ..Metric::of(*id, values.iter().sum::<f64>() / 3.0, values.to_vec())
        };
        Cell {
            metrics: metrics.iter().map(metric).collect(),
            ..Cell::new(
                CellKey::new("t", "long_context", format!("p{axis_value}")),
                axis_value,
            )
        }
    }

    fn scenario(load: LoadShape) -> PlannedScenario {
        PlannedScenario {
            id: "long_context".into(),
            load,
            axis: Axis::PromptTokens,
            ..PlannedScenario::default()
        }
    }

    #[test]
    fn the_bound_of_a_share_is_its_inverse_at_the_largest_case() {
        let mbu = MetricId::DecodeMbuPercent;
        let cells = [
            cell(10, &[(mbu, [10.0; 3])]),
            cell(50, &[(mbu, [38.0, 40.0, 42.0])]),
        ];
        let cells: Vec<&Cell> = cells.iter().collect();
        let found = of_cells(&scenario(LoadShape::Serial), &cells);
        let [decode] = &found[..] else {
            panic!("{found:?}")
        };
        assert_eq!((decode.kind, decode.case.as_str()), (Kind::Decode, "p50"));
        assert!((decode.gain - 2.5).abs() < 1e-12);
        // 40 ± t(2)·2/√3 = 40 ± 4.968: between 100/44.968 and 100/35.032.
        let (low, high) = decode.gain_ci95.unwrap();
        assert!((low - 2.22379).abs() < 1e-4 && (high - 2.85453).abs() < 1e-4);
        assert!(of_cells(&scenario(LoadShape::ClosedLoop), &cells).is_empty());
    }

    #[test]
    fn growth_beyond_the_prompt_s_is_the_gap_at_the_longest() {
        let ttft = MetricId::TtftNs;
        let square = |x: u32| {
            cell(
                x,
                &[(ttft, [1.0, 1.01, 0.99].map(|f| f * f64::from(x * x)))],
            )
        };
        let cells = [square(100), square(200), square(400)];
        let refs: Vec<&Cell> = cells.iter().collect();
        let found = of_cells(&scenario(LoadShape::Serial), &refs);
        assert_eq!((found[0].kind, found[0].span), (Kind::Context, (100, 400)));
        assert!((found[0].measured - 2.0).abs() < 1e-9);
        assert!((found[0].gain - 4.0).abs() < 1e-9);
        // Two lengths are too few for an exponent.
        assert!(of_cells(&scenario(LoadShape::Serial), &refs[..2]).is_empty());
    }

    #[test]
    fn nonsense_has_no_gain() {
        for value in [0.0, -3.0, f64::NAN, f64::INFINITY] {
            let cells = [cell(10, &[(MetricId::DecodeMbuPercent, [value; 3])])];
            let refs: Vec<&Cell> = cells.iter().collect();
            assert!(
                of_cells(&scenario(LoadShape::Serial), &refs).is_empty(),
                "{value}"
            );
        }
    }
}
