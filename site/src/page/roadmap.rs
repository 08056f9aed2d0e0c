//! The roadmap: how far each target is from a limit that was measured or is arithmetic, ranked by
//! what reaching it would give at most. These are bounds for readers who look for something to
//! optimise, never promises.

use crate::Input;
use crate::chart::forest::{Forest, Group, Outcome, Row as Bar};
use crate::chart::{Estimate, Figure};
use crate::export::on_gpu;
use crate::fmt::{self, NONE, Unit};
use crate::html::slug;
use crate::view::cells::{NO_INTERVAL, swatch};
use crate::view::eligible::is_real_size;
use crate::view::frame::Frame;
use crate::view::paths;
use crate::view::place::{self, RunLine, case_path, target_path};
use crate::view::{Shown, axis_label};
use crate::words::plural;
use schema::registry::{DeviceKind, Target};
use serde::Serialize;
use stats::analysis::MetricId;
use stats::opportunity::{GAIN_MIN, Kind, Opportunity, opportunities};
use stats::utilization::Limits;

/// Maximum number of gaps listed for a run; the rest are counted.
const LISTED: usize = 40;
/// Why decode and prefill have no limit where none of the device was measured.
const NO_LIMIT: &str = "No limit of the device that computes was measured.";
/// Why they have none where a target did more than the limit allows.
const EXCEEDED: &str =
    "A target exceeded this limit, which was therefore measured too low: no share of it is shown.";
/// All kinds of gaps, in the order of the page.
const KINDS: [Kind; 5] = [
    Kind::Decode,
    Kind::Prefill,
    Kind::Scaling,
    Kind::Context,
    Kind::LaunchGaps,
];

/// The roadmap page.
#[derive(Serialize)]
pub struct RoadmapPage {
    frame: Frame,
    answer: String,
    limits: Vec<(&'static str, &'static str)>,
    sections: Vec<Section>,
    runs: Vec<RunLine>,
}

