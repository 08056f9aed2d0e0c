//! The roofline of a scenario: how near the targets come to a device's limits with one request at a
//! time, in prefill of the headline case, and in decode where the weights can't stay in a cache. It
//! is drawn only where the run measured both limits of a device and knows the model's work. Targets
//! on other devices are named as missing.

use crate::chart::roofline::{Point, Roofline};
use crate::chart::{Estimate, Figure};
use crate::fmt;
use crate::view::cells::rests_on;
use crate::view::primary::primary;
use crate::view::{Shown, case_label};
use schema::plan::PlannedScenario;
use schema::registry::{DeviceKind, Target};
use schema::scenario::LoadShape;
use stats::analysis::MetricId;
use stats::utilization::{Limits, Work};
use std::collections::BTreeMap;

/// The limits of a device in one number format, as the chart draws them.
struct Roof<'a> {
    backend: &'a str,
    precision: &'a str,
    bandwidth: f64,
    flops: f64,
    work: Work,
}

impl<'a> Roof<'a> {
    /// The limits of the first target whose device has both in its own number format, else in f32.
    fn new(targets: &[&'a Target], facts: &BTreeMap<String, String>) -> Option<Self> {
        let own = targets
            .iter()
            .map(|target| (&*target.backend, &*target.precision));
        let in_f32 = targets.iter().map(|target| (&*target.backend, "f32"));
        own.chain(in_f32).find_map(|(backend, precision)| {
            let limits = Limits::new(facts, backend, precision);
            Some(Self {
                backend,
                precision,
                bandwidth: limits.bandwidth_bytes_per_s?,
                flops: limits.flops_per_s?,
                work: limits.work?,
            })
        })
    }

    fn is_of(&self, target: &Target) -> bool {
        let kind = DeviceKind::of_backend(self.backend);
        kind == DeviceKind::of_backend(&target.backend)
            && (kind == DeviceKind::Processor || self.backend == target.backend)
    }

    fn device(&self) -> &'static str {
        match DeviceKind::of_backend(self.backend) {
            DeviceKind::Gpu => "GPU",
            DeviceKind::Processor | DeviceKind::Unknown => "processor",
        }
    }

    /// Say why a target on another device is not drawn.
    fn why_missing(&self, target: &Target, facts: &BTreeMap<String, String>) -> String {
        let limits = Limits::new(facts, &target.backend, &target.precision);
        match limits.bandwidth_bytes_per_s {
            None => "no limit of its device was measured".into(),
            Some(_) => format!("it doesn’t compute on the {}", self.device()),
        }
    }
}

/// Make the chart of a scenario with single requests; `None` where it can't be drawn.
pub fn roofline(shown: &Shown, scenario: &PlannedScenario) -> Option<Figure> {
    // Where prompts are kept, it is unknown how much of one was computed.
    if scenario.load != LoadShape::Serial || scenario.reuses_prompts() {
        return None;
    }
    let facts = &shown.run.header.provenance.facts;
    let case = shown.headline(scenario)?;
    let chosen = primary(shown, scenario);
    let targets = shown.targets().iter();
    let targets: Vec<&Target> = targets.filter(|t| chosen.contains(t.id.as_str())).collect();
    let roof = Roof::new(&targets, facts)?;
    let (bandwidth, flops, work) = (roof.bandwidth, roof.flops, roof.work);
    let tokens = f64::from(case.prompt_tokens);
    let mut points = Vec::new();
    let mut missing = Vec::new();
    let mut nearest: Option<(f64, String)> = None;
    for target in targets {
        let Some(cell) = shown.cell(&scenario.cell_key(case, &target.id)) else {
            continue;
        };
        if !roof.is_of(target) {
            missing.push((target.id.clone(), roof.why_missing(target, facts)));
            continue;
        }
        let weights = weight_bytes(shown, &target.id);
        for (id, phase) in [
            (MetricId::PrefillMfuPercent, "prefill"),
            (MetricId::DecodeMbuPercent, "decode"),
        ] {
            // Prefill in another format has another roof.
            let is_drawn = id != MetricId::PrefillMfuPercent || target.precision == roof.precision;
            let Some((of, weights)) = cell.metric(id).filter(|_| is_drawn).zip(weights) else {
                continue;
            };
            // Turn the metric, a share of a limit, back into a rate.
            let (intensity, full) = match id {
                MetricId::PrefillMfuPercent => (work.prefill_flops(tokens) / weights, flops),
                _ => {
                    let intensity = decode_flops(&work, tokens) / weights;
                    (intensity, bandwidth * intensity)
                }
            };
            let rate = |percent: f64| percent / 100.0 * full;
            let share = rate(of.value) / (bandwidth * intensity).min(flops);
            let name = format!("{}, {phase}", target.id);
            if share.is_finite() && nearest.as_ref().is_none_or(|(known, _)| share > *known) {
                nearest = Some((share, name.clone()));
            }
            let ci95 = of.ci95.map(|(low, high)| (rate(low), rate(high)));
            points.push(Point {
                name,
                style: shown.style(&cell.target),
                intensity,
                rate: Estimate::new(rate(of.value), ci95),
                rests_on: rests_on(cell, of),
            });
        }
    }
    let (share, name) = nearest?;
    let label = case_label(scenario, case);
    Some(
        Roofline {
            id: "roofline".into(),
            finding: format!(
                "At {label}, {name} comes nearest to what the {} can do: {} of the roof",
                roof.device(),
                fmt::percent(share)
            ),
            reading: format!(
                "The roof is the {}’s, measured on this machine in the same run: the slope is memory bandwidth, the flat part {precision} arithmetic. Across stands how many operations each byte of weights is good for, by arithmetic; upward what was measured, with 95 % intervals. Decode reads all weights for every token and so stands left. Prefill is drawn for {precision} alone, whose ceiling this is; decode only where the weights are too large for a cache. The distance to the roof is what could still be gained.",
                roof.device(),
                precision = roof.precision,
            ),
            bandwidth_bytes_per_s: bandwidth,
            flops_per_s: flops,
            points,
            missing,
        }
        .draw(),
    )
}

/// Operations of one output token after `positions` tokens: two per weight, and attention's two
/// products over the positions.
fn decode_flops(work: &Work, positions: f64) -> f64 {
    2.0 * (work.params_per_token + work.params_head) + 4.0 * work.attention_width * positions
}

/// Bytes that the target's weights take, as the target reports it; `None` where it doesn't.
fn weight_bytes(shown: &Shown, target: &str) -> Option<f64> {
    let ready = shown.logs(target).find_map(|log| log.ready.as_ref())?;
    (ready.weight_bytes > 0).then_some(ready.weight_bytes as f64)
}
