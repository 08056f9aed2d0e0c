//! Runs the `gpu` profile on a machine without a GPU: its own scenarios and cases with fewer and
//! shorter requests, contexts of 8 K whose golden is made during the test, capacities, open loops,
//! two shards, their merge and the site. The engine is the fake under the name of a CUDA backend,
//! and the card is a library that answers as NVIDIA's does, so the code that queries a card is the
//! real one.
//!
//! This is a test program of its own, because Cargo runs test programs one after the other. With up
//! to 64 requests in flight beside the tests of `harness`, answers would be read late, and cells
//! would be `bad_timing`.

// Shared with the tests of `harness`, which use all of it.
#[allow(dead_code)]
#[path = "../harness/checkout.rs"]
mod checkout;

use checkout::{Checkout, embedded, library, program, text, words};
use provision::build;
use schema::record::Telemetry;
use schema::run::Run;
use stats::analysis::{Cell, MetricId};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tempfile::TempDir;
use toml::Value;

/// A model with enough positions for the profile's longest context.
const MODEL: &str = "tiny-llama3";

/// Return the profile `gpu` as committed, but with fewer blocks and shorter requests.
fn profile() -> String {
    let root = Checkout::real_repo().root;
    let text = std::fs::read_to_string(root.join("data/profiles/gpu.toml")).expect("it is there");
    let mut profile: toml::Table = text.parse().expect("it is TOML");
    profile.insert("id".into(), "test".into());
    profile.insert("model".into(), MODEL.into());
    profile.insert("invocations".into(), 2.into());
    // This skips measuring the limits of the processor; those of the card are measured.
    profile.insert("publishable".into(), false.into());
    // The micro suites have other programs, which other tests cover.
    profile.remove("micro");
    for (_, scenario) in profile["scenarios"].as_table_mut().expect("a table") {
        let scenario = scenario.as_table_mut().expect("a table");
        let in_flight = scenario["concurrency"].as_array().expect("a list");
        let most = in_flight.iter().filter_map(Value::as_integer).max();
        // Open loops wait for scheduled requests, so they get a fixed number.
        let requests = match scenario.contains_key("load_percent") {
            true => 16,
            false => most.unwrap_or(1).max(4),
        };
        scenario.insert("requests".into(), requests.into());
        scenario.insert("new_tokens".into(), 8.into());
        if scenario.contains_key("duration_s") {
            scenario.insert("duration_s".into(), 0.1.into());
        }
    }
    toml::to_string(&profile).expect("it is a table")
}

/// A machine with the scripted card, and a checkout whose measured targets are the fake on a GPU.
struct Machine {
    checkout: Checkout,
    card: TempDir,
    _alone: MutexGuard<'static, ()>,
}

/// Lock that makes the tests run one after the other, because they measure.
static MEASURING: Mutex<()> = Mutex::new(());

impl Machine {
    fn new() -> Self {
        let alone = MEASURING.lock().unwrap_or_else(PoisonError::into_inner);
        let checkout = Checkout::with(&["ok", "slow"]);
        checkout.registry(|registry| {
            let (head, targets) = registry
                .split_once("variant = \"ok\"")
                .expect("the plain fake comes first");
            let on_gpu = targets.replace("backend = \"cpu\"", "backend = \"cuda\"");
            // As in the registry, but without provisioning CUDA, which is scripted here.
            let limits = program(&build::limits_id("cuda"), "gpu-limits", "gpu-limits");
            let limits = limits.display().to_string();
            let limits = format!("cuda = {{ kind = \"prebuilt\", path = {limits:?} }}");
            let device = format!("[backend]\ncuda = [\"cuda_driver\"]\n[limits]\n{limits}\n");
            format!("{head}variant = \"ok\"{on_gpu}\n{device}")
        });
        checkout.profile(&profile());
        checkout.link_model(&embedded(MODEL));
        let card = tempfile::tempdir().expect("a temporary directory can be made");
        let built = library(card.path(), "tests/rehearsal/nvml.c");
        std::fs::rename(built, card.path().join("libnvidia-ml.so.1")).expect("it was built");
        // One file under several names is loaded only once, so both libraries share one clock.
        let built = library(card.path(), "tests/rehearsal/cuda.c");
        std::fs::rename(built, card.path().join("libcuda.so")).expect("it was built");
        for name in ["libcuda.so.1", "libcublas.so"] {
            let link = card.path().join(name);
            std::os::unix::fs::symlink("libcuda.so", link).expect("a link can be made");
        }
        Self {
            checkout,
            card,
            _alone: alone,
        }
    }

