//! The share of its device that a case used: memory bandwidth in decode (MBU) and arithmetic in
//! prefill (MFU), against the best that the run measured on this device, in the target's own number
//! format.
//!
//! For one request at a time only: which request of a shared batch a step read or computed for is
//! not known outside the engine. A number that can't be computed correctly is absent.

use crate::analysis::{Cell, Exceeded, MetricId};
use crate::timing::ns_between;
use schema::record::{Ready, RequestRecord};
use schema::registry::{DeviceKind, Target};
use std::collections::BTreeMap;

/// Minimum size of the weights, in sizes of the last-level cache: smaller ones may never be read
/// from memory.
const CACHES: f64 = 4.0;

/// Largest share of a limit that is believable (percent). A larger share shows that the limit was
/// measured too low. The margin allows for launches during which the machine was faster than while
/// the limit was measured.
pub const BELIEVABLE_MAX: f64 = 105.0;

/// Remove all shares of each limit that a cell exceeded, and return these limits. Such a limit was
/// measured wrongly, or while the machine was slow, so each of its shares is too large. A limit is
/// one of a device, so the cells of targets on other devices keep their shares.
pub(crate) fn withdraw(cells: &mut [Cell], targets: &[Target]) -> Vec<Exceeded> {
    let mut exceeded = Vec::new();
    for kind in [DeviceKind::Processor, DeviceKind::Gpu, DeviceKind::Unknown] {
        for metric in [MetricId::DecodeMbuPercent, MetricId::PrefillMfuPercent] {
            let is_beyond = |limit: &Exceeded| limit.percent > BELIEVABLE_MAX;
            let Some(limit) = furthest(cells, targets, kind, metric).filter(is_beyond) else {
                continue;
            };
            for cell in cells.iter_mut() {
                if device_of(cell, targets) == Some(kind) {
                    cell.metrics.retain(|share| share.id != metric);
                }
            }
            exceeded.push(limit);
        }
    }
    exceeded
}

/// Find the largest share of a limit among the cells of one kind of device.
fn furthest(
    cells: &[Cell],
    targets: &[Target],
    kind: DeviceKind,
    metric: MetricId,
) -> Option<Exceeded> {
    let values = cells
        .iter()
        .filter(|cell| device_of(cell, targets) == Some(kind))
        .filter_map(|cell| Some((cell, cell.metric(metric)?.value)));
    let (cell, percent) = values.max_by(|a, b| a.1.total_cmp(&b.1))?;
    Some(Exceeded {
        metric,
        target: cell.target.clone(),
        percent,
    })
}

/// Return the device that a cell's target computes on; `None` where the plan lacks the target.
fn device_of(cell: &Cell, targets: &[Target]) -> Option<DeviceKind> {
    let target = targets.iter().find(|target| target.id == cell.target)?;
    Some(DeviceKind::of_backend(&target.backend))
}

/// Limits of one device and the work of the model, as the run recorded them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Limits {
    /// Bandwidth of the memory that the device computes from (bytes/s): of reading it, or on a GPU
    /// of copying in it.
    pub bandwidth_bytes_per_s: Option<f64>,
    /// Arithmetic throughput in the target's number format (FLOP/s).
    pub flops_per_s: Option<f64>,
    /// Size of all instances of the outermost cache together (bytes).
    pub cache_bytes: Option<f64>,
    /// Arithmetic that the model needs.
    pub work: Option<Work>,
}

/// The arithmetic that a dense decoder needs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Work {
    /// Number of weights that every token is multiplied with, without the output head.
    pub params_per_token: f64,
    /// Number of weights of the output head, used for tokens whose logits are wanted.
    pub params_head: f64,
    /// Layers × query heads × head size.
    pub attention_width: f64,
}