#[derive(Serialize)]
struct Section {
    run: RunLine,
    caution: &'static str,
    chart: Option<Figure>,
    rows: Vec<Row>,
    more: String,
    unbounded: Vec<(&'static str, String)>,
}

#[derive(Serialize)]
struct Row {
    swatch: String,
    target: String,
    path: String,
    what: &'static str,
    measured: String,
    interval: String,
    gain: String,
    gain_interval: String,
    case: String,
    case_path: String,
}

/// Make the page over all runs.
pub fn page(input: &Input, shown: &[Shown]) -> RoadmapPage {
    let chosen = place::representative_runs(shown);
    let found: Vec<(&Shown, Vec<Opportunity>)> = chosen
        .iter()
        .map(|&shown| (shown, measured_limits_first(shown)))
        .collect();
    let answer = answer(&found);
    RoadmapPage {
        frame: place::frame(input, paths::ROADMAP, "Roadmap", &answer),
        answer,
        limits: KINDS.map(|kind| (title(kind), limit(kind))).into(),
        sections: found.iter().map(|(s, all)| section(s, all)).collect(),
        runs: place::run_lines(shown, &chosen, |_| String::new()),
    }
}

/// Find a run's gaps: first those to limits that were measured, then those to limits known by
/// arithmetic alone, which perhaps no machine can reach; the widest first in each group.
fn measured_limits_first(shown: &Shown) -> Vec<Opportunity> {
    let mut all = opportunities(shown.run, shown.analysis);
    all.sort_by_key(|o| !is_measured(o.kind));
    all
}

/// Whether a kind's limit was measured on the machine rather than known by arithmetic.
fn is_measured(kind: Kind) -> bool {
    matches!(kind, Kind::Decode | Kind::Prefill)
}

/// Write the sentence at the top: the widest gap to a measured limit, in the first run that has
/// one. Where no run has one, the sentence says that arithmetic alone can't show where time is
/// left.
fn answer(found: &[(&Shown, Vec<Opportunity>)]) -> String {
    if found.is_empty() {
        return "No run that may be published has a measured cell, so no gap is known.".into();
    }
    let first = |measured: bool| {
        found.iter().find_map(|(shown, all)| {
            let fits = |o: &&Opportunity| is_measured(o.kind) || !measured;
            let mut all = all.iter().filter(fits);
            Some((shown, all.find(|o| o.gain_ci95.is_some())?))
        })
    };
    let Some((shown, top)) = first(true) else {
        return match first(false) {
            Some((shown, top)) => by_arithmetic(shown, top),
            None => "No run here shows a detectable gap to a limit.".into(),
        };
    };
    let (measured, interval) = measured(top);
    let gain = fmt::joined(fmt::ratio(top.gain, top.gain_ci95));
    let (before, after) = what(top.kind);
    format!(
        "Of the gaps to a measured limit of memory or arithmetic on {}, the widest is that of {}, which {before} {measured} {interval}{after}. At the limit its {} would be at most {gain} better; it may not be reachable.",
        place::machine_and_model(shown),
        top.target,
        gains(top.kind),
    )
}

/// Write the sentence for a run without a gap to a measured limit.
fn by_arithmetic(shown: &Shown, top: &Opportunity) -> String {
    let facts = &shown.run.header.provenance.facts;
    let why = if limits(shown).any(|limits| has_limit(&limits)) {
        "There is no detectable gap to a measured limit"
    } else if facts.contains_key("memory_read_bytes_per_s") {
        "No limit of the device that computes was measured"
    } else {
        "No limit of this machine was measured"
    };
    let (measured, interval) = measured(top);
    let (before, after) = what(top.kind);
    let engine = shown.target(&top.target);
    let cpus = facts.get("cpus").and_then(|n| n.parse().ok());
    let limit = match (top.kind, engine.is_some_and(on_gpu), cpus) {
        (Kind::Scaling, false, Some(n)) => format!(
            "the target furthest from linear growth is {}, which reaches {measured} {interval} of it; on {}, which one request can fill, most of that can’t be had",
            top.target,
            plural(n, "CPU", "CPUs")
        ),
        _ => format!(
            "{} is furthest from a limit: it {before} {measured} {interval}{after}; whether any of that can be reached isn’t known",
            top.target
        ),
    };
    format!(
        "{why} in this run ({}), so nothing can be said of where time is left. By arithmetic alone, {limit}.",
        place::machine_and_model(shown)
    )
}

fn section(shown: &Shown, all: &[Opportunity]) -> Section {
    Section {
        run: RunLine::new(shown, String::new()),
        caution: caution(shown),
        chart: chart(shown, all),
        rows: all.iter().take(LISTED).map(|o| row(shown, o)).collect(),
        more: match all.len().saturating_sub(LISTED) as u64 {
            0 => String::new(),
            n => format!(
                "{} not listed.",
                plural(n, "smaller gap is", "smaller gaps are")
            ),
        },
        unbounded: unbounded(shown, all),
    }
}

/// Say what a run's gaps don't show where its model is small; empty where it is of real size.
fn caution(shown: &Shown) -> &'static str {
    match is_real_size(shown) {
        Some(true) => "",
        Some(false) => {
            "With a model this small most of a request is overhead: these gaps say where an engine spends time around the work, and don’t carry over to a model of real size."
        }
        None => {
            "The size of this run’s model is not known: were it small, most of a request would be overhead, and these gaps wouldn’t carry over to a model of real size."
        }
    }
}

fn row(shown: &Shown, o: &Opportunity) -> Row {
    let (measured, interval) = measured(o);
    let (gain, gain_interval) = fmt::ratio(o.gain, o.gain_ci95);
    let case = match shown.scenario(&o.scenario) {
        None => o.scenario.clone(),
        Some(s) if o.span.0 == o.span.1 => {
            format!("{}, {}", shown.title(s), axis_label(s.axis, o.span.1))
        }
        Some(s) if s.axis == schema::scenario::Axis::Batch => {
            format!("{}, batch {} to {}", shown.title(s), o.span.0, o.span.1)
        }
        Some(s) => format!(
            "{}, {} to {}",
            shown.title(s),
            o.span.0,
            axis_label(s.axis, o.span.1)
        ),
    };
    Row {
        swatch: swatch(shown, &o.target),
        target: o.target.clone(),
        path: target_path(shown, &o.target),
        what: title(o.kind),
        measured,
        interval,
        gain,
        gain_interval: gain_interval.unwrap_or_else(|| NONE.into()),
        case,
        case_path: case_path(shown, &o.case_key()),
    }
}

