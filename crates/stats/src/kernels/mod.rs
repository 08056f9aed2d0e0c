//! Analysis of a kernel trace and the token stamps beside it: kernels per token, busy time of the
//! GPU, gaps between kernels, time by kernel and by class.
//!
//! A trace is of one launch that isn't timed, because the tracing itself slows it down. Its numbers
//! explain and are not compared, so there is no interval and no verdict here. A trace with a hole
//! (records lost, process killed) is not analysed at all: every count in it would be too low.

pub mod name;

use crate::describe::median;
use name::{Class, class_of};
use schema::DataError;
use schema::kernels::{Kernel, KernelTrace, TracedLaunch};
use schema::record::{RequestRecord, Status};
use std::collections::BTreeMap;

/// The analysis of a target's kernel trace.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelAnalysis {
    /// Whether the trace was made up for a test; then it must never be shown as measured.
    pub synthetic: bool,
    /// Number of requests analysed; warm-up is left out.
    pub requests: u64,
    /// Prefill: from the start of work on a request to its first token.
    pub prefill: Phase,
    /// Decode: from a request's first token to its last.
    pub decode: Phase,
    /// Kernels of both phases by name, in descending order of total time.
    pub kernels: Vec<KernelTime>,
}

/// The kernels of one phase, over all requests. A kernel belongs to the phase that it
/// starts in.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Phase {
    /// Number of tokens that the phase made; one per request in prefill.
    pub tokens: u64,
    /// Length of the phase, summed over requests (ns).
    pub wall_ns: u64,
    /// Time within it in which at least one kernel ran (ns).
    pub busy_ns: u64,
    /// Number of kernels that started in the phase.
    pub kernels: u64,
    /// Number of these kernels that a CUDA graph launched.
    pub kernels_of_graphs: u64,
    /// Gaps between kernels, in which none ran; `None` where there are none.
    pub gaps: Option<Gaps>,
}

/// A summary of gaps: times between the end of all kernels so far and the start of the next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gaps {
    /// Number of gaps.
    pub n: u64,
    /// Median length (ns).
    pub median_ns: f64,
    /// Longest length (ns).
    pub longest_ns: u64,
    /// Sum of the lengths (ns).
    pub total_ns: u64,
}

/// All executions of one kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelTime {
    /// Name of the kernel, as CUPTI gives it.
    pub name: String,
    /// Class of the kernel, judged by its name.
    pub class: Class,
    /// Number of executions.
    pub n: u64,
    /// Sum of durations (ns).
    pub total_ns: u64,
}

impl Phase {
    /// Return the number of kernels per token.
    pub fn kernels_per_token(&self) -> Option<f64> {
        ratio(self.kernels, self.tokens)
    }

    /// Return the share of the phase in which a kernel ran.
    pub fn busy_fraction(&self) -> Option<f64> {
        ratio(self.busy_ns, self.wall_ns)
    }

    /// Return the share of the phase that lies in gaps between kernels.
    pub fn gap_fraction(&self) -> Option<f64> {
        ratio(self.gaps.map_or(0, |gaps| gaps.total_ns), self.wall_ns)
    }

    /// Return the time per token, in the traced process (ns).
    pub fn ns_per_token(&self) -> Option<f64> {
        ratio(self.wall_ns, self.tokens)
    }
}

impl KernelAnalysis {
    /// Return the share of a class in the summed time of all kernels.
    pub fn share(&self, class: Class) -> Option<f64> {
        let of_class = self.kernels.iter().filter(|kernel| kernel.class == class);
        let all_ns = self.kernels.iter().map(|kernel| kernel.total_ns).sum();
        ratio(of_class.map(|kernel| kernel.total_ns).sum(), all_ns)
    }
}

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// Analyse a traced launch. `Err` is the reason why it can't be analysed, in one line.
pub fn analyse(launch: &TracedLaunch) -> Result<KernelAnalysis, String> {
    let end = launch.log.end.as_ref();
    let end = end.ok_or("the harness was killed while it was traced")?;
    if end.status != Status::Ok {
        return Err(format!("{}: {}", end.status.id(), end.reason));
    }
    let trace = launch.trace.as_ref().map_err(unreadable)?;
    whole(trace)?;
    let timed = |request: &&RequestRecord| !request.warmup && !request.token_ns.is_empty();
    let timed: Vec<&RequestRecord> = launch.log.requests.iter().filter(timed).collect();
    let life = (launch.log.launch.start_ns, end.end_ns);
    analyse_requests(trace, &timed, life)
}

/// Describe an error without its path, which is only valid on the machine of the run.
fn unreadable(error: &DataError) -> String {
    match error.line {
        Some(line) => format!("line {line} of its trace: {}", error.message),
        None => format!("its trace {}", error.message),
    }
}

/// Refuse a trace in which something is missing.
fn whole(trace: &KernelTrace) -> Result<(), String> {
    if let Some(failure) = trace.failures.first() {
        return Err(failure.to_string());
    }
    if trace.end.is_none() {
        return Err("the trace has no end: the process was killed, or its disk was full".into());
    }
    let lost = trace.lost.dropped + trace.lost.untimed;
    if lost > 0 {
        return Err(format!(
            "{lost} kernels left no record ({} dropped, {} without timestamps): what is counted would be too little",
            trace.lost.dropped, trace.lost.untimed
        ));
    }
    if trace.kernels.is_empty() {
        return Err("no kernel ran: the process did not use CUDA".into());
    }
    Ok(())
}