impl Limits {
    /// Read the limits of the device that a backend computes on, for a number format, from a run's
    /// facts; a limit without a fact is unknown. Facts of the processor have plain names, those of
    /// another device begin with the backend's: `cuda_flops_f16_per_s`.
    ///
    /// A processor's `memory_bandwidth_bytes_per_s`, of runs before 2026-11-28, is not used: it was
    /// measured by a loop that computed longer than memory took (see `ceilings::memory`).
    pub fn new(facts: &BTreeMap<String, String>, backend: &str, precision: &str) -> Self {
        let (of_device, memory) = match DeviceKind::of_backend(backend) {
            DeviceKind::Processor => (String::new(), "memory_read_bytes_per_s"),
            DeviceKind::Gpu => (format!("{backend}_"), "memory_bandwidth_bytes_per_s"),
            DeviceKind::Unknown => {
                return Self {
                    work: Work::new(facts),
                    ..Self::default()
                };
            }
        };
        let limit = |name: &str| number(facts, &format!("{of_device}{name}"));
        Self {
            bandwidth_bytes_per_s: limit(memory),
            flops_per_s: limit(&format!("flops_{precision}_per_s")),
            cache_bytes: limit("last_level_cache_bytes"),
            work: Work::new(facts),
        }
    }
}

/// Return a fact that is a finite number over 0.
fn number(facts: &BTreeMap<String, String>, key: &str) -> Option<f64> {
    let value: f64 = facts.get(key)?.parse().ok()?;
    (value.is_finite() && value > 0.0).then_some(value)
}

impl Work {
    /// Read the model's arithmetic from a run's facts; `None` unless all of it is there.
    fn new(facts: &BTreeMap<String, String>) -> Option<Self> {
        Some(Self {
            params_per_token: number(facts, "model_params_per_token")?,
            params_head: number(facts, "model_params_head")?,
            attention_width: number(facts, "model_attention_width")?,
        })
    }

    /// Return the FLOPs of the prefill of `tokens`, of which only the last one's logits are wanted:
    /// two per weight and token, and the two products of causal attention over the positions so far
    /// (Chowdhery et al., PaLM, 2022, appendix B, forward pass only).
    pub fn prefill_flops(&self, tokens: f64) -> f64 {
        let weights = self.params_per_token * tokens + self.params_head;
        2.0 * weights + 2.0 * self.attention_width * tokens * tokens
    }
}

/// Return the model bandwidth utilisation in decode (percent): bytes of weights and cache entries
/// read ÷ time between the first token and the last ÷ memory bandwidth. `None` where the weights
/// may stay in a cache.
pub(crate) fn decode_mbu_percent(
    requests: &[&RequestRecord],
    prompt_tokens: u32,
    ready: &Ready,
    limits: &Limits,
) -> Option<f64> {
    let bandwidth = limits.bandwidth_bytes_per_s?;
    let weights = ready.weight_bytes as f64;
    if weights < CACHES * limits.cache_bytes? {
        return None;
    }
    let (mut bytes, mut ns) = (0.0, 0.0);
    for request in requests {
        let [first, .., last] = request.token_ns.as_slice() else {
            return None;
        };
        // The step that gives token i reads the cache of all tokens before it.
        let steps = (request.token_ns.len() - 1) as f64;
        let positions = steps * (f64::from(prompt_tokens) + (steps + 1.0) / 2.0);
        bytes += steps * weights + positions * ready.kv_bytes_per_token as f64;
        ns += ns_between(*first, *last);
    }
    share(bytes, ns, bandwidth)
}

/// Return the model FLOPs utilisation in prefill (percent): FLOPs that the model needs for the
/// prompt ÷ time from the start of the work to the first token ÷ the arithmetic throughput that was
/// measured in the target's number format.
pub(crate) fn prefill_mfu_percent(
    requests: &[&RequestRecord],
    prompt_tokens: u32,
    limits: &Limits,
) -> Option<f64> {
    let (flops, work) = (limits.flops_per_s?, limits.work?);
    let mut ns = 0.0;
    for request in requests {
        ns += ns_between(request.started_ns, *request.token_ns.first()?);
    }
    let each = work.prefill_flops(f64::from(prompt_tokens));
    share(each * requests.len() as f64, ns, flops)
}

