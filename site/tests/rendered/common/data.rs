//! The synthetic world's files of `data/` and `engines/`: a registry with a target of every kind
//! that pages distinguish, scenarios with their cases in the synthetic run, prices for the machine
//! that the run names and for others, costs of adapters, and a result of `cargo xtask simulate`.
//! All numbers are invented.

use super::launch::SPEEDS;
use schema::adapters::{AdapterCost, AdapterCosts, Work};
use schema::prices::{Api, Dated, Electricity, Kind, Offer, Prices, Source};
use schema::registry::{Build, CargoBuild, Engine, Registry, Target, TargetEntry};
use schema::scenario::{Axis, LoadShape, Scenario};
use schema::simulation::{
    Outcome, PercentileOutcome, PercentileRow, PowerRow, ShapeRow, Simulation, SimulationRow,
    UntilOutcome, UntilRow,
};
use std::collections::BTreeMap;

pub fn registry() -> Registry {
    let entry = |backend: &str, precision: &str| TargetEntry {
        backend: backend.into(),
        precision: precision.into(),
        weights: "model.safetensors".into(),
        ..TargetEntry::default()
    };
    let mut engines: Vec<Engine> = Vec::new();
    for target in targets() {
        let entry = entry(&target.backend, &target.precision);
        match engines.iter_mut().find(|engine| engine.id == target.engine) {
            Some(engine) => engine.targets.push(entry),
            None => engines.push(Engine {
                name: format!("{} (synthetic)", target.engine),
                about: "An invented engine: its numbers show the page, nothing else.".into(),
                homepage: "https://example.org/".into(),
                build: Build::Cargo(CargoBuild::new(
                    format!("{}-bench", target.engine),
                    format!("{}-bench", target.engine),
                )),
                on: BTreeMap::new(),
                direct: vec![],
                env: Vec::new(),
                architectures: vec!["llama".into()],
                test_server: None,
                hidden: false,
                ours: false,
                in_rust: false,
                unpublished: false,
                id: target.engine,
                targets: vec![entry],
            }),
        }
    }
    engines[0].targets.push(entry("cuda", "bf16"));
    Registry {
        baseline: "pytorch.cpu.f32".into(),
        reference: "pytorch.cpu.f32".into(),
        cross_check: "candle.cpu.f32".into(),
        engines,
        ..Registry::default()
    }
}

pub fn targets() -> Vec<Target> {
    SPEEDS.map(|(id, ..)| fixtures::target(id)).into()
}

pub struct Shape {
    pub id: &'static str,
    pub title: &'static str,
    pub question: &'static str,
    pub load: LoadShape,
    pub axis: Axis,
    pub reports: &'static [&'static str],
    pub values: &'static [u32],
}

pub const SHAPES: [Shape; 5] = [
    Shape {
        id: "concurrent",
        title: "Concurrent users",
        question: "What does a user feel when others use the engine too?",
        load: LoadShape::ClosedLoop,
        axis: Axis::Users,
        reports: &["e2e_ns", "ttft_ns", "itl_ns", "output_tok_per_s"],
        values: &[1, 2, 4, 8],
    },
    Shape {
        id: "long_context",
        title: "Long context",
        question: "How does the wait for the first token grow with the prompt?",
        load: LoadShape::Serial,
        axis: Axis::PromptTokens,
        reports: &["ttft_ns", "itl_ns", "e2e_ns", "peak_rss_bytes"],
        values: &[128, 256, 512],
    },
    Shape {
        id: "memory",
        title: "Memory",
        question: "How much memory does a batch take?",
        load: LoadShape::Batch,
        axis: Axis::Batch,
        reports: &[
            "peak_rss_bytes",
            "weight_bytes",
            "kv_bytes",
            "output_tok_per_s",
        ],
        values: &[1, 2, 4],
    },
    Shape {
        id: "single_request",
        title: "Single request",
        question: "How long does one user wait when nobody else does?",
        load: LoadShape::Serial,
        axis: Axis::PromptTokens,
        reports: &["ttft_ns", "itl_ns", "tpot_ns", "e2e_ns", "cold_start_ns"],
        values: &[10, 50, 200],
    },
    Shape {
        id: "sustained",
        title: "Sustained load",
        question: "How many tokens a second does an engine deliver when it is kept busy?",
        load: LoadShape::ClosedLoop,
        axis: Axis::InFlight,
        reports: &[
            "output_tok_per_s",
            "requests_per_s",
            "e2e_ns",
            "cpu_utilization_percent",
        ],
        values: &[4, 8],
    },
];

pub fn scenarios() -> Vec<Scenario> {
    SHAPES
        .iter()
        .map(|shape| Scenario {
            id: shape.id.into(),
            version: 1,
            title: shape.title.into(),
            question: shape.question.into(),
            load: shape.load,
            axis: shape.axis,
            reports: shape.reports.iter().map(|r| (*r).into()).collect(),
            analysis: "What these numbers mean: **nothing**, they are synthetic.\n\n- `TTFT` is mostly the prefill,\n- *ITL* is one decode step.\n".into(),
            ..Scenario::default()
        })
        .collect()
}

