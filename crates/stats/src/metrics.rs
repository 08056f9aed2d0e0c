//! The metrics: each one's name, unit, direction, what one sample is, and the definition in one
//! line. The site, `export` and the scenarios' `reports` all use the names given here.
//! `samples.rs` computes the values.

use schema::plan::PlannedScenario;
use schema::scenario::Scenario;
use serde::Serialize;

/// The better direction of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// Less is better.
    Lower,
    /// More is better.
    Higher,
    /// Neither: the metric explains other numbers, and targets aren't ranked by it.
    Neither,
}

impl Better {
    /// Put two values in the order in which the first ÷ the second says how many times better `a`
    /// is than `b`; `None` without a better direction.
    pub(crate) fn quotient<T>(self, a: T, b: T) -> Option<(T, T)> {
        match self {
            Self::Lower => Some((b, a)),
            Self::Higher => Some((a, b)),
            Self::Neither => None,
        }
    }
}

/// The kind of one sample, which is what `n` counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sample {
    /// A completed, timed request.
    Request,
    /// The gap between two tokens of one request.
    Gap,
    /// A process launch.
    Invocation,
    /// One reading of the clock around calls of a micro program.
    Reading,
}

/// The description of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct About {
    /// Name in records, exports and URLs, which ends in the unit: `ttft_ns`.
    pub name: &'static str,
    /// Unit: `ns`, `tok/s`, `requests/s`, `bytes`, `requests`, `J`, `%`, `°C`, `MHz`.
    pub unit: &'static str,
    /// Title for headings.
    pub title: &'static str,
    /// Better direction.
    pub better: Better,
    /// Kind of sample that `n` counts.
    pub sample: Sample,
    /// Definition in one line: how the metric is measured.
    pub definition: &'static str,
}

/// Declares [`MetricId`] with a variant for each metric, in their order. Of each are given: name,
/// unit, better direction, kind of sample, title, definition.
macro_rules! metrics {
    ($($id:ident: $name:literal, $unit:literal, $better:ident, $sample:ident,
        $title:literal, $definition:literal;)+) => {
        /// A metric. Names end in their unit.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        pub enum MetricId {
            $(
                #[doc = $title]
                #[serde(rename = $name)]
                $id,
            )+
        }

        impl MetricId {
            /// All metrics, in their order.
            pub const ALL: [MetricId; [$($name),+].len()] = [$(MetricId::$id),+];

            /// Describe the metric.
            pub fn describe(self) -> About {
                match self {
                    $(
                        MetricId::$id => About {
                            name: $name,
                            unit: $unit,
                            title: $title,
                            better: Better::$better,
                            sample: Sample::$sample,
                            definition: $definition,
                        },
                    )+
                }
            }
        }
    };
}

