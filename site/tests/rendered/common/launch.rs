//! A synthetic launch: invented speeds, seeded noise and scripted failures, as the events that the
//! process of a real engine would leave. And the A/A pairs of a synthetic run.

use schema::budget::Budget;
use schema::key::{Twin, TwinRole, twin_name};
use schema::launch_log::LaunchLog;
use schema::plan::{Case, PlannedScenario};
use schema::record::{
    AuditResult, CaseEnd, End, LaunchRecord, Ready, RequestRecord, StampComparison, Status, Sum,
};
use schema::run::Run;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Invented speeds: (id, prefill ns per token, decode ns, load ms, weights MiB, batches).
pub const SPEEDS: [(&str, f64, f64, f64, f64, bool); 8] = [
    ("pytorch.cpu.f32", 210e3, 9.2e6, 3900.0, 1200.0, false),
    ("pytorch.cpu.bf16", 120e3, 6.4e6, 3800.0, 600.0, false),
    ("lmrs.cpu.f32", 250e3, 4.4e6, 310.0, 1200.0, true),
    ("lmrs.cpu.q8_0", 90e3, 1.31e6, 120.0, 330.0, true),
    ("candle.cpu.f32", 160e3, 4.5e6, 420.0, 1200.0, false),
    ("candle.cpu.q8_0", 140e3, 1.32e6, 180.0, 330.0, false),
    ("burn.flex.f32", 230e3, 8.9e6, 510.0, 1200.0, false),
    ("mistralrs.cpu.q8_0", 400e3, 2.4e6, 900.0, 330.0, true),
];

/// A small random number generator: tests need the same "noise" every time.
pub struct Noise(u64);

impl Noise {
    /// Make a generator; equal seeds give equal noise.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number, uniform in 0..1.
    fn next(&mut self) -> f64 {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
    /// A random factor around 1, skewed to the slow side.
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

/// Make the log of one launch; failures are scripted by target and scenario.
pub fn launch(
    scenario: &PlannedScenario,
    cases: &[Case],
    invocation: u32,
    index: usize,
    requests: u32,
    noise: &mut Noise,
) -> LaunchLog {
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
            cases: cases.iter().map(|case| case.id.clone()).collect(),
            argv: vec![format!(
                "target/release/{}-bench",
                fixtures::target(target).engine
            )],
            start_ns,
            ..LaunchRecord::default()
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
        ..LaunchLog::default()
    };
    let mut now = start_ns + 2_000_000 + load_ns;
    if let Some((status, reason)) = failure {
        log.end = Some(End {
            status,
            reason: reason.into(),
            stderr_tail: "thread 'main' panicked\nnote: this text is synthetic".into(),
            end_ns: now,
        });
        return log;
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
                let end = *token_ns.last().expect("a case has tokens");
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
                    ..RequestRecord::default()
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
            ..CaseEnd::default()
        });
        now += 1_000_000;
    }
    log.end = Some(End {
        status: Status::Ok,
        end_ns: now,
        ..End::default()
    });
    log
}

/// Add two targets that ran twice to the run, each with noise of its own.
pub fn with_twins(mut run: Run, requests: u32) -> Run {
    let mut noise = Noise::new(11);
    let mut twins = Vec::new();
    for (target, role) in [
        ("lmrs.cpu.q8_0", TwinRole::Fastest),
        ("pytorch.cpu.f32", TwinRole::Slowest),
    ] {
        let index = SPEEDS.iter().position(|speed| speed.0 == target);
        let index = index.expect("the target has a speed");
        let plan = &run.header.plan;
        for planned in plan.launches.iter().filter(|l| l.target == target) {
            let of = |s: &&PlannedScenario| s.id == planned.scenario;
            let scenario = plan.scenarios.iter().find(of).expect("it is planned");
            let cases: Vec<Case> = scenario
                .cases
                .iter()
                .filter(|case| planned.cases.contains(&case.id))
                .cloned()
                .collect();
            let block = planned.invocation;
            let mut log = launch(scenario, &cases, block, index, requests, &mut noise);
            log.launch.target = twin_name(target);
            log.file = format!("{}/{}", twin_name(target), log.file.display()).into();
            run.twins.push(log);
        }
        twins.push(Twin {
            target: target.into(),
            role,
            cost_s: 12.0,
        });
    }
    run.budget = Some(Budget {
        twins,
        ..Budget::default()
    });
    run
}

/// Audit the stamps of a target's launches: in each, 1 000 looks in a second at 20 first and 60
/// other tokens found one of the others missing, once.
pub fn audit(run: &mut Run, target: &str) {
    let mut once = Sum::default();
    once.add(1);
    let tokens = |tokens, early| StampComparison {
        tokens,
        early,
        late: Sum::default(),
    };
    let found = AuditResult {
        looks: 1000,
        watched_ns: 1_000_000_000,
        batch: 1,
        first: tokens(20, Sum::default()),
        later: tokens(60, once),
        ..AuditResult::default()
    };
    let logs = run.launches.iter_mut();
    let logs = logs.filter(|log| log.launch.target == target);
    for end in logs.flat_map(|log| &mut log.case_ends) {
        end.witnessed = Some(found);
    }
}
