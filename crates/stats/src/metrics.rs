//! The description of each metric: name, unit, direction, what one sample is, and the definition in
//! one line. The site, `export` and the scenarios' `reports` all use the names given here.
//! `samples.rs` computes the values.

mod reports;

pub use reports::{leading_metric, leading_of, unknown_metrics, validate};

use crate::analysis::MetricId;

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

impl MetricId {
    /// All metrics, in their order.
    pub const ALL: [MetricId; 36] = [
        MetricId::TtftNs,
        MetricId::ItlNs,
        MetricId::TpotNs,
        MetricId::E2eNs,
        MetricId::OutputTokPerS,
        MetricId::RequestsPerS,
        MetricId::ColdStartNs,
        MetricId::LoadNs,
        MetricId::PeakRssBytes,
        MetricId::WeightBytes,
        MetricId::KvBytes,
        MetricId::BatchRequests,
        MetricId::TtftFromSentNs,
        MetricId::ReportLagNs,
        MetricId::CpuUtilizationPercent,
        MetricId::DecodeMbuPercent,
        MetricId::PrefillMfuPercent,
        MetricId::CpuPerTokenNs,
        MetricId::CpuEnergyPerTokenJ,
        MetricId::GpuUtilizationPercent,
        MetricId::GpuSmActivePercent,
        MetricId::GpuTensorActivePercent,
        MetricId::GpuDramBandwidthPercent,
        MetricId::GpuMemoryUtilizationPercent,
        MetricId::GpuTemperatureCelsius,
        MetricId::GpuSmClockMhz,
        MetricId::GpuThrottledPercent,
        MetricId::PeakGpuMemoryBytes,
        MetricId::GpuEnergyPerTokenJ,
        MetricId::SamplerCpuPercent,
        MetricId::GoodputPerS,
        MetricId::OfferedPerS,
        MetricId::ShortfallPercent,
        MetricId::ScheduleLagNs,
        MetricId::CallNs,
        MetricId::FirstCallNs,
    ];