/// A price file with offers for the synthetic machine and for others.
pub fn prices() -> Prices {
    Prices {
        date: "2099-01-01".into(),
        about: "Invented.".into(),
        offers: vec![
            offer(
                "Synthetic Cloud",
                Kind::Cpu,
                "synthetic data, no machine",
                2,
                0.36,
            ),
            offer(
                "Dear Cloud",
                Kind::Cpu,
                "synthetic data, no machine",
                2,
                0.72,
            ),
            offer(
                "Large Cloud",
                Kind::Cpu,
                "synthetic data, no machine",
                64,
                0.01,
            ),
            offer("GPU Cloud", Kind::Gpu, "NVIDIA Synthetic", 8, 16.0),
        ],
        electricity: vec![Electricity {
            place: "Nowhere".into(),
            usd_per_kwh: 0.1,
            source: source(),
        }],
        apis: vec![Api {
            provider: "Synthetic API".into(),
            model: "tiny-llama".into(),
            usd_per_m_input: 0.1,
            usd_per_m_output: 0.4,
            source: source(),
        }],
    }
}

fn offer(provider: &str, kind: Kind, device: &str, units: u32, usd: f64) -> Offer {
    Offer {
        provider: provider.into(),
        product: "one".into(),
        kind,
        model: device.into(),
        devices: vec![device.into()],
        units,
        usd_per_h_on_demand: Some(usd),
        usd_per_h_spot: None,
        region: String::new(),
        note: String::new(),
        source: source(),
    }
}

fn source() -> Source {
    Source {
        url: "https://prices.example/".into(),
        via: String::new(),
        date: "2098-12-31".into(),
        dated: Dated::Published,
    }
}

/// Costs of an adapter without a detectable cost, and of one that gives other tokens.
pub fn adapters() -> AdapterCosts {
    let row = |engine: &str, work, ratio: f64| AdapterCost {
        measured: "2098-12-31".into(),
        revision: Some("0123456789abcdef".into()),
        engine: engine.into(),
        version: "1.2.3".into(),
        target: format!("{engine}.cpu.q8_0"),
        work,
        prompt_tokens: 512,
        new_tokens: 1,
        pairs: 10,
        ratio,
        ci95: Some((ratio - 0.01, ratio + 0.01)),
        adapter_tok_per_s: 123.4,
        direct_tok_per_s: 123.4 / ratio,
        tool: None,
        other_tokens: String::new(),
    };
    AdapterCosts {
        cpu_model: Some("A processor".into()),
        model: "tiny-llama".into(),
        rows: vec![
            row("alpha", Work::Prefill, 0.995),
            AdapterCost {
                other_tokens: "its reader leaves out <RoPE> scaling".into(),
                ..row("alpha", Work::Decode, 0.95)
            },
            AdapterCost {
                tool: Some("alpha-bench, build 7".into()),
                ..row("alpha", Work::Decode, 1.0)
            },
        ],
    }
}

/// Simulation results: a size without an outcome, one with an outcome, and a row or two of all
/// else.
pub fn simulation() -> Simulation {
    let found = Outcome {
        coverage: 0.951,
        false_positive_test: 0.049,
        false_positive: 0.012,
        power_test: 0.31,
        power: 0.17,
        equal: 0.61,
        false_equal: 0.021,
    };
    let row = |invocations, found| SimulationRow {
        profiles: vec!["cpu".into()],
        invocations,
        requests: 20,
        icc: 0.5,
        found,
    };
    Simulation {
        experiments: 2000,
        seed: 1,
        log_stddev: 0.3,
        lag1: 0.5,
        difference: 0.05,
        rows: vec![row(1, None), row(5, Some(found))],
        power: vec![PowerRow {
            invocations: 5,
            launch_log_stddev: 0.02,
            found,
        }],
        shapes_difference: 0.2,
        shapes: vec![ShapeRow {
            invocations: 5,
            shape: "10 % of launches take 1.7 times as long".into(),
            found,
        }],
        until: vec![UntilRow {
            compared: true,
            pairs: Some(0.025),
            cells: 10,
            invocations: 5,
            percent: 5.0,
            launch_log_stddev: 0.05,
            found: UntilOutcome {
                blocks: 9.1,
                gave_up: 0.0,
                coverage: 0.94,
                coverage_widest: 0.9,
                false_positive: Some(0.031),
                power: Some(0.83),
            },
        }],
        percentiles_icc: 0.1,
        percentiles: [(0.0, 0.937), (0.25, 0.282)]
            .map(|(slow, coverage)| PercentileRow {
                invocations: 5,
                requests: 20,
                slow,
                percentile: 90,
                found: Some(PercentileOutcome {
                    given: 0.64,
                    coverage,
                    half_width_percent: 12.3,
                }),
            })
            .to_vec(),
    }
}