/// Analyse the kernels that ran during requests, each of which has a token. `life` is when the
/// process was started and when it ended (ns).
fn analyse_requests(
    trace: &KernelTrace,
    timed: &[&RequestRecord],
    life: (u64, u64),
) -> Result<KernelAnalysis, String> {
    if timed.is_empty() {
        return Err("no request was traced".into());
    }
    let first_ns = |r: &RequestRecord| r.token_ns[0];
    let last_ns = |r: &RequestRecord| r.token_ns[r.token_ns.len() - 1];
    let overlap = |two: &[&RequestRecord]| two[1].started_ns < last_ns(two[0]);
    if timed.windows(2).any(overlap) {
        return Err("requests overlap, so kernels can't be assigned to a request".into());
    }
    let outside = |k: &&Kernel| k.start_ns < life.0 || k.end_ns > life.1;
    let strays = trace.kernels.iter().filter(outside).count();
    if strays > 0 {
        return Err(format!(
            "{strays} kernels ran before the process began or after it ended: the GPU's clock was not mapped to ours"
        ));
    }
    let mut times = BTreeMap::new();
    let prefill = timed.iter().map(|r| ((r.started_ns, first_ns(r)), 1));
    let prefill = phase(trace, prefill, &mut times);
    let decode = timed.iter();
    let decode = decode.map(|r| ((first_ns(r), last_ns(r)), r.token_ns.len() as u64 - 1));
    let decode = phase(trace, decode, &mut times);
    let mut kernels: Vec<KernelTime> = times
        .into_iter()
        .map(|(id, (n, total_ns))| {
            let name = &trace.names[id as usize];
            KernelTime {
                name: name.clone(),
                class: class_of(name),
                n,
                total_ns,
            }
        })
        .collect();
    kernels.sort_by(|a, b| b.total_ns.cmp(&a.total_ns).then(a.name.cmp(&b.name)));
    if kernels.is_empty() {
        return Err(format!(
            "none of {} kernels ran during a traced request",
            trace.kernels.len()
        ));
    }
    Ok(KernelAnalysis {
        synthetic: trace.header.synthetic,
        requests: timed.len() as u64,
        prefill,
        decode,
        kernels,
    })
}

/// Sum a phase up over the windows of all requests, each with its number of tokens. The kernels in
/// it are added to `times`, the (count, time) of each kernel.
fn phase(
    trace: &KernelTrace,
    windows: impl Iterator<Item = (Interval, u64)>,
    times: &mut BTreeMap<u32, (u64, u64)>,
) -> Phase {
    let (mut phase, mut gaps) = (Phase::default(), Vec::new());
    for (window, tokens) in windows {
        phase.tokens += tokens;
        phase.wall_ns += window.1.saturating_sub(window.0);
        for kernel in &trace.kernels {
            if !(window.0..window.1).contains(&kernel.start_ns) {
                continue;
            }
            let ns = kernel.end_ns - kernel.start_ns;
            phase.kernels += 1;
            phase.kernels_of_graphs += u64::from(kernel.graph_node != 0);
            let time = times.entry(kernel.name).or_default();
            *time = (time.0 + 1, time.1 + ns);
        }
        let all = trace.kernels.iter().map(|k| (k.start_ns, k.end_ns));
        let busy = union(clip(all, window));
        phase.busy_ns += length_ns(&busy);
        gaps.extend(busy.windows(2).map(|two| two[1].0 - two[0].1));
    }
    phase.gaps = describe(&gaps);
    phase
}

fn describe(gaps: &[u64]) -> Option<Gaps> {
    let values: Vec<f64> = gaps.iter().map(|&ns| ns as f64).collect();
    Some(Gaps {
        n: gaps.len() as u64,
        median_ns: median(&values)?,
        longest_ns: *gaps.iter().max()?,
        total_ns: gaps.iter().sum(),
    })
}

/// An interval: start (inclusive) and end (exclusive), in ns.
type Interval = (u64, u64);

/// Return the parts of intervals that lie within a window; empty ones are left out.
fn clip(
    intervals: impl Iterator<Item = Interval>,
    window: Interval,
) -> impl Iterator<Item = Interval> {
    intervals
        .map(move |(from, to)| (from.max(window.0), to.min(window.1)))
        .filter(|(from, to)| from < to)
}

/// Return the union of intervals as disjoint intervals in order. Intervals that touch are joined,
/// because there is no time between them.
fn union(intervals: impl Iterator<Item = Interval>) -> Vec<Interval> {
    let mut sorted: Vec<Interval> = intervals.filter(|(from, to)| from < to).collect();
    sorted.sort_unstable();
    let mut merged: Vec<Interval> = Vec::new();
    for (from, to) in sorted {
        match merged.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _ => merged.push((from, to)),
        }
    }
    merged
}

/// Return the summed length of disjoint intervals (ns).
fn length_ns(disjoint: &[Interval]) -> u64 {
    disjoint.iter().map(|(from, to)| to - from).sum()
}

#[cfg(test)]
mod tests;
