//! A synthetic run for tests and an example: invented numbers in the shape of real ones, with
//! failures of several kinds. Every name in it says that it is synthetic.
#![allow(dead_code)] // Each program uses its own part.

pub mod change;
pub mod data;
mod hypotheses;
pub mod launch;
pub mod micro;
pub mod provenance;

pub use data::{registry, scenarios};

use data::{SHAPES, adapters, simulation, targets};
use launch::{Noise, SPEEDS, launch};
use schema::adapters::AdapterCosts;
use schema::claims::{Claim, Claims, Comparison};
use schema::golden::{Limit, ParityLimits};
use schema::hypothesis::Hypotheses;
use schema::key::CellKey;
use schema::maturity::{Dossier, Fact, Maturity, NotMeasured, Release, Topic};
use schema::micro::Suite;
use schema::model::{Model, Models};
use schema::plan::{Case, Launch, Plan, PlannedScenario};
use schema::prices::Prices;
use schema::profile::Profile;
use schema::record::{CheckRecord, VerifyRecord};
use schema::registry::{Registry, Target};
use schema::run::{FORMAT, Run, RunHeader};
use schema::scenario::{Axis, Scenario};
use schema::simulation::Simulation;
use schema::train::{Shipped, Stories, Training, Written};
use stats::analysis::Analysis;
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// Everything that a site is made from.
pub struct World {
    pub authored: site::authored::Authored,
    pub prices: Option<Prices>,
    pub maturity: Maturity,
    pub claims: Claims,
    pub runs: Vec<Run>,
    pub scenarios: Vec<Scenario>,
    pub suites: Vec<Suite>,
    pub registry: Registry,
    pub models: Models,
    pub shipped: Vec<Shipped>,
    pub profiles: Vec<Profile>,
    pub parity: ParityLimits,
    pub simulation: Simulation,
    pub adapters: AdapterCosts,
    pub hypotheses: Hypotheses,
}

impl World {
    /// The analyses of all runs, in order.
    pub fn analyse(&self) -> Vec<Analysis> {
        let of = |run| stats::analyse(run, &self.scenarios, &self.registry.baseline);
        self.runs.iter().map(of).collect()
    }

    pub fn input(&self) -> site::Input<'_> {
        site::Input {
            runs: &self.runs,
            scenarios: &self.scenarios,
            suites: &self.suites,
            registry: &self.registry,
            models: &self.models,
            shipped: &self.shipped,
            profiles: &self.profiles,
            parity: Some(&self.parity),
            simulation: Some(&self.simulation),
            adapters: Some(&self.adapters),
            hypotheses: Some(&self.hypotheses),
            prices: self.prices.as_ref(),
            maturity: Some(&self.maturity),
            claims: Some(&self.claims),
            publishing: site::Publishing::default(),
            authored: &self.authored,
        }
    }
}

/// Make a run of the given profile: `cpu` with five blocks, or `smoke` with one.
pub fn run(profile: &str, invocations: u32, requests: u32) -> Run {
    let scenarios: Vec<PlannedScenario> = SHAPES
        .iter()
        .map(|shape| PlannedScenario {
            id: shape.id.into(),
            version: 1,
            load: shape.load,
            axis: shape.axis,
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
                        requests,
                        ..Case::default()
                    }
                })
                .collect(),
            ..PlannedScenario::default()
        })
        .collect();
    let mut launches = Vec::new();
    let mut logs = Vec::new();
    let mut noise = Noise::new(7);
    for invocation in 0..invocations {
        for scenario in &scenarios {
            for (index, speed) in SPEEDS.iter().enumerate() {
                let together = match scenario.needs_fresh_process() {
                    true => 1,
                    false => scenario.cases.len(),
                };
                for cases in scenario.cases.chunks(together) {
                    launches.push(Launch {
                        invocation,
                        target: speed.0.into(),
                        scenario: scenario.id.clone(),
                        cases: cases.iter().map(|case| case.id.clone()).collect(),
                    });
                    let log = launch(scenario, cases, invocation, index, requests, &mut noise);
                    logs.push(log);
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
                matters_percent: 2.0,
                targets: targets(),
                scenarios,
                launches,
                ..Plan::default()
            },
            provenance: provenance::provenance(),
            origin: schema::origin::Origin::default(),
        },
        launches: logs,
        verify: verify(),
        checks: checks(),
        ..Run::default()
    }
}

/// Add a variant of every target of `all` to the run's plan and measurements. The gate's judgement
/// and the launches are copies under another name.
pub fn add_variants(run: &mut Run, all: &Run, variant: &str) {
    let rename = |id: &str| id.replacen('.', &format!("+{variant}."), 1);
    for target in &all.header.plan.targets {
        let mut judged = all.verify[&target.id].clone();
        judged.target = rename(&target.id);
        run.header.plan.targets.push(Target {
            id: judged.target.clone(),
            ..target.clone()
        });
        run.verify.insert(judged.target.clone(), judged);
    }
    for launch in &all.header.plan.launches {
        run.header.plan.launches.push(Launch {
            target: rename(&launch.target),
            ..launch.clone()
        });
    }
    for log in &all.launches {
        let mut log = log.clone();
        log.launch.target = rename(&log.launch.target);
        run.launches.push(log);
    }
}

