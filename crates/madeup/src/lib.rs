//! Made-up plans and runs for the tests of all crates. A run has one serial case, measured in every
//! block on engines whose timing is known, without any failure. The records built here are
//! consistent; each test changes the part that it is about.

use schema::budget::OverBudget;
use schema::launch_log::LaunchLog;
use schema::plan::{Case, Launch, Plan, PlannedScenario};
use schema::record::{
    CaseEnd, CheckRecord, End, LaunchRecord, Ready, RequestRecord, Status, VerifyRecord,
};
use schema::registry::Target;
use schema::run::{Run, RunHeader};
use schema::scenario::{Axis, LoadShape};
use splitmix::SplitMix64;

/// The scenario of a made-up run.
pub const SCENARIO: &str = "single_request";
/// Its case.
pub const CASE: &str = "p10";
const NEW_TOKENS: u32 = 4;

/// The timing of an engine.
#[derive(Clone)]
pub struct Engine {
    /// Target id.
    pub target: &'static str,
    /// Time from the start of a request to its first token (ns).
    pub prefill_ns: u64,
    /// Time between tokens (ns).
    pub step_ns: u64,
    /// Fraction by which durations vary, mostly between invocations.
    pub jitter: f64,
}

impl Engine {
    /// Make an engine that takes 3 ms to the first token and 1 ms a token, with 2 % jitter.
    pub fn plain(target: &'static str) -> Self {
        Self {
            target,
            prefill_ns: 3_000_000,
            step_ns: 1_000_000,
            jitter: 0.02,
        }
    }

    /// Let every step take `factor` times as long.
    pub fn slowed(self, factor: f64) -> Self {
        let slowed = |ns: u64| (ns as f64 * factor) as u64;
        Self {
            prefill_ns: slowed(self.prefill_ns),
            step_ns: slowed(self.step_ns),
            ..self
        }
    }
}

/// Draw a uniform number in [0, 1).
pub fn unit(random: &mut SplitMix64) -> f64 {
    (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// Make a run of `requests` by each engine in each block; `chance` seeds how they vary.
pub fn run(engines: &[Engine], invocations: u32, requests: u32, chance: u64) -> Run {
    let mut launches = Vec::new();
    let mut logs = Vec::new();
    for invocation in 0..invocations {
        for (index, engine) in (0u64..).zip(engines) {
            launches.push(Launch {
                invocation,
                target: engine.target.into(),
                scenario: SCENARIO.into(),
                cases: vec![CASE.into()],
            });
            let seed = chance + u64::from(invocation) * 1000 + index;
            logs.push(log(engine, invocation, requests, seed));
        }
    }
    let verify = engines
        .iter()
        .map(|e| (e.target.to_owned(), verified(e.target)));
    let plan = Plan {
        profile: "cpu".into(),
        publishable: true,
        model: "tiny-llama".into(),
        seed: 1,
        threads: 2,
        invocations,
        request_timeout_s: 60,
        load_timeout_s: 60,
        matters_percent: 2.0,
        targets: engines.iter().map(|e| target(e.target)).collect(),
        scenarios: vec![serial(SCENARIO, vec![case(requests)])],
        launches,
        ..Plan::default()
    };
    Run {
        header: RunHeader {
            id: "20260101-000000-cpu-host".into(),
            plan,
            ..RunHeader::default()
        },
        launches: logs,
        verify: verify.collect(),
        ..Run::default()
    }
}

/// Make a plan of one target `t`, a serial scenario `s` with two cases, and two blocks.
pub fn plan() -> Plan {
    let of = |id: &str, prompt_tokens| Case {
        id: id.into(),
        prompt_tokens,
        new_tokens: 16,
        ..case(20)
    };
    let launch = |invocation| Launch {
        invocation,
        target: "t".into(),
        scenario: "s".into(),
        cases: vec!["p10".into(), "p500".into()],
    };
    Plan {
        profile: "x".into(),
        model: "m".into(),
        seed: 1,
        threads: 1,
        invocations: 2,
        warmup_requests: 1,
        request_timeout_s: 1,
        load_timeout_s: 1,
        matters_percent: 2.0,
        scenarios: vec![serial("s", vec![of("p10", 10), of("p500", 500)])],
        launches: vec![launch(0), launch(1)],
        ..Plan::default()
    }
}

fn serial(id: &str, cases: Vec<Case>) -> PlannedScenario {
    PlannedScenario {
        id: id.into(),
        version: 1,
        load: LoadShape::Serial,
        axis: Axis::PromptTokens,
        cases,
        ..PlannedScenario::default()
    }
}

/// Make the target of an id such as `engine+variant.cpu.f32`; what the id lacks is `cpu` and `f32`.
pub fn target(id: &str) -> Target {
    let mut parts = id.split('.');
    let name = parts.next().unwrap_or_default();
    let (engine, variant) = name.split_once('+').unwrap_or((name, ""));
    Target {
        id: id.into(),
        engine: engine.into(),
        variant: variant.into(),
        backend: parts.next().unwrap_or("cpu").into(),
        precision: parts.next().unwrap_or("f32").into(),
        weights: "model.safetensors".into(),
        ..Target::default()
    }
}

/// Make the case of a made-up run.
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

/// Make the gate's judgement of a target that passes, up to 64 positions.
pub fn verified(target: &str) -> VerifyRecord {
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

/// Make the judgement of a target's timed outputs, of which it rejects `wrong` beside 107 others.
pub fn check(target: &str, wrong: u64) -> CheckRecord {
    CheckRecord {
        target: target.into(),
        scenario: SCENARIO.into(),
        case: CASE.into(),
        equal: 100,
        rescored: 7,
        wrong,
        tie_width_nats: 0.5,
        gap_nats_max: 1.25,
        method: "re-scored by the reference".into(),
        ..CheckRecord::default()
    }
}

/// Make the note that there was no time for a cell, and why.
pub fn over(target: &str, scenario: &str, case: &str, reason: &str) -> OverBudget {
    OverBudget {
        target: target.into(),
        scenario: scenario.into(),
        case: case.into(),
        estimate_s: 1.0,
        reason: reason.into(),
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
        file: format!("{}/{SCENARIO}.i{invocation}.jsonl", engine.target).into(),
        launch: LaunchRecord {
            target: engine.target.into(),
            scenario: SCENARIO.into(),
            invocation,
            cases: vec![CASE.into()],
            start_ns,
            ..LaunchRecord::default()
        },
        ready: Some(Ready {
            version: "1".into(),
            batching: "none".into(),
            hello_ns: start_ns + 10_000_000,
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
