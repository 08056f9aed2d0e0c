//! A synthetic run for tests and the preview: invented numbers in the shape of
//! real ones, with failures of several kinds. Every name in it says so.
#![allow(dead_code)] // Each test program uses its own part.

use schema::model::{Model, Models, Source};
use schema::parity::{Limit, ParityLimits};
use schema::plan::{Case, Launch, Plan, PlannedScenario};
use schema::profile::Profile;
use schema::record::{
    CaseEnd, CheckRecord, End, LaunchRecord, Ready, RequestRecord, Status, VerifyRecord,
};
use schema::registry::{Build, Engine, Registry, Target, TargetEntry};
use schema::run::{FORMAT, LaunchLog, Provenance, Run, RunHeader};
use schema::scenario::{Axis, LoadShape, Scenario};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Everything a site is made from.
pub struct World {
    pub runs: Vec<Run>,
    pub scenarios: Vec<Scenario>,
    pub registry: Registry,
    pub models: Models,
    pub profiles: Vec<Profile>,
    pub parity: ParityLimits,
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
        }
    }
}

/// (id, prefill ns per token, decode ns, load ms, weights MiB, batches)
const SPEEDS: [(&str, f64, f64, f64, f64, bool); 8] = [
    ("pytorch.cpu.f32", 210e3, 9.2e6, 3900.0, 1200.0, false),
    ("pytorch.cpu.bf16", 120e3, 6.4e6, 3800.0, 600.0, false),
    ("lmrs.cpu.f32", 250e3, 4.4e6, 310.0, 1200.0, true),
    ("lmrs.cpu.q8_0", 90e3, 1.31e6, 120.0, 330.0, true),
    ("candle.cpu.f32", 160e3, 4.5e6, 420.0, 1200.0, false),
    ("candle.cpu.q8_0", 140e3, 1.32e6, 180.0, 330.0, false),
    ("burn.flex.f32", 230e3, 8.9e6, 510.0, 1200.0, false),
    ("mistralrs.cpu.q8_0", 400e3, 2.4e6, 900.0, 330.0, true),
];

/// A small generator: the tests need the same "noise" every time.
pub struct Noise(u64);

impl Noise {
    /// Uniform in 0..1.
    pub fn next(&mut self) -> f64 {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
    /// Around 1, skewed to the slow side.
    fn factor(&mut self, spread: f64) -> f64 {
        let (a, b) = (self.next(), self.next());
        1.0 + spread * (a - 0.5)
            + if b > 0.95 {
                spread * 4.0 * (b - 0.95) * 20.0
            } else {
                0.0
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
                },
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
                        duration_s: 0.0,
                    }
                })
                .collect(),
        })
        .collect();
    let mut launches = Vec::new();
    let mut logs = Vec::new();
    let mut noise = Noise(7);
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
                targets: targets(),
                scenarios,
                launches,
            },
            provenance: provenance(),
        },
        launches: logs,
        verify: verify(),
        checks: checks(),
    }
}

