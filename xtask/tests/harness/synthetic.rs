//! Runs with made-up times, written as records, so that comparisons of them can be tested without
//! timing anything.

use fixtures::{CASE, Engine, SCENARIO};
use schema::hash::sha256_hex;
use schema::key::CellKey;
use schema::launch_log::{LaunchLog, timed};
use schema::origin::Shard;
use schema::plan::Plan;
use schema::provenance::Provenance;
use schema::record::{CanaryReading, CheckRecord, RecordEvent};
use schema::run::{FORMAT, Run, RunHeader};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A run of one serial case, p10, in five blocks, in which nothing fails.
pub struct Synthetic {
    pub run: Run,
}

const REQUESTS: u32 = 20;

impl Synthetic {
    /// Make a run of these targets.
    pub fn new(id: &str, targets: &[&'static str]) -> Self {
        let engines: Vec<Engine> = targets.iter().copied().map(Engine::plain).collect();
        let mut run = fixtures::run(&engines, 5, REQUESTS, chance(id));
        let owned = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            let pair = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
            pairs.iter().map(pair).collect()
        };
        let facts = [
            ("prompts_sha256", "p"),
            ("cpu_model", "a CPU"),
            ("kernel", "6.1"),
        ];
        run.header = RunHeader {
            format: FORMAT,
            id: id.into(),
            started: "2026-01-01T00:00:00Z".into(),
            argv: vec!["bench".into()],
            plan_sha256: hash(&run.header.plan),
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
            ..run.header
        };
        Self { run }
    }

    /// Add a canary that measured beside each launch and found no disturbance.
    pub fn watched(mut self) -> Self {
        let logs = self.run.launches.iter_mut();
        for end in logs.flat_map(|log| &mut log.case_ends) {
            end.canary = vec![CanaryReading {
                one_core_ns: Some(1_000_000),
                ..CanaryReading::default()
            }];
        }
        self
    }

    /// Make the run the i-th of n shards.
    pub fn shard(mut self, shard: &str) -> Self {
        let shard: Shard = shard.parse().expect("it is a shard");
        self.run.header.origin.shard = Some(shard);
        let logs = &mut self.run.launches;
        logs.retain(|log| shard.has(log.launch.invocation));
        self
    }

    /// Make a target take `factor` times as long.
    pub fn slowed(mut self, target: &'static str, factor: f64) -> Self {
        let engine = Engine::plain(target).slowed(factor);
        let chance = chance(&self.run.header.id);
        let logs = self.run.launches.iter_mut();
        for log in logs.filter(|log| log.launch.target == target) {
            let block = log.launch.invocation;
            *log = fixtures::log(&engine, block, REQUESTS, chance + u64::from(block));
        }
        self
    }

    /// Change the header.
    pub fn with(mut self, change: impl FnOnce(&mut RunHeader)) -> Self {
        change(&mut self.run.header);
        self
    }

    /// Write the run below `results`; return its directory.
    pub fn write(&self, results: &Path) -> PathBuf {
        let run = &self.run;
        let dir = results.join(&run.header.id);
        let text = serde_json::to_string_pretty(&run.header).expect("it is JSON");
        std::fs::create_dir_all(&dir).expect("a directory can be made");
        std::fs::write(dir.join("run.json"), text).expect("a file can be written");
        lines(&dir.join("verify.jsonl"), run.verify.values());
        let checks = run.verify.keys().map(|target| {
            let cell = CellKey::new(target, SCENARIO, CASE);
            CheckRecord {
                equal: timed(&run.launches, &cell).count() as u64 - 1,
                rescored: 1,
                ..fixtures::check(target, 0)
            }
        });
        lines(&dir.join("check.jsonl"), checks);
        for log in &run.launches {
            lines(&dir.join(&log.file), events(log));
        }
        dir
    }
}

/// The seed of a run's times; its launches take it and some of the numbers after it.
fn chance(id: &str) -> u64 {
    id.bytes().map(u64::from).sum::<u64>() * 10_000
}

/// The lines of a launch's file.
fn events(log: &LaunchLog) -> Vec<RecordEvent> {
    let mut events = vec![RecordEvent::Launch(log.launch.clone())];
    events.extend(log.ready.clone().map(RecordEvent::Ready));
    events.extend(log.requests.iter().cloned().map(RecordEvent::Request));
    events.extend(log.case_ends.iter().cloned().map(RecordEvent::CaseEnd));
    events.extend(log.end.clone().map(RecordEvent::End));
    events
}

/// A change of a header that gives a fact this value.
pub fn fact(key: &'static str, value: &'static str) -> impl FnOnce(&mut RunHeader) {
    move |header: &mut RunHeader| {
        header.provenance.facts.insert(key.into(), value.into());
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

fn lines<T: Serialize>(path: &Path, values: impl IntoIterator<Item = T>) {
    let mut text = String::new();
    for value in values {
        text += &(serde_json::to_string(&value).expect("it is JSON") + "\n");
    }
    std::fs::create_dir_all(path.parent().expect("it lies in a run")).expect("it can be made");
    std::fs::write(path, text).expect("a file can be written");
}
