//! A made-up run to analyse, and helpers that tests share. The records built here are consistent;
//! each test changes the part that it is about.

use schema::hypothesis::{CaseSelector, Claim, Hypothesis, Place, Selector};
use schema::key::{Twin, TwinRole, twin_name};
use schema::launch_log::LaunchLog;
use schema::plan::{Case, Launch, Plan, PlannedScenario};
use schema::record::{
    CaseEnd, CheckRecord, End, LaunchRecord, Ready, RequestRecord, Status, VerifyRecord,
};
use schema::registry::Target;
use schema::run::{Run, RunHeader};
use schema::scenario::{Axis, LoadShape, Scenario};
use splitmix::SplitMix64;
use stats::analysis::{Analysis, Cell, Metric, MetricId};

pub const SCENARIO: &str = "single_request";
pub const CASE: &str = "p10";
const NEW_TOKENS: u32 = 4;

/// Assert equality to a relative 1e-9.
#[track_caller]
pub fn assert_close(got: f64, want: f64) {
    let scale = want.abs().max(f64::MIN_POSITIVE);
    assert!(
        (got - want).abs() <= 1e-9 * scale,
        "got {got:e}, want {want:e}"
    );
}

/// Draw a uniform number in [0, 1).
pub fn unit(random: &mut SplitMix64) -> f64 {
    (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// The timing of an engine.
#[derive(Clone)]
pub struct Engine {
    pub target: &'static str,
    /// Time from the start of a request to its first token (ns).
    pub prefill_ns: u64,
    /// Time between tokens (ns).
    pub step_ns: u64,
    /// Fraction by which durations vary, mostly between invocations.
    pub jitter: f64,
}

/// A run of one serial case, `invocations` × `requests`, without any failure.
#[derive(Clone)]
pub struct Made {
    pub run: Run,
    pub scenarios: Vec<Scenario>,
}

pub fn made(engines: &[Engine], invocations: u32, requests: u32) -> Made {
    let targets: Vec<_> = engines.iter().map(|e| target(e.target)).collect();
    let mut launches = Vec::new();
    let mut logs = Vec::new();
    for invocation in 0..invocations {
        for (index, engine) in engines.iter().enumerate() {
            launches.push(Launch {
                invocation,
                target: engine.target.into(),
                scenario: SCENARIO.into(),
                cases: vec![CASE.into()],
            });
            let seed = u64::from(invocation) * 1000 + index as u64;
            logs.push(log(engine, invocation, requests, seed));
        }
    }
    let verify = engines
        .iter()
        .map(|e| (e.target.to_owned(), verified(e.target)))
        .collect();
    let plan = Plan {
        publishable: true,
        model: "tiny-llama".into(),
        seed: 1,
        invocations,
        matters_percent: 2.0,
        targets,
        scenarios: vec![PlannedScenario {
            id: SCENARIO.into(),
            version: 1,
            load: LoadShape::Serial,
            axis: Axis::PromptTokens,
            cases: vec![case(requests)],
            ..PlannedScenario::default()
        }],
        launches,
        ..Plan::default()
    };
    Made {
        run: Run {
            header: RunHeader {
                id: "20260101-000000-cpu-host".into(),
                plan,
                ..RunHeader::default()
            },
            launches: logs,
            verify,
            ..Run::default()
        },
        scenarios: vec![scenario(&["ttft_ns", "itl_ns"])],
    }
}

impl Made {
    pub fn analyse(&self) -> Analysis {
        stats::analyse(&self.run, &self.scenarios, "base.cpu.f32")
    }

    /// Return the first cell: the only one of a run with one target.
    pub fn cell(&self) -> Cell {
        self.analyse().cells.remove(0)
    }

    /// Add the judgement of a cell's outputs.
    pub fn judge(&mut self, check: CheckRecord) {
        self.run.checks.insert(check.key(), check);
    }

    /// Let a target run twice: these are its second launches, one for each block.
    pub fn twice(&mut self, target: &str, second: impl Iterator<Item = LaunchLog>) {
        for mut log in second {
            log.launch.target = twin_name(target);
            self.run.twins.push(log);
        }
        let budget = self.run.budget.get_or_insert_default();
        budget.twins.push(Twin {
            target: target.into(),
            role: TwinRole::Fastest,
            cost_s: 1.0,
        });
    }

    pub fn log(&mut self, invocation: u32) -> &mut LaunchLog {
        self.run
            .launches
            .iter_mut()
            .find(|log| log.launch.invocation == invocation)
            .expect("the invocation is there")
    }

    /// Change every request of the run.
    pub fn each(&mut self, mut change: impl FnMut(&mut RequestRecord)) {
        for log in &mut self.run.launches {
            log.requests.iter_mut().for_each(&mut change);
        }
    }

    pub fn reports(mut self, names: &[&str]) -> Self {
        self.scenarios = vec![scenario(names)];
        self
    }
}

/// Assert that the made run's only cell has this status, a reason with this in it, and no numbers.
#[track_caller]
pub fn assert_refused(made: &Made, status: Status, reason: &str) {
    let cell = made.cell();
    assert_eq!(cell.status, status, "{}", cell.reason);
    assert!(cell.reason.contains(reason), "{}", cell.reason);
    assert!(!cell.reason.contains('\n'));
    assert!(cell.metrics.is_empty());
    assert_eq!(cell.rank, None);
    assert!(made.analyse().comparisons.is_empty());
}

/// Return a plain engine: 3 ms to the first token, 1 ms a token, 2 % jitter.
pub fn plain() -> Engine {
    Engine {
        target: "base.cpu.f32",
        prefill_ns: 3_000_000,
        step_ns: 1_000_000,
        jitter: 0.02,
    }
}

pub fn metric(cell: &Cell, id: MetricId) -> &Metric {
    let metric = cell.metric(id);
    metric.unwrap_or_else(|| panic!("no {} in {cell:?}", id.describe().name))
}

fn target(id: &str) -> Target {
    let mut parts = id.split('.').map(str::to_owned);
    let mut part = || parts.next().unwrap_or_default();
    Target {
        id: id.into(),
        engine: part(),
        backend: part(),
        precision: part(),
        weights: "model.safetensors".into(),
        ..Target::default()
    }
}

pub fn scenario(reports: &[&str]) -> Scenario {
    Scenario {
        id: SCENARIO.into(),
        version: 1,
        load: LoadShape::Serial,
        axis: Axis::PromptTokens,
        reports: reports.iter().map(|&name| name.to_owned()).collect(),
        ..Scenario::default()
    }
}

pub fn case(requests: u32) -> Case {
    Case {
        id: CASE.into(),
        prompt_tokens: 10,
        new_tokens: NEW_TOKENS,
        concurrency: 1,
        requests,
        ..Case::default()
    }
}

fn verified(target: &str) -> VerifyRecord {
    VerifyRecord {
        target: target.into(),
        model: "tiny-llama".into(),
        status: Status::Ok,
        verified_positions: Some(64),
        scope: "logits".into(),
        ..VerifyRecord::default()
    }
}

pub fn check(target: &str, wrong: u64) -> CheckRecord {
    CheckRecord {
        target: target.into(),
        scenario: SCENARIO.into(),
        case: CASE.into(),
        equal: 100,
        rescored: 7,
        wrong,
        gap_nats_max: 1.25,
        method: "re-scored by the reference".into(),
        ..CheckRecord::default()
    }
}

/// Make the log of a launch without faults: one slow warm-up, then `requests` timed ones.
pub fn log(engine: &Engine, invocation: u32, requests: u32, seed: u64) -> LaunchLog {
    let mut random = SplitMix64(seed);
    // Blocks differ more than requests of a block, as in real runs.
    let block = 1.0 + engine.jitter * (unit(&mut random) - 0.5);
    let start_ns = 1_000_000_000 * u64::from(invocation + 1);
    let mut now = start_ns + 100_000_000;
    let mut records = Vec::new();
    for id in 0..=u64::from(requests) {
        let warmup = id == 0;
        let slow = if warmup { 3.0 } else { block };
        let mut vary = |ns: u64| {
            let factor = slow * (1.0 + engine.jitter * (unit(&mut random) - 0.5) / 4.0);
            (ns as f64 * factor) as u64
        };
        let started_ns = now + 30_000;
        let mut at = started_ns + vary(engine.prefill_ns);
        let mut token_ns = vec![at];
        for _ in 1..NEW_TOKENS {
            at += vary(engine.step_ns);
            token_ns.push(at);
        }
        records.push(RequestRecord {
            case: CASE.into(),
            id,
            prompt: u64::from(invocation) * u64::from(requests + 1) + id,
            warmup,
            scheduled_ns: now,
            sent_ns: now + 20_000,
            // The reader was quicker than the writer's stamp, so this is before `sent_ns`.
            received_ns: now + 15_000,
            started_ns,
            token_ns,
            answered_ns: at + 60_000,
            batch: 1,
            output_ids: vec![1; NEW_TOKENS as usize],
            ..RequestRecord::default()
        });
        now = at + 80_000;
    }
    let case_start = records.get(1).map_or(now, |r| r.sent_ns);
    LaunchLog {
        file: format!("{}/{SCENARIO}.{invocation}.jsonl", engine.target).into(),
        launch: LaunchRecord {
            target: engine.target.into(),
            scenario: SCENARIO.into(),
            invocation,
            cases: vec![CASE.into()],
            start_ns,
            ..LaunchRecord::default()
        },
        ready: Some(Ready {
            batching: "none".into(),
            ready_ns: start_ns + 90_000_000,
            load_ns: 70_000_000,
            weight_bytes: 1_000_000,
            kv_bytes_per_token: 256,
            ..Ready::default()
        }),
        requests: records,
        case_ends: vec![CaseEnd {
            case: CASE.into(),
            start_ns: case_start,
            end_ns: now,
            peak_rss_bytes: Some(50_000_000),
            ..CaseEnd::default()
        }],
        end: Some(End {
            status: Status::Ok,
            end_ns: now,
            ..End::default()
        }),
        ..LaunchLog::default()
    }
}

/// Make a place that targets on these backends are measured for; without one, any.
pub fn place(backends: &[&str]) -> Place {
    Place {
        id: "p".into(),
        about: "any".into(),
        backends: backends.iter().map(|&b| b.to_owned()).collect(),
        parameters_min: None,
        command: "make it so".into(),
    }
}

/// Make a prediction about each scenario's leading metric of these targets; without one, of all.
pub fn prediction(claim: Claim, scenario: &str, targets: &[&str]) -> Hypothesis {
    Hypothesis {
        id: "h".into(),
        group: "g".into(),
        says: "s".into(),
        reading: "r".into(),
        place: "p".into(),
        claim,
        metric: None,
        scenarios: vec![scenario.into()],
        at: CaseSelector::default(),
        of: Selector {
            targets: targets.iter().map(|&t| t.to_owned()).collect(),
            ..Selector::default()
        },
        per_engine: false,
        any: false,
        by_construction: false,
        command: None,
    }
}
