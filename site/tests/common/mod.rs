//! A synthetic run for tests and the preview: invented numbers in the shape of
//! real ones, with failures of several kinds. Every name in it says so.
#![allow(dead_code)] // Each test program uses its own part.

mod hypotheses;
mod launch;
mod provenance;
mod simulation;
pub mod twins;

use launch::{Noise, SPEEDS, launch};
use schema::hypothesis::Hypotheses;
use schema::model::{Model, Models, Source};
use schema::parity::{Limit, ParityLimits};
use schema::plan::{Case, Launch, Plan, PlannedScenario};
use schema::profile::Profile;
use schema::record::{CheckRecord, Status, VerifyRecord};
use schema::registry::{Build, Engine, Registry, Target, TargetEntry};
use schema::run::{FORMAT, Run, RunHeader};
use schema::scenario::{Axis, LoadShape, Scenario};
use schema::simulation::Simulation;
use simulation::simulation;
use std::collections::BTreeMap;

/// Everything a site is made from.
pub struct World {
    pub runs: Vec<Run>,
    pub scenarios: Vec<Scenario>,
    pub registry: Registry,
    pub models: Models,
    pub profiles: Vec<Profile>,
    pub parity: ParityLimits,
    pub simulation: Simulation,
    pub hypotheses: Hypotheses,
}

impl World {
    pub fn input(&self) -> site::Input<'_> {
        site::Input {
            runs: &self.runs,
            scenarios: &self.scenarios,
            registry: &self.registry,
            models: &self.models,
            profiles: &self.profiles,
            parity: Some(&self.parity),
            simulation: Some(&self.simulation),
            hypotheses: Some(&self.hypotheses),
        }
    }
}

fn targets() -> Vec<Target> {
    SPEEDS
        .iter()
        .map(|(id, ..)| {
            let parts: Vec<&str> = id.split('.').collect();
            Target {
                id: (*id).into(),
                engine: parts[0].into(),
                variant: String::new(),
                backend: parts[1].into(),
                precision: parts[2].into(),
                weights: "model.safetensors".into(),
                hidden: false,
            }
        })
        .collect()
}

pub fn registry() -> Registry {
    let mut engines: Vec<Engine> = Vec::new();
    for target in targets() {
        let entry = TargetEntry {
            variant: String::new(),
            backend: target.backend,
            precision: target.precision,
            weights: target.weights,
            hidden: false,
        };
        match engines.iter_mut().find(|engine| engine.id == target.engine) {
            Some(engine) => engine.targets.push(entry),
            None => engines.push(Engine {
                name: format!("{} (synthetic)", target.engine),
                about: "An invented engine: its numbers show the page, nothing else.".into(),
                homepage: "https://example.org/".into(),
                build: Build::Cargo {
                    package: format!("{}-bench", target.engine),
                    bin: format!("{}-bench", target.engine),
                    manifest: None,
                    features: Vec::new(),
                    default_features: true,
                    needs: Vec::new(),
                },
                on: BTreeMap::new(),
                direct: None,
                test_server: None,
                hidden: false,
                id: target.engine,
                targets: vec![entry],
            }),
        }
    }
    engines[0].targets.push(TargetEntry {
        variant: String::new(),
        backend: "cuda".into(),
        precision: "bf16".into(),
        weights: "model.safetensors".into(),
        hidden: false,
    });
    Registry {
        baseline: "pytorch.cpu.f32".into(),
        reference: "pytorch.cpu.f32".into(),
        cross_check: "candle.cpu.f32".into(),
        instrument: None,
        engines,
    }
}

struct Shape {
    id: &'static str,
    title: &'static str,
    question: &'static str,
    load: LoadShape,
    axis: Axis,
    reports: &'static [&'static str],
    values: &'static [u32],
}

const SHAPES: [Shape; 5] = [
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
        })
        .collect()
}