/// Return the rate of `amount` in `ns`, in percent of `per_s`.
fn share(amount: f64, ns: f64, per_s: f64) -> Option<f64> {
    let percent = 100.0 * amount / (ns / 1e9) / per_s;
    (ns > 0.0 && percent.is_finite()).then_some(percent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::Metric;
    use schema::key::CellKey;

    fn request(started_ns: u64, token_ns: &[u64]) -> RequestRecord {
        RequestRecord {
            started_ns,
            token_ns: token_ns.to_vec(),
            ..RequestRecord::default()
        }
    }

    fn ready(weight_bytes: u64) -> Ready {
        Ready {
            batching: "none".into(),
            weight_bytes,
            kv_bytes_per_token: 100,
            ..Ready::default()
        }
    }

    fn limits() -> Limits {
        Limits {
            bandwidth_bytes_per_s: Some(1e6),
            flops_per_s: Some(1e6),
            cache_bytes: Some(1000.0),
            work: Some(Work {
                params_per_token: 1000.0,
                params_head: 500.0,
                attention_width: 8.0,
            }),
        }
    }

    #[test]
    fn bandwidth_counts_weights_and_the_cache_so_far() {
        // Two steps in 0.1 s: 2 × 5000 bytes of weights, and 11 + 12 positions × 100.
        let one = request(0, &[1_000_000, 51_000_000, 101_000_000]);
        let percent = decode_mbu_percent(&[&one], 10, &ready(5000), &limits()).unwrap();
        assert!((percent - 100.0 * 12_300.0 / 0.1 / 1e6).abs() < 1e-9);
        let two = decode_mbu_percent(&[&one, &one], 10, &ready(5000), &limits()).unwrap();
        assert!((percent - two).abs() < 1e-9);
    }

    #[test]
    fn what_a_cache_may_hold_has_no_bandwidth() {
        let one = request(0, &[1_000_000, 51_000_000]);
        assert!(decode_mbu_percent(&[&one], 10, &ready(3999), &limits()).is_none());
        let unknown = Limits {
            cache_bytes: None,
            ..limits()
        };
        assert!(decode_mbu_percent(&[&one], 10, &ready(5000), &unknown).is_none());
        let short = request(0, &[1_000_000]);
        assert!(decode_mbu_percent(&[&short], 10, &ready(5000), &limits()).is_none());
    }

    #[test]
    fn arithmetic_counts_what_the_prompt_needs() {
        // 2 × (1000 × 10 + 500) + 2 × 8 × 100 FLOPs in 0.05 s.
        let one = request(1_000_000, &[51_000_000, 60_000_000]);
        let percent = prefill_mfu_percent(&[&one], 10, &limits()).unwrap();
        assert!((percent - 100.0 * 22_600.0 / 0.05 / 1e6).abs() < 1e-9);
        assert!(prefill_mfu_percent(&[&one], 10, &Limits::default()).is_none());
    }

    fn facts(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        let pairs = pairs.iter();
        pairs.map(|(k, v)| (k.to_string(), v.to_string())).collect()
    }

    #[test]
    fn facts_that_are_no_numbers_are_unknown() {
        let facts = facts(&[
            ("memory_read_bytes_per_s", "33000000000"),
            ("flops_f32_per_s", "NaN"),
            ("model_params_per_token", "5"),
        ]);
        let limits = Limits::new(&facts, "cpu", "f32");
        assert_eq!(limits.bandwidth_bytes_per_s, Some(33e9));
        assert_eq!((limits.flops_per_s, limits.work), (None, None));
    }

    #[test]
    fn what_the_processor_can_do_is_no_limit_of_another_device() {
        let facts = facts(&[
            ("memory_read_bytes_per_s", "1000000"),
            ("flops_f32_per_s", "1000000"),
            ("last_level_cache_bytes", "1000"),
            ("model_params_per_token", "1000"),
            ("model_params_head", "500"),
            ("model_attention_width", "8"),
        ]);
        let one = request(1_000_000, &[51_000_000, 60_000_000]);
        let shares = |backend: &str| {
            let limits = Limits::new(&facts, backend, "f32");
            (
                decode_mbu_percent(&[&one], 10, &ready(5000), &limits),
                prefill_mfu_percent(&[&one], 10, &limits),
            )
        };
        assert_eq!(Limits::new(&facts, "cpu", "f32"), limits());
        let (mbu, mfu) = shares("cpu");
        assert!(mbu.is_some() && mfu.is_some());
        for backend in ["cuda", "vulkan", "wgpu", "metal", "http"] {
            assert_eq!(shares(backend), (None, None), "{backend}");
            assert_eq!(Limits::new(&facts, backend, "f32").work, limits().work);
        }
    }

    #[test]
    fn a_limit_is_a_device_s_and_a_number_format_s() {
        let facts = facts(&[
            ("memory_read_bytes_per_s", "1"),
            ("flops_f32_per_s", "2"),
            ("cuda_memory_bandwidth_bytes_per_s", "3"),
            ("cuda_flops_f32_per_s", "4"),
            ("cuda_flops_f16_per_s", "5"),
            ("cuda_last_level_cache_bytes", "6"),
        ]);
        let of = |backend, precision| {
            let limits = Limits::new(&facts, backend, precision);
            (limits.bandwidth_bytes_per_s, limits.flops_per_s)
        };
        assert_eq!(of("cpu", "f32"), (Some(1.0), Some(2.0)));
        assert_eq!(of("cpu", "f16"), (Some(1.0), None));
        assert_eq!(of("cuda", "f32"), (Some(3.0), Some(4.0)));
        assert_eq!(of("cuda", "f16"), (Some(3.0), Some(5.0)));
        assert_eq!(of("cuda", "q8_0"), (Some(3.0), None));
        assert_eq!(of("vulkan", "f16"), (None, None));
        assert_eq!(of("http", "f16"), (None, None));
        assert_eq!(Limits::new(&facts, "cuda", "f16").cache_bytes, Some(6.0));
    }

    const MBU: MetricId = MetricId::DecodeMbuPercent;
    const MFU: MetricId = MetricId::PrefillMfuPercent;

    fn cell(target: &str, metrics: &[(MetricId, f64)]) -> Cell {
        let metric = |&(id, value): &(MetricId, f64)| Metric::of(id, value, vec![value; 5]);
        Cell {
            metrics: metrics.iter().map(metric).collect(),
            ..Cell::new(CellKey::new(target, "s", "p10"), 10)
        }
    }

    fn target(id: &str, backend: &str) -> Target {
        Target {
            id: id.into(),
            backend: backend.into(),
            ..Target::default()
        }
    }

    fn left(cell: &Cell) -> Vec<MetricId> {
        cell.metrics.iter().map(|metric| metric.id).collect()
    }

    #[test]
    fn a_limit_that_one_target_is_beyond_is_no_limit_for_any() {
        let targets = ["a", "b"].map(|id| target(id, "cpu"));
        let mut cells = [
            cell("a", &[(MetricId::TtftNs, 1e6), (MBU, 80.0), (MFU, 104.0)]),
            cell("b", &[(MBU, 1190.0)]),
        ];
        let exceeded = withdraw(&mut cells, &targets);
        let [limit] = exceeded.as_slice() else {
            panic!("one of the two: {exceeded:?}");
        };
        assert_eq!((limit.metric, limit.target.as_str()), (MBU, "b"));
        assert_eq!(left(&cells[0]), [MetricId::TtftNs, MFU]);
        assert_eq!(left(&cells[1]), []);
    }

    #[test]
    fn a_limit_of_one_device_is_withdrawn_there_alone() {
        let targets = [target("a", "cpu"), target("b", "flex"), target("c", "cuda")];
        let shares = |of_processor: f64, of_gpu: f64| {
            let mut cells = [
                cell("a", &[(MBU, of_processor), (MFU, 50.0)]),
                cell("b", &[(MBU, 80.0)]),
                cell("c", &[(MBU, of_gpu)]),
            ];
            let exceeded = withdraw(&mut cells, &targets);
            let who: Vec<String> = exceeded.into_iter().map(|limit| limit.target).collect();
            (who, cells.map(|cell| left(&cell)))
        };
        let (who, cells) = shares(300.0, 90.0);
        assert_eq!(who, ["a"]);
        assert_eq!(cells, [vec![MFU], vec![], vec![MBU]]);
        let (who, cells) = shares(70.0, 300.0);
        assert_eq!(who, ["c"]);
        assert_eq!(cells, [vec![MBU, MFU], vec![MBU], vec![]]);
    }
}
