//! The page of kernel traces: what ran on the GPU, a section per target. A synthetic trace, made
//! for a test, is never shown as measured: its target is listed among those without a trace, with
//! the reason.

use crate::chart::Table;
use crate::fmt::{self, NONE, Unit, quantity};
use crate::html::shorten;
use crate::view::cells::swatch;
use crate::view::frame::Frame;
use crate::view::place::target_path;
use crate::view::{Shown, case_label, paths};
use crate::words::plural;
use schema::kernels::{ClockMethod, KernelTrace, TracedLaunch};
use schema::key::CellKey;
use schema::record::Status;
use serde::Serialize;
use stats::analysis::MetricId;
use stats::kernels::name::{Class, short};
use stats::kernels::{KernelAnalysis, KernelTime, Phase, analyse};

/// Maximum number of kernels listed for each target.
const TOP: usize = 12;
/// Maximum length of a kernel's full name (characters).
const NAME_CHARS: usize = 300;
/// The backend whose targets are traced.
const BACKEND: &str = "cuda";

/// The page of kernel traces.
#[derive(Serialize)]
pub struct KernelsPage {
    frame: Frame,
    targets: Vec<TargetKernels>,
    untraced: Vec<(String, String)>,
}

#[derive(Serialize)]
struct TargetKernels {
    id: String,
    path: String,
    swatch: String,
    work: String,
    pace: String,
    phases: Table,
    shares: Vec<Bar>,
    top: Vec<TopKernel>,
    rest: String,
    clock: String,
    file: String,
}

/// A share, with the length of its bar.
#[derive(Serialize)]
struct Bar {
    label: String,
    percent: String,
    /// Length of the bar, from 0 to 100.
    length: f64,
}

#[derive(Serialize)]
struct TopKernel {
    name: String,
    full: String,
    class: &'static str,
    n: String,
    mean: String,
    total: String,
    share: Bar,
}

/// The analysis of a launch that may be shown, or the reason for none.
fn shown_analysis(launch: &TracedLaunch) -> Result<(KernelAnalysis, &KernelTrace), String> {
    let analysis = analyse(launch)?;
    let trace = launch.trace.as_ref().map_err(ToString::to_string)?;
    if analysis.synthetic || trace.header.synthetic {
        return Err("its trace is synthetic, made up for a test: it is no measurement".into());
    }
    Ok((analysis, trace))
}

/// Make the page of kernel traces.
pub fn page(shown: &Shown) -> KernelsPage {
    let targets: Vec<TargetKernels> = shown
        .run
        .kernels
        .iter()
        .filter_map(|launch| {
            let (analysis, trace) = shown_analysis(launch).ok()?;
            Some(target(shown, launch, &analysis, trace))
        })
        .collect();
    let about = format!(
        "What runs on the GPU while {} at work.",
        plural(targets.len() as u64, "engine is", "engines are")
    );
    KernelsPage {
        frame: shown.frame(paths::KERNELS, "Kernels", &about),
        targets,
        untraced: untraced(shown),
    }
}

/// The CUDA targets without a trace, each with the reason; one row for all where the run has no
/// such target.
pub fn untraced(shown: &Shown) -> Vec<(String, String)> {
    let on_gpu = |target: &&schema::registry::Target| target.backend == BACKEND;
    let mut planned = shown.targets().iter().filter(on_gpu).peekable();
    if planned.peek().is_none() {
        let why = "No kernels were traced: no target of this run is on CUDA.";
        return vec![("All targets".into(), why.into())];
    }
    planned
        .filter_map(|target| Some((target.id.clone(), why_untraced(shown, &target.id)?)))
        .collect()
}

fn why_untraced(shown: &Shown, target: &str) -> Option<String> {
    let of_target = |l: &&TracedLaunch| l.log.launch.target == target;
    if let Some(launch) = shown.run.kernels.iter().find(of_target) {
        return shown_analysis(launch).err();
    }
    let header = &shown.run.header;
    let verified = shown.run.verify.get(target);
    let has_passed = verified.is_some_and(|record| record.status == Status::Ok);
    Some(match header.provenance.facts.contains_key("gpu") {
        _ if !has_passed => "it has not passed the parity gate, so it was not run".into(),
        false => "the machine has no NVIDIA device".into(),
        true => format!("not traced: `cargo xtask trace {}` does it", header.id),
    })
}

fn target(
    shown: &Shown,
    launch: &TracedLaunch,
    analysis: &KernelAnalysis,
    trace: &KernelTrace,
) -> TargetKernels {
    let id = &launch.log.launch.target;
    let all_ns: u64 = analysis.kernels.iter().map(|k| k.total_ns).sum();
    let shares = Class::ALL.map(|class| bar(class.title(), analysis.share(class)));
    let left = analysis.kernels.len().saturating_sub(TOP);
    let left_ns: u64 = analysis.kernels.iter().skip(TOP).map(|k| k.total_ns).sum();
    TargetKernels {
        id: id.clone(),
        path: target_path(shown, id),
        swatch: swatch(shown, id),
        work: work(shown, launch, analysis),
        pace: pace(shown, launch, analysis),
        phases: phases(analysis),
        shares: shares.into(),
        top: analysis
            .kernels
            .iter()
            .take(TOP)
            .map(|k| top(k, all_ns))
            .collect(),
        rest: match left {
            0 => String::new(),
            n => format!(
                "{} more take {} of the time.",
                plural(n as u64, "kernel", "kernels"),
                fmt::percent(left_ns as f64 / all_ns.max(1) as f64)
            ),
        },
        clock: clock(trace),
        file: format!("{}, sha256 {}", launch.file.display(), trace.sha256),
    }
}