fn provenance() -> Provenance {
    let facts = [
        ("cpu_model", "synthetic data, no machine"),
        ("cpus", "2"),
        ("kernel", "0.0.0-synthetic"),
        (
            "cpu_flags",
            "sse2 avx avx2 fma avx512f avx512_vnni amx_int8 amx_bf16 and many more of which the list goes on and on",
        ),
        ("rustc", "rustc 1.95.0"),
    ];
    Provenance {
        git_revision: Some("0123456789abcdef0123456789abcdef01234567".into()),
        git_dirty: Some(false),
        lockfiles: BTreeMap::from([("Cargo.lock".into(), "ab".repeat(32))]),
        model_files: BTreeMap::from([("model.safetensors".into(), "cd".repeat(32))]),
        binaries: SPEEDS
            .iter()
            .map(|s| (s.0.to_owned(), "ef".repeat(32)))
            .collect(),
        facts: facts.map(|(k, v)| (k.to_owned(), v.to_owned())).into(),
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

/// One launch's log; failures are scripted by target and scenario.
fn launch(
    scenario: &PlannedScenario,
    cases: &[Case],
    invocation: u32,
    index: usize,
    requests: u32,
    noise: &mut Noise,
) -> Option<LaunchLog> {
    let (target, prefill, decode, load_ms, weights_mib, batches) = SPEEDS[index];
    let failure = match (target, scenario.id.as_str()) {
        ("burn.flex.f32", "memory") => {
            Some((Status::Oom, "allocation of 512 MiB failed (synthetic)"))
        }
        ("burn.flex.f32", "sustained") => Some((Status::Timeout, "no answer for 60 s (synthetic)")),
        ("mistralrs.cpu.q8_0", "long_context") => Some((
            Status::WrongOutput,
            "verified up to 128 positions only (synthetic)",
        )),
        ("pytorch.cpu.bf16", "concurrent") => {
            Some((Status::Crashed, "killed by signal 11 (synthetic)"))
        }
        _ => None,
    };
    let start_ns = 1_000_000_000u64 * (1 + u64::from(invocation)) * 1000;
    let drift = noise.factor(0.03);
    let load_ns = (load_ms * 1e6 * noise.factor(0.1)) as u64;
    let mut log = LaunchLog {
        file: PathBuf::from(format!(
            "{target}/{}.{invocation}.{}.jsonl",
            scenario.id, cases[0].id
        )),
        sha256: format!("{:02x}", index * 16 + invocation as usize).repeat(32),
        launch: LaunchRecord {
            target: target.into(),
            scenario: scenario.id.clone(),
            invocation,
            attempt: 0,
            cases: cases.iter().map(|case| case.id.clone()).collect(),
            argv: vec![format!(
                "target/release/{}-bench",
                target.split('.').next()?
            )],
            start_ns,
        },
        ready: Some(Ready {
            version: "0.0.0-synthetic".into(),
            build: BTreeMap::from([("target_cpu".into(), "native".into())]),
            batching: if batches { "continuous" } else { "none" }.into(),
            notes: vec![format!("{target}: an invented engine says this of itself.")],
            hello_ns: start_ns + 1_000_000,
            ready_ns: start_ns + 1_000_000 + load_ns,
            load_ns,
            weight_bytes: (weights_mib * 1048576.0) as u64,
            kv_bytes_per_token: 4096,
        }),
        requests: Vec::new(),
        telemetry: Vec::new(),
        case_ends: Vec::new(),
        end: None,
    };
    let mut now = start_ns + 2_000_000 + load_ns;
    if let Some((status, reason)) = failure {
        log.end = Some(End {
            status,
            reason: reason.into(),
            stderr_tail: "thread 'main' panicked\nnote: this text is synthetic".into(),
            end_ns: now,
        });
        return Some(log);
    }
    let mut id = 0;
    for case in cases {
        let users = u64::from(case.concurrency);
        let slow = match (users, batches) {
            (1, _) => 1.0,
            (n, true) => 1.0 + 0.22 * (n as f64 - 1.0),
            (n, false) => n as f64,
        };
        let from = now;
        for round in 0..u64::from(requests).div_ceil(users) + 1 {
            let scheduled = now;
            let mut last = now;
            for lane in 0..users {
                let tokens = f64::from(case.prompt_tokens);
                let first = (tokens * prefill * (1.0 + tokens / 2000.0) + decode) * slow;
                let mut t = scheduled + 40_000 + (first * drift * noise.factor(0.08)) as u64;
                let mut token_ns = Vec::new();
                for _ in 0..case.new_tokens {
                    token_ns.push(t);
                    t += (decode * slow * drift * noise.factor(0.12)) as u64;
                }
                let end = *token_ns.last()?;
                log.requests.push(RequestRecord {
                    case: case.id.clone(),
                    id,
                    prompt: u64::from(invocation) * 1000 + id,
                    warmup: round == 0,
                    scheduled_ns: scheduled,
                    sent_ns: scheduled + 8_000,
                    received_ns: scheduled + 20_000,
                    started_ns: scheduled + 30_000 + lane,
                    answered_ns: end + 60_000 + (noise.next() * 30_000.0) as u64,
                    token_ns,
                    batch: if batches { case.concurrency } else { 1 },
                    output_ids: vec![1; case.new_tokens as usize],
                });
                id += 1;
                last = last.max(end + 100_000);
            }
            now = last;
        }
        let kv = f64::from(case.concurrency) * 4096.0 * 66.0;
        log.case_ends.push(CaseEnd {
            case: case.id.clone(),
            start_ns: from,
            end_ns: now,
            peak_rss_bytes: Some(
                ((weights_mib * 1.15 * noise.factor(0.01)) * 1048576.0 + kv * 9.0) as u64,
            ),
        });
        now += 1_000_000;
    }
    log.end = Some(End {
        status: Status::Ok,
        reason: String::new(),
        stderr_tail: String::new(),
        end_ns: now,
    });
    Some(log)
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
        profiles: vec![profile("cpu", true), profile("smoke", false)],
        parity: ParityLimits {
            precision: ["f32", "bf16", "q8_0"]
                .map(|precision| {
                    let limit = Limit {
                        kl_nats_max: 1e-3,
                        tie_width_nats: 0.01,
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
        threads: 0,
        warmup_requests: 1,
        request_timeout_s: 60,
        load_timeout_s: 180,
        scenarios: BTreeMap::new(),
    }
}