fn verify() -> BTreeMap<String, VerifyRecord> {
    SPEEDS
        .iter()
        .enumerate()
        .map(|(index, speed)| {
            let wrong = speed.0 == "mistralrs.cpu.q8_0";
            let record = VerifyRecord {
                reason: if wrong {
                    "synthetic: agrees up to 128 positions, then drifts".into()
                } else {
                    "8 prompts × 64 positions agree (synthetic)".into()
                },
                verified_positions: Some(if wrong { 128 } else { 1024 }),
                kl_nats: Some(3.1e-8 * 10f64.powi(index as i32 % 4)),
                batches: vec![1, 4, 8],
                ..fixtures::verified(speed.0)
            };
            (speed.0.to_owned(), record)
        })
        .collect()
}

fn checks() -> BTreeMap<CellKey, CheckRecord> {
    let mut checks = BTreeMap::new();
    for speed in &SPEEDS[..6] {
        for case in ["p10", "p50", "p200"] {
            let check = CheckRecord {
                case: case.into(),
                equal: 108,
                rescored: 2,
                gap_nats_max: 0.0021,
                method: "re-scored by the reference (synthetic)".into(),
                ..fixtures::check(speed.0, 0)
            };
            checks.insert(check.key(), check);
        }
    }
    checks
}

/// Facts about one engine beyond what runs measure.
fn maturity() -> Maturity {
    let release = |version: &str, date: &str| Release {
        version: version.into(),
        date: date.into(),
    };
    Maturity {
        read: "2026-01-02".into(),
        engines: vec![Dossier {
            id: "candle".into(),
            read: None,
            package: "candle-core".into(),
            releases_source: "https://example.org/".into(),
            first: Some(release("0.1.0", "2023-08-10")),
            releases_last_year: 7,
            releases: vec![release("0.11.1", "2026-01-01")],
            example: String::new(),
            example_text: String::new(),
            facts: vec![Fact {
                topic: Topic::Server,
                says: "It brings no server (synthetic).".into(),
                short: "none (synthetic)".into(),
                source: "https://example.org/".into(),
                read: Some("2026-01-04".into()),
            }],
        }],
        not_measured: vec![NotMeasured {
            name: "Another (synthetic)".into(),
            latest: Some(release("1.0.0", "2025-12-31")),
            why: "No adapter is written.".into(),
            source: "https://prices.example/".into(),
            read: Some("2026-01-05".into()),
        }],
    }
}

/// The claim of one engine's project, with a comparison of the run beside it.
fn claims() -> Claims {
    Claims {
        read: "2026-01-03".into(),
        claims: vec![Claim {
            engine: "candle".into(),
            says: "Twice as fast (synthetic).".into(),
            condition: "On a laptop (synthetic).".into(),
            source: "https://claims.example/".into(),
            differs: "No laptop here (synthetic).".into(),
            here: vec![Comparison {
                target: "candle.cpu.q8_0".into(),
                against: "candle.cpu.f32".into(),
                scenario: "single_request".into(),
                metric: "tpot_ns".into(),
            }],
        }],
    }
}

/// Render the world's site: its files, by path.
pub fn render(world: &World) -> BTreeMap<String, Vec<u8>> {
    site::render(&world.input()).expect("renders")
}

/// The usual world: one run of all targets, in five blocks.
pub fn usual() -> World {
    world(vec![run("cpu", 5, 22)])
}

/// The usual world's site, rendered once for all tests.
pub fn usual_site() -> &'static BTreeMap<String, Vec<u8>> {
    static SITE: OnceLock<BTreeMap<String, Vec<u8>>> = OnceLock::new();
    SITE.get_or_init(|| render(&usual()))
}

/// Make the whole world around the given runs.
pub fn world(runs: Vec<Run>) -> World {
    World {
        authored: site::authored::Authored::new(),
        prices: Some(data::prices()),
        maturity: maturity(),
        claims: claims(),
        runs,
        scenarios: scenarios(),
        suites: vec![micro::suite()],
        registry: registry(),
        models: Models {
            models: vec![Model {
                id: "tiny-llama".into(),
                name: "Tiny Llama (synthetic)".into(),
                parameters: 1_234_567,
                about: "it is made from a seed, and its numbers compare overheads only.".into(),
                ..Model::default()
            }],
        },
        shipped: vec![shipped()],
        simulation: simulation(),
        adapters: adapters(),
        hypotheses: hypotheses::hypotheses(),
        profiles: vec![profile("cpu", true), profile("smoke", false)],
        parity: ParityLimits {
            outliers: None,
            precision: ["f32", "bf16", "q8_0"]
                .map(|precision| {
                    let limit = Limit {
                        kl_nats_max: 1e-3,
                        tie_width_nats: 0.01,
                        batch_tie_nats: 0.01,
                        own_weights: false,
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
        invocations: 5,
        seed: 1,
        warmup_requests: 1,
        request_timeout_s: 60,
        load_timeout_s: 180,
        matters_percent: 2.0,
        ..Profile::default()
    }
}

/// A trained model whose second story departs from the grammar.
pub fn shipped() -> Shipped {
    let written = |prompt: &str, text: &str, follows| Written {
        prompt: prompt.into(),
        text: text.into(),
        ended: true,
        follows,
    };
    Shipped {
        training: Training {
            model: "tiny-stories".into(),
            command: "cargo xtask train --steps 1500".into(),
            backend: "flex".into(),
            seed: 1,
            steps: 1_500,
            tokens: 3_072_000,
            last_loss_nats: 0.4,
            perplexity: 1.456,
            perplexity_tokens: 4_096,
            weights_sha256: "aa".into(),
        },
        stories: Some(Stories {
            model: "tiny-stories".into(),
            weights_sha256: "aa".into(),
            reference: "pytorch.cpu.f32 2.9.0".into(),
            stories: vec![
                written("Mia was a kind girl.", " She had a <red> ball.", true),
                written("Tom was shy.", " She had a hat.", false),
            ],
        }),
    }
}