/// A run of the given profile: `cpu` with five blocks, or `smoke` with one.
pub fn run(profile: &str, invocations: u32, requests: u32) -> Run {
    let scenarios: Vec<PlannedScenario> = SHAPES
        .iter()
        .map(|shape| PlannedScenario {
            id: shape.id.into(),
            version: 1,
            load: shape.load,
            axis: shape.axis,
            targets: Vec::new(),
            cases: shape
                .values
                .iter()
                .map(|&value| {
                    let tokens = shape.axis == Axis::PromptTokens;
                    Case {
                        id: format!("{}{value}", shape.axis.letter()),
                        prompt_tokens: if tokens { value } else { 50 },
                        new_tokens: 16,
                        concurrency: if tokens { 1 } else { value },
                        load_percent: None,
                        requests,
                        duration_s: 0.0,
                    }
                })
                .collect(),
        })
        .collect();
    let mut launches = Vec::new();
    let mut logs = Vec::new();
    let mut noise = Noise::new(7);
    for invocation in 0..invocations {
        for scenario in &scenarios {
            for (index, speed) in SPEEDS.iter().enumerate() {
                let groups: Vec<Vec<Case>> = if scenario.load == LoadShape::Batch {
                    scenario
                        .cases
                        .iter()
                        .map(|case| vec![case.clone()])
                        .collect()
                } else {
                    vec![scenario.cases.clone()]
                };
                for cases in groups {
                    let ids: Vec<String> = cases.iter().map(|case| case.id.clone()).collect();
                    launches.push(Launch {
                        invocation,
                        target: speed.0.into(),
                        scenario: scenario.id.clone(),
                        cases: ids,
                    });
                    if let Some(log) =
                        launch(scenario, &cases, invocation, index, requests, &mut noise)
                    {
                        logs.push(log);
                    }
                }
            }
        }
    }
    logs.sort_by(|a, b| a.file.cmp(&b.file));
    Run {
        header: RunHeader {
            format: FORMAT,
            id: format!("20990102-030405-{profile}-synthetic"),
            started: "2099-01-02T03:04:05Z".into(),
            argv: ["cargo", "xtask", "bench-all", "--profile", profile]
                .map(String::from)
                .to_vec(),
            plan_sha256: "5e".repeat(32),
            plan: Plan {
                profile: profile.into(),
                publishable: profile != "smoke",
                model: "tiny-llama".into(),
                seed: 20261121,
                threads: 2,
                invocations,
                warmup_requests: 1,
                request_timeout_s: 60,
                load_timeout_s: 180,
                budget_s: 0.0,
                slo: None,
                noise_floor: false,
                targets: targets(),
                scenarios,
                launches,
            },
            provenance: provenance::provenance(),
            origin: schema::origin::Origin::default(),
        },
        launches: logs,
        twins: vec![],
        verify: verify(),
        budget: None,
        capacities: Vec::new(),
        calibration: None,
        checks: checks(),
        kernels: Vec::new(),
    }
}

fn verify() -> BTreeMap<String, VerifyRecord> {
    SPEEDS
        .iter()
        .enumerate()
        .map(|(index, speed)| {
            let wrong = speed.0 == "mistralrs.cpu.q8_0";
            let record = VerifyRecord {
                target: speed.0.into(),
                model: "tiny-llama".into(),
                status: Status::Ok,
                reason: if wrong {
                    "synthetic: agrees up to 128 positions, then drifts".into()
                } else {
                    "8 prompts × 64 positions agree (synthetic)".into()
                },
                verified_positions: Some(if wrong { 128 } else { 1024 }),
                scope: "logits".into(),
                kl_nats: Some(3.1e-8 * 10f64.powi(index as i32 % 4)),
                argmax_agreement: Some(1.0),
                batches: vec![1, 4, 8],
            };
            (speed.0.to_owned(), record)
        })
        .collect()
}

fn checks() -> BTreeMap<(String, String, String), CheckRecord> {
    let mut checks = BTreeMap::new();
    for speed in &SPEEDS[..6] {
        for case in ["p10", "p50", "p200"] {
            let check = CheckRecord {
                target: speed.0.into(),
                scenario: "single_request".into(),
                case: case.into(),
                equal: 108,
                rescored: 2,
                wrong: 0,
                unchecked: 0,
                tie_width_nats: 0.5,
                gap_nats_max: 0.0021,
                method: "re-scored by the reference (synthetic)".into(),
            };
            let key = (
                check.target.clone(),
                check.scenario.clone(),
                check.case.clone(),
            );
            checks.insert(key, check);
        }
    }
    checks
}

/// The whole world around some runs.
pub fn world(runs: Vec<Run>) -> World {
    World {
        runs,
        scenarios: scenarios(),
        registry: registry(),
        models: Models {
            models: vec![Model {
                id: "tiny-llama".into(),
                name: "Tiny Llama (synthetic)".into(),
                parameters: 1_234_567,
                about: "it is made from a seed, and its numbers compare overheads only.".into(),
                source: Source::Embedded,
            }],
        },
        simulation: simulation(),
        hypotheses: hypotheses::hypotheses(),
        profiles: vec![profile("cpu", true), profile("smoke", false)],
        parity: ParityLimits {
            precision: ["f32", "bf16", "q8_0"]
                .map(|precision| {
                    let limit = Limit {
                        kl_nats_max: 1e-3,
                        tie_width_nats: 0.01,
                        batch_tie_nats: 0.01,
                        reason: "synthetic".into(),
                    };
                    (precision.to_owned(), limit)
                })
                .into(),
        },
    }
}

fn profile(id: &str, publishable: bool) -> Profile {
    Profile {
        id: id.into(),
        about: "Synthetic: no machine was measured.".into(),
        publishable,
        model: "tiny-llama".into(),
        backends: vec!["cpu".into(), "flex".into()],
        targets: Vec::new(),
        invocations: 5,
        seed: 1,
        threads: 0,
        warmup_requests: 1,
        request_timeout_s: 60,
        load_timeout_s: 180,
        budget_s: 0.0,
        slo: None,
        noise_floor: false,
        scenarios: BTreeMap::new(),
    }
}