    /// Find the metric of that name, e.g. `ttft_ns`.
    pub fn from_id(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|id| id.describe().name == name)
    }

    /// Describe the metric.
    pub fn describe(self) -> About {
        use Better::{Higher, Lower, Neither};
        use Sample::{Gap, Invocation, Reading, Request};
        let (name, unit, title, better, sample, definition) = match self {
            MetricId::TtftNs => (
                "ttft_ns",
                "ns",
                "Time to first token",
                Lower,
                Request,
                "First token minus the time the request was due, so waiting in any queue counts.",
            ),
            MetricId::ItlNs => (
                "itl_ns",
                "ns",
                "Inter-token latency",
                Lower,
                Gap,
                "Each gap between two consecutive tokens of a request.",
            ),
            MetricId::TpotNs => (
                "tpot_ns",
                "ns",
                "Time per output token",
                Lower,
                Request,
                "(Last token − first token) ÷ (tokens − 1) of a request with two or more tokens.",
            ),
            MetricId::E2eNs => (
                "e2e_ns",
                "ns",
                "End-to-end latency",
                Lower,
                Request,
                "Last token minus the time the request was due; the way back to the harness is \
                 not in it, it is the report lag.",
            ),
            MetricId::OutputTokPerS => (
                "output_tok_per_s",
                "tok/s",
                "Output throughput",
                Higher,
                Invocation,
                "Output tokens per second: in closed loops the tokens stamped while full \
                 concurrency was held (no ramp-up, no ramp-down), in open loops those from when \
                 latencies settled to the last arrival, else all tokens over the time in which a \
                 request was at work.",
            ),
            MetricId::RequestsPerS => (
                "requests_per_s",
                "requests/s",
                "Request throughput",
                Higher,
                Invocation,
                "Output throughput divided by the output length, which is the same for every \
                 request of a case.",
            ),
            MetricId::ColdStartNs => (
                "cold_start_ns",
                "ns",
                "Cold start",
                Lower,
                Invocation,
                "From just before the process was started until the engine reported the model \
                 loaded; the page cache is as earlier launches left it.",
            ),
            MetricId::LoadNs => (
                "load_ns",
                "ns",
                "Model load",
                Lower,
                Invocation,
                "Time to load the model by the engine's own clock.",
            ),
            MetricId::PeakRssBytes => (
                "peak_rss_bytes",
                "bytes",
                "Peak resident memory",
                Lower,
                Invocation,
                "Largest resident set (VmHWM) of the engine process from its start to the end of \
                 the case; during the case alone, without loading, where a process serves several \
                 scenarios (`one_process`), and of a micro suite's.",
            ),
            MetricId::WeightBytes => (
                "weight_bytes",
                "bytes",
                "Weights",
                Lower,
                Invocation,
                "Bytes of weights that one decode step reads, as the engine reports them.",
            ),
            MetricId::KvBytes => (
                "kv_bytes",
                "bytes",
                "Key/value cache",
                Lower,
                Invocation,
                "Arithmetic: cache bytes per token × (prompt + output tokens) × concurrency, or × 1 \
                 where the engine runs one request at a time.",
            ),
            MetricId::BatchRequests => (
                "batch_requests",
                "requests",
                "Requests in a batch",
                Neither,
                Request,
                "Largest number of requests that shared a step with one, itself included, as the \
                 engine counts them; of requests that were in flight together.",
            ),
            MetricId::TtftFromSentNs => (
                "ttft_from_sent_ns",
                "ns",
                "Time to first token, from sending",
                Lower,
                Request,
                "First token minus the time the harness had written the request.",
            ),
            MetricId::ReportLagNs => (
                "report_lag_ns",
                "ns",
                "Report lag",
                Neither,
                Request,
                "From the last token by the engine's stamp until the harness had read the \
                 answer: how far the engine's stamps can be off at most.",
            ),
            MetricId::CpuUtilizationPercent => (
                "cpu_utilization_percent",
                "%",
                "CPU utilisation",
                Neither,
                Invocation,
                "CPU time of the process tree over wall time within the window; 100 % is one core.",
            ),
            MetricId::DecodeMbuPercent => (
                "decode_mbu_percent",
                "%",
                "Memory bandwidth used in decode (MBU)",
                Higher,
                Invocation,
                "(Weight bytes × decode steps + cache bytes read) ÷ decode time ÷ the memory \
                 bandwidth of the target's device, measured in the same run; absent where that \
                 wasn't, and where the weights fit in four times the last-level cache.",
            ),
            MetricId::PrefillMfuPercent => (
                "prefill_mfu_percent",
                "%",
                "Arithmetic used in prefill (MFU)",
                Higher,
                Invocation,
                "FLOPs that the prompt needs (two per weight and token, and causal attention) ÷ \
                 prefill time ÷ the FLOP/s of the target's device in its number format, measured in \
                 the same run; on the processor that is f32.",
            ),
            MetricId::CpuPerTokenNs => (
                "cpu_per_token_ns",
                "ns",
                "CPU time per output token",
                Lower,
                Invocation,
                "CPU time of the process tree within the window, over its output tokens.",
            ),
            MetricId::CpuEnergyPerTokenJ => (
                "cpu_energy_per_token_j",
                "J",
                "CPU energy per output token",
                Lower,
                Invocation,
                "Energy of all processor packages, and of memory where it is counted (RAPL), \
                 within the window, over its output tokens. Other processes' share is in it.",
            ),
            MetricId::GpuUtilizationPercent => (
                "gpu_utilization_percent",
                "%",
                "GPU utilisation",
                Neither,
                Invocation,
                "Share of time in which a kernel ran, by NVML, mean over the window. It says \
                 nothing of how much of the GPU the kernel used.",
            ),
            MetricId::GpuSmActivePercent => (
                "gpu_sm_active_percent",
                "%",
                "SM activity",
                Neither,
                Invocation,
                "Share of the GPU's SMs that had a warp, mean over SMs and the window (GPM).",
            ),
            MetricId::GpuTensorActivePercent => (
                "gpu_tensor_active_percent",
                "%",
                "Tensor core activity",
                Neither,
                Invocation,
                "Share of time in which the tensor cores were at work, mean over SMs and the \
                 window (GPM).",
            ),
            MetricId::GpuDramBandwidthPercent => (
                "gpu_dram_bandwidth_percent",
                "%",
                "GPU memory bandwidth in use",
                Neither,
                Invocation,
                "Share of the memory's nominal bandwidth that was used, mean over the window \
                 (GPM).",
            ),
            MetricId::GpuMemoryUtilizationPercent => (
                "gpu_memory_utilization_percent",
                "%",
                "GPU memory utilisation",
                Neither,
                Invocation,
                "Share of time in which the GPU's memory was read or written, by NVML, mean over \
                 the window. It says nothing of how much of the bandwidth was used.",
            ),
            MetricId::GpuTemperatureCelsius => (
                "gpu_temperature_celsius",
                "°C",
                "GPU temperature",
                Neither,
                Invocation,
                "Temperature of the GPU's die, mean of the readings in the window.",
            ),
            MetricId::GpuSmClockMhz => (
                "gpu_sm_clock_mhz",
                "MHz",
                "GPU clock",
                Neither,
                Invocation,
                "Clock of the GPU's SMs, mean of the readings in the window.",
            ),
            MetricId::GpuThrottledPercent => (
                "gpu_throttled_percent",
                "%",
                "GPU throttled",
                Neither,
                Invocation,
                "Share of the readings in the window in which heat or the power supply held the \
                 GPU's clock down. The power limit, which a heavy load runs into, does not count.",
            ),
            MetricId::PeakGpuMemoryBytes => (
                "peak_gpu_memory_bytes",
                "bytes",
                "Peak GPU memory",
                Lower,
                Invocation,
                "Largest reading of the engine's GPU memory up to the end of the case; where the \
                 driver can't tell whose is whose, all memory in use on a GPU that shows at most \
                 one process.",
            ),
            MetricId::GpuEnergyPerTokenJ => (
                "gpu_energy_per_token_j",
                "J",
                "GPU energy per output token",
                Lower,
                Invocation,
                "Board power by NVML integrated over the window (trapezoids; none where readings \
                 are more than 3 s apart), over its output tokens.",
            ),
            MetricId::SamplerCpuPercent => (
                "sampler_cpu_percent",
                "%",
                "Sampler overhead",
                Neither,
                Invocation,
                "CPU time of the harness's thread that reads the counters, over wall time within \
                 the window; 100 % is one core.",
            ),
            MetricId::GoodputPerS => (
                "goodput_requests_per_s",
                "requests/s",
                "Goodput",
                Higher,
                Invocation,
                "Requests served per second in the steady window that kept the profile's limits: \
                 time to first token, and 90 % of the gaps between tokens.",
            ),
            MetricId::OfferedPerS => (
                "offered_requests_per_s",
                "requests/s",
                "Offered load",
                Neither,
                Invocation,
                "Requests due per second in the steady window of an open loop.",
            ),
            MetricId::ShortfallPercent => (
                "shortfall_percent",
                "%",
                "Shortfall",
                Neither,
                Invocation,
                "1 − served ÷ offered in the steady window of an open loop; where its interval \
                 lies above 0 the queue grew: over-saturated.",
            ),
            MetricId::ScheduleLagNs => (
                "schedule_lag_ns",
                "ns",
                "Schedule lag",
                Neither,
                Request,
                "Time the harness had written a request minus the time it was due: the load \
                 generator's own lateness, which every latency includes.",
            ),
            MetricId::CallNs => (
                "call_ns",
                "ns",
                "Time of a call",
                Lower,
                Reading,
                "Time between two readings of the clock ÷ the calls between them, after \
                 untimed ones; as many calls as a least duration takes.",
            ),
            MetricId::FirstCallNs => (
                "first_call_ns",
                "ns",
                "First call",
                Lower,
                Invocation,
                "The first call of a case in its process: what is compiled, tuned or \
                 allocated once is in it.",
            ),
        };
        About {
            name,
            unit,
            title,
            better,
            sample,
            definition,
        }
    }
}
