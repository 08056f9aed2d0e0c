//! Runs with made-up times, written as records, so that comparisons of them can be tested without
//! timing anything.

use base::random::SplitMix64;
use schema::hash::sha256_hex;
use schema::origin::{Origin, Shard};
use schema::plan::{Case, Launch, Plan, PlannedScenario};
use schema::provenance::Provenance;
use schema::record::{
    CanaryReading, CaseEnd, CheckRecord, End, IsaLimit, LaunchRecord, Ready, RecordEvent,
    RequestRecord, Status, VerifyRecord,
};
use schema::registry::Target;
use schema::run::{FORMAT, RunHeader};
use schema::scenario::{Axis, LoadShape};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A run of one serial case, p10, in which nothing fails.
pub struct Synthetic {
    pub header: RunHeader,
    /// How many times as long each target takes for every step.
    pub slow: BTreeMap<String, f64>,
    /// Seed of the jitter of blocks and requests.
    pub chance: u64,
    /// The engine version that is reported.
    pub version: String,
    /// The instruction set limit that its library was given.
    pub isa_limit: Option<IsaLimit>,
    /// Readings of the canary beside each launch.
    pub canary: Vec<CanaryReading>,
}

const REQUESTS: u32 = 20;
const NEW_TOKENS: u32 = 4;

impl Synthetic {
    /// Make a run of these targets in five blocks.
    pub fn new(id: &str, targets: &[&str]) -> Self {
        let plan = plan(targets);
        let facts = [
            ("prompts_sha256", "p"),
            ("cpu_model", "a CPU"),
            ("kernel", "6.1"),
        ];
        let owned = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            let pair = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
            pairs.iter().map(pair).collect()
        };
        Self {
            header: RunHeader {
                format: FORMAT,
                id: id.into(),
                started: "2026-01-01T00:00:00Z".into(),
                argv: vec!["bench".into()],
                plan_sha256: hash(&plan),
                plan,
                provenance: Provenance {
                    git_revision: Some("0123abcd".into()),
                    git_dirty: Some(false),
                    lockfiles: owned(&[("Cargo.lock", "l")]),
                    model_files: owned(&[("tiny-llama/model.safetensors", "m")]),
                    binaries: targets
                        .iter()
                        .map(|t| ((*t).to_owned(), "b".into()))
                        .collect(),
                    facts: owned(&facts),
                    ..Provenance::default()
                },
                origin: Origin::default(),
            },
            slow: BTreeMap::new(),
            chance: id.bytes().map(u64::from).sum(),
            version: "1".into(),
            isa_limit: None,
            canary: vec![],
        }
    }

    /// Add a canary that measured beside each launch and found no disturbance.
    pub fn watched(mut self) -> Self {
        self.canary = vec![CanaryReading {
            one_core_ns: Some(1_000_000),
            ..CanaryReading::default()
        }];
        self
    }

    /// Make the run the i-th of n shards.
    pub fn shard(mut self, shard: &str) -> Self {
        self.header.origin.shard = Some(shard.parse().expect("it is a shard"));
        self
    }

    /// Make a target take `factor` times as long.
    pub fn slowed(mut self, target: &str, factor: f64) -> Self {
        self.slow.insert(target.into(), factor);
        self
    }

    /// Change the header.
    pub fn with(mut self, change: impl FnOnce(&mut RunHeader)) -> Self {
        change(&mut self.header);
        self
    }

    /// Write the run below `results`; return its directory.
    pub fn write(&self, results: &Path) -> PathBuf {
        let dir = results.join(&self.header.id);
        let text = serde_json::to_string_pretty(&self.header).expect("it is JSON");
        std::fs::create_dir_all(&dir).expect("a directory can be made");
        std::fs::write(dir.join("run.json"), text).expect("a file can be written");
        let plan = &self.header.plan;
        let ids: Vec<&str> = plan.targets.iter().map(|t| t.id.as_str()).collect();
        lines(&dir.join("verify.jsonl"), ids.iter().map(|id| verified(id)));
        let shard: Option<Shard> = self.header.origin.shard;
        let ours = |block: &u32| shard.is_none_or(|shard| shard.has(*block));
        let timed = (0..plan.invocations).filter(ours).count() as u64 * u64::from(REQUESTS);
        let checks = ids.iter().map(|id| check(id, timed));
        lines(&dir.join("check.jsonl"), checks);
        for launch in &plan.launches {
            if ours(&launch.invocation) {
                let name = format!(
                    "{}/single_request.i{}.jsonl",
                    launch.target, launch.invocation
                );
                lines(&dir.join(name), self.events(launch));
            }
        }
        dir
    }

    fn events(&self, launch: &Launch) -> Vec<RecordEvent> {
        let factor = self.slow.get(&launch.target).copied().unwrap_or(1.0);
        let target: u64 = launch.target.bytes().map(u64::from).sum();
        let mut random =
            SplitMix64(self.chance * 1000 + target * 10 + u64::from(launch.invocation));
        // Uniform within ± 1 %.
        let mut jitter = || 1.0 + 0.02 * (random.below(10_001) as f64 / 10_000.0 - 0.5);
        let block = jitter();
        let mut ns = |ns: f64| (ns * factor * block * jitter()) as u64;
        let start_ns = 1_000_000_000 * u64::from(launch.invocation + 1);
        let mut events = vec![
            RecordEvent::Launch(LaunchRecord {
                target: launch.target.clone(),
                scenario: launch.scenario.clone(),
                invocation: launch.invocation,
                cases: launch.cases.clone(),
                isa_limit: self.isa_limit.clone(),
                start_ns,
                ..LaunchRecord::default()
            }),
            RecordEvent::Ready(Ready {
                version: self.version.clone(),
                batching: "none".into(),
                hello_ns: start_ns + 1,
                ready_ns: start_ns + 2,
                load_ns: 1,
                weight_bytes: 1,
                kv_bytes_per_token: 1,
                ..Ready::default()
            }),
        ];
        let first_ns = start_ns + 1_000_000;
        let mut now = first_ns;
        for id in 0..u64::from(REQUESTS) {
            let started_ns = now + 1000;
            let mut at = started_ns;
            let token_ns: Vec<u64> = (0..NEW_TOKENS)
                .map(|token| {
                    at += ns(if token == 0 { 3e6 } else { 1e6 });
                    at
                })
                .collect();
            events.push(RecordEvent::Request(RequestRecord {
                case: "p10".into(),
                id,
                prompt: u64::from(launch.invocation) * 1_000_000 + id,
                scheduled_ns: now,
                sent_ns: now + 500,
                received_ns: now + 600,
                started_ns,
                token_ns,
                answered_ns: at + 5000,
                batch: 1,
                output_ids: vec![1; NEW_TOKENS as usize],
                ..RequestRecord::default()
            }));
            now = at + 10_000;
        }
        events.push(RecordEvent::CaseEnd(CaseEnd {
            case: "p10".into(),
            start_ns: first_ns,
            end_ns: now,
            canary: self.canary.clone(),
            ..CaseEnd::default()
        }));
        events.push(RecordEvent::End(End {
            status: Status::Ok,
            end_ns: now,
            ..End::default()
        }));
        events
    }
}