/// Say what the traced launch was asked.
fn work(shown: &Shown, launch: &TracedLaunch, analysis: &KernelAnalysis) -> String {
    let (scenario, case) = planned(shown, launch);
    let requests = plural(analysis.requests, "request", "requests");
    let tokens = analysis.decode.tokens + analysis.prefill.tokens;
    let tokens = tokens / analysis.requests.max(1);
    format!("{requests} after warm-up, {scenario}, {case}, {tokens} new tokens each.")
}

/// The title of the scenario and the label of the case.
fn planned(shown: &Shown, launch: &TracedLaunch) -> (String, String) {
    let (scenario_id, case_id) = names(launch);
    let Some(scenario) = shown.scenario(scenario_id) else {
        return (scenario_id.into(), case_id.into());
    };
    let case = scenario.case(case_id);
    let label = case.map(|c| case_label(scenario, c));
    (
        shown.title(scenario).to_owned(),
        label.unwrap_or_else(|| case_id.into()),
    )
}

fn names(launch: &TracedLaunch) -> (&str, &str) {
    let log = &launch.log.launch;
    (&log.scenario, log.cases.first().map_or("", String::as_str))
}

/// Say how much tracing slowed the target down.
fn pace(shown: &Shown, launch: &TracedLaunch, analysis: &KernelAnalysis) -> String {
    let Some(traced_ns) = analysis.decode.ns_per_token() else {
        return "It made one token a request, so there is no decoding.".into();
    };
    let (scenario, case) = names(launch);
    let cell = shown.cell(&CellKey::new(&launch.log.launch.target, scenario, case));
    let timed = cell.and_then(|cell| cell.metric(MetricId::TpotNs));
    let traced = quantity(Unit::Ns, traced_ns);
    match timed {
        Some(timed) if timed.value > 0.0 => format!(
            "A token took {traced} while traced and {} when timed ({}): the gaps below are longer than without the tracer by up to that difference.",
            quantity(Unit::Ns, timed.value),
            fmt::ratio(traced_ns / timed.value, None).0
        ),
        _ => format!(
            "A token took {traced} while traced; there is no timed one to compare with, and tracing slows down."
        ),
    }
}

fn phases(analysis: &KernelAnalysis) -> Table {
    let row = |name: &str, value: &dyn Fn(&Phase) -> String| {
        vec![
            name.to_owned(),
            value(&analysis.prefill),
            value(&analysis.decode),
        ]
    };
    let ns = |value: Option<f64>| value.map_or(NONE.into(), |v| quantity(Unit::Ns, v));
    let share = |value: Option<f64>| value.map_or(NONE.into(), fmt::percent);
    Table::new(
        ["Quantity", "Prefill", "Decode"],
        vec![
            row("Kernels per token", &|p| {
                let kernels = p.kernels_per_token();
                kernels.map_or(NONE.into(), |v| quantity(Unit::Plain, v))
            }),
            row("… of them from CUDA graphs", &|p| {
                share((p.kernels > 0).then(|| p.kernels_of_graphs as f64 / p.kernels as f64))
            }),
            row("Time per token", &|p| ns(p.ns_per_token())),
            row("GPU busy", &|p| share(p.busy_fraction())),
            row("In gaps between kernels", &|p| share(p.gap_fraction())),
            row("Median gap", &|p| ns(p.gaps.map(|g| g.median_ns))),
            row("Longest gap", &|p| ns(p.gaps.map(|g| g.longest_ns as f64))),
            row("Gaps counted", &|p| fmt::count(p.gaps.map_or(0, |g| g.n))),
        ],
    )
}

fn top(kernel: &KernelTime, all_ns: u64) -> TopKernel {
    let name = short(&kernel.name);
    let mean_ns = kernel.total_ns as f64 / kernel.n.max(1) as f64;
    TopKernel {
        full: match name == kernel.name {
            true => String::new(),
            false => shorten(&kernel.name, NAME_CHARS),
        },
        name: shorten(&name, NAME_CHARS),
        class: kernel.class.title(),
        n: fmt::count(kernel.n),
        mean: quantity(Unit::Ns, mean_ns),
        total: quantity(Unit::Ns, kernel.total_ns as f64),
        share: bar(
            "",
            (all_ns > 0).then(|| kernel.total_ns as f64 / all_ns as f64),
        ),
    }
}

fn bar(label: &str, share: Option<f64>) -> Bar {
    Bar {
        label: label.into(),
        percent: share.map_or(NONE.into(), fmt::percent),
        length: share.map_or(0.0, |share| (share * 1000.0).round() / 10.0),
    }
}

/// Say how the GPU's times were mapped to the harness's clock, and how far off they may be.
fn clock(trace: &KernelTrace) -> String {
    let Some(mapping) = trace.header.clock else {
        return "The trace does not say how its times were mapped.".into();
    };
    let how = match mapping.method {
        ClockMethod::Callback => "CUPTI read the machine's monotonic clock itself",
        ClockMethod::Offset => {
            "CUPTI read its own clock, and its distance from the machine's monotonic one was subtracted"
        }
    };
    let error = quantity(Unit::Ns, mapping.sample.error_ns as f64);
    let drift = trace.end.and_then(|end| end.clock).map(|end| {
        let moved = end.offset_ns.abs_diff(mapping.sample.offset_ns);
        format!(
            ", and {} apart at the end",
            quantity(Unit::Ns, moved as f64)
        )
    });
    format!(
        "{how}: the two agreed to within {error} at the start{}. How well CUPTI converts the GPU's own counter is not known to us.",
        drift.unwrap_or_default()
    )
}