/// Format what was measured, with its interval.
fn measured(o: &Opportunity) -> (String, String) {
    let (unit, factor) = match o.kind {
        Kind::Decode | Kind::Prefill => (Unit::Percent, 1.0),
        Kind::Scaling | Kind::LaunchGaps => (Unit::Percent, 100.0),
        Kind::Context => (Unit::Plain, 1.0),
    };
    let ci95 = o.ci95.map(|(a, b)| (factor * a, factor * b));
    let (value, interval) = fmt::with_interval(unit, factor * o.measured, ci95);
    let none = match o.kind {
        Kind::LaunchGaps => "(one traced launch: no interval)",
        _ => NO_INTERVAL,
    };
    (value, interval.unwrap_or_else(|| none.into()))
}

/// The heading of a kind.
fn title(kind: Kind) -> &'static str {
    match kind {
        Kind::Decode => "Decode",
        Kind::Prefill => "Prefill",
        Kind::Scaling => "Scaling with load",
        Kind::Context => "Growth with the prompt",
        Kind::LaunchGaps => "Gaps between kernels",
    }
}

/// The words around the measured number in a sentence: before it and after it.
fn what(kind: Kind) -> (&'static str, &'static str) {
    match kind {
        Kind::Decode => ("decodes with", " of the memory bandwidth measured"),
        Kind::Prefill => ("prefills with", " of the FLOP/s measured"),
        Kind::Scaling => ("reaches", " of linear growth under load"),
        Kind::Context => (
            "waits for the first token with the prompt’s length to the power of",
            "",
        ),
        Kind::LaunchGaps => ("runs no kernel in", " of its decode"),
    }
}

/// The metric that would be better at the limit.
fn gains(kind: Kind) -> &'static str {
    match kind {
        Kind::Decode | Kind::LaunchGaps => "time per output token",
        Kind::Prefill | Kind::Context => "time to first token",
        Kind::Scaling => "output throughput",
    }
}

/// Explain the limit, and why it may be out of reach.
fn limit(kind: Kind) -> &'static str {
    match kind {
        Kind::Decode => {
            "Reading every weight and cache entry once a token at the memory bandwidth that the target’s device was measured to have. Fewer bits a weight move the limit itself."
        }
        Kind::Prefill => {
            "The prompt’s arithmetic at the FLOP/s that the target’s device was measured to do in the target’s number format: f32 on a processor, f32, f16 and bf16 on an NVIDIA GPU. Targets in other formats have no such gap."
        }
        Kind::Scaling => {
            "N requests served at N times the throughput of one. Where one request already fills the machine only batching helps, and linear growth is out of reach; an engine without batching stays at the throughput of one request."
        }
        Kind::Context => {
            "A wait in proportion to the prompt, from the shortest measured to the longest. Attention does work with the square of the length, so strictly linear growth is impossible; and where a fixed cost dominates short prompts, there is no gap here at all."
        }
        Kind::LaunchGaps => {
            "Decode without a time in which no kernel runs, in one launch that was traced and slowed down by it: no interval."
        }
    }
}

/// Whether a target's device is the processor.
fn is_processor(target: &Target) -> bool {
    DeviceKind::of_backend(&target.backend) == DeviceKind::Processor
}

/// The limits measured for each target's device in its number format.
fn limits(shown: &Shown) -> impl Iterator<Item = Limits> {
    let facts = &shown.run.header.provenance.facts;
    let targets = shown.targets().iter();
    targets.map(move |target| Limits::new(facts, &target.backend, &target.precision))
}

/// Whether any limit of the device was measured.
fn has_limit(limits: &Limits) -> bool {
    limits.bandwidth_bytes_per_s.is_some() || limits.flops_per_s.is_some()
}

/// The kinds without a gap in the run, each with the reason. Where the limits of only some devices
/// were measured, a row names the others.
fn unbounded(shown: &Shown, all: &[Opportunity]) -> Vec<(&'static str, String)> {
    let kinds = KINDS.into_iter();
    let mut rows: Vec<(&str, String)> = kinds
        .filter(|kind| !all.iter().any(|o| o.kind == *kind))
        .map(|kind| (title(kind), why_not(shown, kind)))
        .collect();
    if limits(shown).any(|limits| has_limit(&limits))
        && limits(shown).any(|limits| !has_limit(&limits))
    {
        rows.push((
            "Decode and prefill on devices whose limits were not measured",
            NO_LIMIT.into(),
        ));
    }
    rows
}