    /// Run `cargo xtask` with a card that lacks some counters.
    fn xtask(&self, arguments: &[&str], lacks: &str) {
        let environment = [
            ("LD_LIBRARY_PATH", self.card.path().to_str().expect("UTF-8")),
            ("NVML_LACKS", lacks),
            ("CUDA_LACKS", lacks),
            ("FAKE_PREFILL_US", "200"),
            ("FAKE_DECODE_US", "100"),
            // An answer may be late by a share of its request's time: a request beside 63 others
            // must take longer than reading 64 answers that arrive at once.
            ("FAKE_ROW_US", "150"),
            ("FAKE_PREFILL_TOKEN_US", "1"),
        ];
        let output = self.checkout.xtask(arguments, &environment);
        assert!(output.status.success(), "{arguments:?}: {}", text(&output));
    }
}

/// Return a limit that the run measured.
fn limit(run: &Run, name: &str) -> Option<f64> {
    let fact = run.header.provenance.facts.get(&format!("cuda_{name}"))?;
    Some(fact.parse().expect("it is a number"))
}

fn readings(run: &Run) -> impl Iterator<Item = &Telemetry> {
    run.launches.iter().flat_map(|log| &log.telemetry)
}

#[test]
fn the_whole_gpu_profile_is_measured_merged_and_shown() {
    let machine = Machine::new();
    let checkout = &machine.checkout;
    let run = |arguments: &[&str]| machine.xtask(arguments, "");

    run(&["bench", "--profile", "test", "--shard", "1/2"]);
    let first = checkout.latest().expect("a run was recorded");
    let seed = first.header.plan.prompt_seed.map(|seed| seed.to_string());
    let seed = seed.expect("the first shard draws it");
    let second = ["--shard", "2/2", "--prompt-seed", &seed];
    run(&[&["bench", "--profile", "test"], &second[..]].concat());
    let second = checkout.latest().expect("a run was recorded");
    let ids = [first.header.id.as_str(), second.header.id.as_str()];
    run(&["merge", ids[0], ids[1]]);
    let whole = checkout.latest().expect("they were merged");

    // Every cell that the profile plans must have numbers.
    let plan = &whole.header.plan;
    let planned: usize = plan.scenarios.iter().map(|s| s.cases.len()).sum();
    let cells = checkout.all_ok(&whole, 8);
    assert_eq!(cells.len(), planned * plan.targets.len());
    assert!(planned >= 26, "{planned}");
    let facts = &whole.header.provenance.facts;
    assert_eq!(facts["gpu"], "Scripted GPU");
    assert_eq!(facts["golden_positions"], "8200");
    let origin = &facts["golden_origin"];
    assert!(origin.starts_with("made here by fake.cpu.f32"), "{origin}");
    assert!(!whole.capacities.is_empty());

    // The scripted card's limits were measured, in every number format.
    for (name, rate) in [
        ("last_level_cache_bytes", f64::from(50 << 20)),
        ("memory_bandwidth_bytes_per_s", 3.2e12),
        ("flops_f32_per_s", 6.0e13),
        ("flops_tf32_per_s", 4.0e14),
        ("flops_f16_per_s", 8.0e14),
        ("flops_bf16_per_s", 8.0e14),
        ("ops_int8_per_s", 1.6e15),
    ] {
        let measured = limit(&whole, name).expect(name);
        assert!((measured / rate - 1.0).abs() < 1e-3, "{name}: {measured}");
    }

    // Every counter of the card reaches the records, and the cells have the metrics derived from
    // them.
    type Counter = fn(&Telemetry) -> bool;
    let counters: [(&str, Counter); 15] = [
        ("power", |r| r.gpu_power_mw == Some(250_000)),
        ("energy", |r| r.gpu_energy_mj.is_some()),
        ("utilization", |r| r.gpu_utilization_percent == Some(87.0)),
        ("memory utilization", |r| {
            r.gpu_memory_utilization_percent == Some(43.0)
        }),
        ("memory used", |r| r.gpu_memory_used_bytes.is_some()),
        ("the engine's memory", |r| {
            r.gpu_memory_bytes == Some(3 << 30)
        }),
        ("its processes", |r| r.gpu_processes_own == Some(1)),
        ("SM clock", |r| r.gpu_sm_clock_mhz == Some(1755)),
        ("memory clock", |r| r.gpu_memory_clock_mhz == Some(1755)),
        ("temperature", |r| r.gpu_temperature_celsius == Some(61)),
        ("throttling", |r| r.gpu_throttle_reasons == Some(0)),
        ("ECC", |r| r.gpu_ecc_uncorrected == Some(0)),
        ("SMs", |r| r.gpu_sm_active_percent == Some(50.0)),
        ("tensor cores", |r| {
            r.gpu_tensor_active_percent == Some(50.0)
        }),
        ("bandwidth", |r| r.gpu_dram_bandwidth_percent == Some(50.0)),
    ];
    for (name, is_there) in counters {
        assert!(readings(&whole).any(is_there), "{name} was never read");
    }
    assert!(readings(&whole).all(|r| r.gpu_lost.is_none() && r.gpu_error.is_none()));
    let scenarios = checkout.repo().scenarios().expect("they are valid");
    let analysis = stats::analyse(&whole, &scenarios, "fake+ok.cuda.f32");
    let single = analysis.cells.iter();
    let single: Vec<_> = single
        .filter(|cell| cell.scenario == "single_request")
        .collect();
    let has_share = |cell: &&Cell| cell.metric(MetricId::PrefillMfuPercent).is_some();
    assert!(!single.is_empty() && single.iter().all(has_share));
    let memory = analysis.cells.iter().filter(|c| c.scenario == "memory");
    for cell in memory {
        let peak = cell.metric(MetricId::PeakGpuMemoryBytes);
        let peak = peak.map(|metric| metric.value);
        let scripted = f64::from(3 << 10) * f64::from(1 << 20);
        assert_eq!(peak, Some(scripted), "{}", cell.case);
    }

    run(&["site"]);
    let page = checkout.read(&format!("target/site/run/{}.html", whole.header.id));
    assert!(page.contains("Scripted GPU"));
}

#[test]
fn a_card_that_lacks_counters_is_measured_without_them() {
    let machine = Machine::new();
    let checkout = &machine.checkout;
    let arguments = words("bench --profile test --scenarios single_request");
    machine.xtask(&arguments, "gpm energy ecc int8");
    let run = checkout.latest().expect("a run was recorded");
    checkout.all_ok(&run, 0);
    assert!(limit(&run, "flops_bf16_per_s").is_some());
    assert_eq!(limit(&run, "ops_int8_per_s"), None);
    assert!(readings(&run).any(|r| r.gpu_power_mw.is_some()));
    assert!(readings(&run).all(|r| r.gpu_energy_mj.is_none()));
    assert!(readings(&run).all(|r| r.gpu_sm_active_percent.is_none()));
    assert!(readings(&run).all(|r| r.gpu_error.is_none() && r.gpu_lost.is_none()));
}