/// Return a plan's hash, as it stands in run.json.
pub fn hash(plan: &Plan) -> String {
    sha256_hex(&serde_json::to_vec(plan).expect("it is JSON"))
}

/// Return the plan of a whole run with the seed of other prompts, such as its shards have together.
pub fn reseeded(plan: &Plan, prompt_seed: Option<u64>) -> Plan {
    assert!(plan.prompt_seed.is_some(), "a whole run draws its prompts");
    Plan {
        prompt_seed,
        ..plan.clone()
    }
}

fn plan(targets: &[&str]) -> Plan {
    let invocations = 5;
    let target = |id: &&str| Target {
        id: (*id).into(),
        engine: id.split('.').next().unwrap_or(id).into(),
        backend: "cpu".into(),
        precision: "f32".into(),
        weights: "model.safetensors".into(),
        ..Target::default()
    };
    let launches = (0..invocations).flat_map(|invocation| {
        targets.iter().map(move |target| Launch {
            invocation,
            target: (*target).into(),
            scenario: "single_request".into(),
            cases: vec!["p10".into()],
        })
    });
    Plan {
        matters_percent: 2.0,
        profile: "cpu".into(),
        publishable: true,
        model: "tiny-llama".into(),
        seed: 1,
        threads: 2,
        invocations,
        request_timeout_s: 60,
        load_timeout_s: 60,
        targets: targets.iter().map(target).collect(),
        scenarios: vec![PlannedScenario {
            id: "single_request".into(),
            version: 1,
            load: LoadShape::Serial,
            axis: Axis::PromptTokens,
            cases: vec![Case {
                id: "p10".into(),
                prompt_tokens: 10,
                new_tokens: NEW_TOKENS,
                concurrency: 1,
                requests: REQUESTS,
                ..Case::default()
            }],
            ..PlannedScenario::default()
        }],
        launches: launches.collect(),
        ..Plan::default()
    }
}

fn verified(target: &str) -> VerifyRecord {
    VerifyRecord {
        target: target.into(),
        model: "tiny-llama".into(),
        status: Status::Ok,
        verified_positions: Some(64),
        scope: "logits".into(),
        kl_nats: Some(1e-8),
        argmax_agreement: Some(1.0),
        batches: vec![1],
        ..VerifyRecord::default()
    }
}

/// The judgement of this many timed outputs.
fn check(target: &str, timed: u64) -> CheckRecord {
    CheckRecord {
        target: target.into(),
        scenario: "single_request".into(),
        case: "p10".into(),
        equal: timed - 1,
        rescored: 1,
        tie_width_nats: 0.5,
        gap_nats_max: 0.1,
        method: "scored by the reference".into(),
        ..CheckRecord::default()
    }
}

fn lines<T: Serialize>(path: &Path, values: impl IntoIterator<Item = T>) {
    let mut text = String::new();
    for value in values {
        text += &(serde_json::to_string(&value).expect("it is JSON") + "\n");
    }
    std::fs::create_dir_all(path.parent().expect("it lies in a run")).expect("it can be made");
    std::fs::write(path, text).expect("a file can be written");
}