fn why_not(shown: &Shown, kind: Kind) -> String {
    let has = |id: MetricId| {
        let mut cells = shown.analysis.cells.iter();
        cells.any(|cell| cell.metric(id).is_some())
    };
    let exceeded = |id| {
        shown
            .analysis
            .exceeded
            .iter()
            .any(|limit| limit.metric == id)
    };
    let none = format!("No gap of {GAIN_MIN}× or more.");
    match kind {
        Kind::Decode | Kind::Prefill
            if !shown.targets().iter().any(is_processor)
                && !limits(shown).any(|limits| has_limit(&limits)) =>
        {
            NO_LIMIT.into()
        }
        Kind::Decode if has(MetricId::DecodeMbuPercent) => none,
        Kind::Decode if exceeded(MetricId::DecodeMbuPercent) => EXCEEDED.into(),
        Kind::Decode if limits(shown).any(|limits| limits.bandwidth_bytes_per_s.is_some()) => {
            "The weights fit in four times the last-level cache, or the machine’s cache is not known: then memory bandwidth bounds nothing.".into()
        }
        Kind::Decode => "This run recorded no memory bandwidth of its machine.".into(),
        Kind::Prefill if has(MetricId::PrefillMfuPercent) => none,
        Kind::Prefill if exceeded(MetricId::PrefillMfuPercent) => EXCEEDED.into(),
        Kind::Prefill if limits(shown).any(|limits| has_limit(&limits)) => {
            "No target computes in a format whose arithmetic was measured (engines multiply quantised weights in different formats, so these are held against none), or the model’s work is not known.".into()
        }
        Kind::Prefill => "This run recorded no FLOP/s of its machine.".into(),
        Kind::Scaling if shown.analysis.scalings.is_empty() => {
            "No scenario varies the load from one request on.".into()
        }
        Kind::Context => {
            "No target has three prompt lengths, or none grows faster than the prompt.".into()
        }
        Kind::LaunchGaps if shown.run.kernels.is_empty() => {
            "No kernels were traced: that takes a target on CUDA.".into()
        }
        Kind::Scaling | Kind::LaunchGaps => none,
    }
}

/// Chart each engine's widest gap of every kind.
fn chart(shown: &Shown, all: &[Opportunity]) -> Option<Figure> {
    let mut groups: Vec<Group> = Vec::new();
    for kind in KINDS {
        let mut seen: Vec<&str> = Vec::new();
        let mut rows: Vec<(f64, Bar)> = Vec::new();
        for o in all.iter().filter(|o| o.kind == kind) {
            let Some(target) = shown.target(&o.target) else {
                continue;
            };
            if seen.contains(&target.engine.as_str()) {
                continue;
            }
            seen.push(&target.engine);
            let estimate = Estimate::new(o.gain, o.gain_ci95);
            let (value, interval) = measured(o);
            let bar = Bar {
                label: o.target.clone(),
                style: shown.style(&o.target),
                shown: true,
                outcome: Outcome::Measured(estimate, format!("measured: {value} {interval}")),
            };
            rows.push((o.gain, bar));
        }
        if !rows.is_empty() {
            groups.push(Group::sorted(title(kind).into(), None, rows));
        }
    }
    let top = all.iter().find(|o| o.gain_ci95.is_some()).or(all.first())?;
    if groups.is_empty() {
        return None;
    }
    let gain = fmt::joined(fmt::ratio(top.gain, top.gain_ci95));
    Some(
        Forest {
            id: format!("gaps-{}", slug(&shown.run.header.id)),
            finding: format!(
                "The gap to look at first is in {}: {}, at most {gain}",
                title(top.kind).to_lowercase(),
                top.target
            ),
            reading: "Of each engine the target with the widest gap of a kind. Marker: how many times better the bounded metric would be at the limit; whiskers: 95 % interval, from that of what was measured. The dashed line is the limit itself (1×). The axis is logarithmic. Different kinds bound different work: they don’t multiply.".into(),
            axis_label: "times better at the limit, at most".into(),
            groups,
            ..Forest::of_ratios()
        }
        .draw(),
    )
}