metrics! {
    TtftNs: "ttft_ns", "ns", Lower, Request,
        "Time to first token",
        "First token minus the time the request was due, so waiting in any queue counts.";
    ItlNs: "itl_ns", "ns", Lower, Gap,
        "Inter-token latency",
        "Each gap between two consecutive tokens of a request.";
    TpotNs: "tpot_ns", "ns", Lower, Request,
        "Time per output token",
        "(Last token − first token) ÷ (tokens − 1) of a request with two or more tokens.";
    E2eNs: "e2e_ns", "ns", Lower, Request,
        "End-to-end latency",
        "Last token minus the time the request was due; the way back to the harness is \
         not in it, it is the report lag.";
    OutputTokPerS: "output_tok_per_s", "tok/s", Higher, Invocation,
        "Output throughput",
        "Output tokens per second: in closed loops the tokens stamped while full \
         concurrency was held (no ramp-up, no ramp-down), in open loops those from when \
         latencies settled to the last arrival, else all tokens over the time in which a \
         request was at work.";
    RequestsPerS: "requests_per_s", "requests/s", Higher, Invocation,
        "Request throughput",
        "Output throughput divided by the output length, which is the same for every \
         request of a case.";
    ColdStartNs: "cold_start_ns", "ns", Lower, Invocation,
        "Cold start",
        "From just before the process was started until the engine reported the model \
         loaded; the page cache is as earlier launches left it.";
    LoadNs: "load_ns", "ns", Lower, Invocation,
        "Model load",
        "Time to load the model by the engine's own clock.";
    PeakRssBytes: "peak_rss_bytes", "bytes", Lower, Invocation,
        "Peak resident memory",
        "Largest resident set (VmHWM) of the engine process from its start to the end of \
         the case; during the case alone, without loading, where a process serves several \
         scenarios (`one_process`), and of a micro suite's.";
    WeightBytes: "weight_bytes", "bytes", Lower, Invocation,
        "Weights",
        "Bytes of weights that one decode step reads, as the engine reports them.";
    KvBytes: "kv_bytes", "bytes", Lower, Invocation,
        "Key/value cache",
        "Arithmetic: cache bytes per token × (prompt + output tokens) × concurrency, or × 1 \
         where the engine runs one request at a time.";
    BatchRequests: "batch_requests", "requests", Neither, Request,
        "Requests in a batch",
        "Largest number of requests that shared a step with one, itself included, as the \
         engine counts them; of requests that were in flight together.";
    TtftFromSentNs: "ttft_from_sent_ns", "ns", Lower, Request,
        "Time to first token, from sending",
        "First token minus the time the harness had written the request.";
    ReportLagNs: "report_lag_ns", "ns", Neither, Request,
        "Report lag",
        "From the last token by the engine's stamp until the harness had read the \
         answer: how far the engine's stamps can be off at most.";
    CpuUtilizationPercent: "cpu_utilization_percent", "%", Neither, Invocation,
        "CPU utilisation",
        "CPU time of the process tree over wall time within the window; 100 % is one core.";
    DecodeMbuPercent: "decode_mbu_percent", "%", Higher, Invocation,
        "Memory bandwidth used in decode (MBU)",
        "(Weight bytes × decode steps + cache bytes read) ÷ decode time ÷ the memory \
         bandwidth of the target's device, measured in the same run; absent where that \
         wasn't, and where the weights fit in four times the last-level cache.";
    PrefillMfuPercent: "prefill_mfu_percent", "%", Higher, Invocation,
        "Arithmetic used in prefill (MFU)",
        "FLOPs that the prompt needs (two per weight and token, and causal attention) ÷ \
         prefill time ÷ the FLOP/s of the target's device in its number format, measured in \
         the same run; on the processor that is f32.";
    CpuPerTokenNs: "cpu_per_token_ns", "ns", Lower, Invocation,
        "CPU time per output token",
        "CPU time of the process tree within the window, over its output tokens.";
    CpuEnergyPerTokenJ: "cpu_energy_per_token_j", "J", Lower, Invocation,
        "CPU energy per output token",
        "Energy of all processor packages, and of memory where it is counted (RAPL), \
         within the window, over its output tokens. Other processes' share is in it.";
    GpuUtilizationPercent: "gpu_utilization_percent", "%", Neither, Invocation,
        "GPU utilisation",
        "Share of time in which a kernel ran, by NVML, mean over the window. It says \
         nothing of how much of the GPU the kernel used.";
    GpuSmActivePercent: "gpu_sm_active_percent", "%", Neither, Invocation,
        "SM activity",
        "Share of the GPU's SMs that had a warp, mean over SMs and the window (GPM).";
    GpuTensorActivePercent: "gpu_tensor_active_percent", "%", Neither, Invocation,
        "Tensor core activity",
        "Share of time in which the tensor cores were at work, mean over SMs and the \
         window (GPM).";
    GpuDramBandwidthPercent: "gpu_dram_bandwidth_percent", "%", Neither, Invocation,
        "GPU memory bandwidth in use",
        "Share of the memory's nominal bandwidth that was used, mean over the window \
         (GPM).";
    GpuMemoryUtilizationPercent: "gpu_memory_utilization_percent", "%", Neither, Invocation,
        "GPU memory utilisation",
        "Share of time in which the GPU's memory was read or written, by NVML, mean over \
         the window. It says nothing of how much of the bandwidth was used.";
    GpuTemperatureCelsius: "gpu_temperature_celsius", "°C", Neither, Invocation,
        "GPU temperature",
        "Temperature of the GPU's die, mean of the readings in the window.";
    GpuSmClockMhz: "gpu_sm_clock_mhz", "MHz", Neither, Invocation,
        "GPU clock",
        "Clock of the GPU's SMs, mean of the readings in the window.";
    GpuThrottledPercent: "gpu_throttled_percent", "%", Neither, Invocation,
        "GPU throttled",
        "Share of the readings in the window in which heat or the power supply held the \
         GPU's clock down. The power limit, which a heavy load runs into, does not count.";
    PeakGpuMemoryBytes: "peak_gpu_memory_bytes", "bytes", Lower, Invocation,
        "Peak GPU memory",
        "Largest reading of the engine's GPU memory up to the end of the case; where the \
         driver can't tell whose is whose, all memory in use on a GPU that shows at most \
         one process.";
    GpuEnergyPerTokenJ: "gpu_energy_per_token_j", "J", Lower, Invocation,
        "GPU energy per output token",
        "Board power by NVML integrated over the window (trapezoids; none where readings \
         are more than 3 s apart), over its output tokens.";
    SamplerCpuPercent: "sampler_cpu_percent", "%", Neither, Invocation,
        "Sampler overhead",
        "CPU time of the harness's thread that reads the counters, over wall time within \
         the window; 100 % is one core.";
    GoodputPerS: "goodput_requests_per_s", "requests/s", Higher, Invocation,
        "Goodput",
        "Requests served per second in the steady window that kept the profile's limits: \
         time to first token, and 90 % of the gaps between tokens.";
    OfferedPerS: "offered_requests_per_s", "requests/s", Neither, Invocation,
        "Offered load",
        "Requests due per second in the steady window of an open loop.";
    ShortfallPercent: "shortfall_percent", "%", Neither, Invocation,
        "Shortfall",
        "1 − served ÷ offered in the steady window of an open loop; where its interval \
         lies above 0 the queue grew: over-saturated.";
    ScheduleLagNs: "schedule_lag_ns", "ns", Neither, Request,
        "Schedule lag",
        "Time the harness had written a request minus the time it was due: the load \
         generator's own lateness, which every latency includes.";
    CallNs: "call_ns", "ns", Lower, Reading,
        "Time of a call",
        "Time between two readings of the clock ÷ the calls between them, after \
         untimed ones; as many calls as a least duration takes.";
    FirstCallNs: "first_call_ns", "ns", Lower, Invocation,
        "First call",
        "The first call of a case in its process: what is compiled, tuned or \
         allocated once is in it.";
}

impl MetricId {
    /// Find the metric of that name, e.g. `ttft_ns`.
    pub fn from_id(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|id| id.describe().name == name)
    }
}

/// Return the metric that a planned scenario is ranked by: the first in the `reports` of its text.
/// `None` where that name is unknown, or without its text ([`PlannedScenario::text`]).
pub fn leading_of(planned: &PlannedScenario, scenarios: &[Scenario]) -> Option<MetricId> {
    MetricId::from_id(planned.text(scenarios)?.reports.first()?)
}

/// Return a message for each name in the scenarios' `reports` that is no metric, with what to do;
/// empty where there is none.
pub fn validate(scenarios: &[Scenario]) -> Vec<String> {
    let known = MetricId::ALL.map(|id| id.describe().name).join(", ");
    let mut wrong = Vec::new();
    for scenario in scenarios {
        let reports = scenario.reports.iter();
        for name in reports.filter(|name| MetricId::from_id(name).is_none()) {
            wrong.push(format!(
                "scenario {:?} reports {name:?}, which is no metric: use one of {known}",
                scenario.id
            ));
        }
    }
    wrong
}
