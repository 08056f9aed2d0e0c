//! Tests of which cells count, which do not, and what the reason says.

use crate::common::{self, CASE, Engine, SCENARIO, check, log, made, metric, plain};
use schema::budget::{Budget, OverBudget};
use schema::key::CaseKey;
use schema::record::{AuditResult, End, Status, Sum};
use schema::scenario::LoadShape;
use stats::analysis::MetricId;

#[track_caller]
fn assert_refused(made: &common::Made, status: Status, reason: &str) {
    let cell = made.cell();
    assert_eq!(cell.status, status, "{}", cell.reason);
    assert!(cell.reason.contains(reason), "{}", cell.reason);
    assert!(!cell.reason.contains('\n'));
    assert!(cell.metrics.is_empty());
    assert_eq!(cell.rank, None);
    assert!(made.analyse().comparisons.is_empty());
}

fn failed(status: Status, reason: &str) -> Option<End> {
    Some(End {
        status,
        reason: reason.into(),
        stderr_tail: String::new(),
        end_ns: 9,
    })
}

#[test]
fn a_complete_cell_is_ok() {
    let cell = made(&[plain()], 5, 22).cell();
    assert_eq!((cell.status, cell.reason.as_str()), (Status::Ok, ""));
    assert_eq!((cell.requests, cell.invocations), (110, 5));
    assert_eq!(cell.blocks, [0, 1, 2, 3, 4]);
    assert_eq!((cell.axis_value, cell.rank), (10, Some(1)));
    let ttft = metric(&cell, MetricId::TtftNs);
    assert_eq!((ttft.n, ttft.by_invocation.len()), (110, 5));
    let shape = ttft.shape.as_ref().unwrap();
    assert!(shape.p90.is_some() && shape.p95.is_none() && shape.p99.is_none());
    let ids: Vec<_> = cell.metrics.iter().map(|m| m.id).collect();
    assert!(ids.is_sorted());
}

#[test]
fn a_cell_without_time_is_over_budget_and_says_why() {
    let mut made = made(&[plain()], 5, 22);
    made.run.launches.clear();
    made.run.budget = Some(Budget {
        over: vec![OverBudget {
            target: plain().target.into(),
            scenario: SCENARIO.into(),
            case: CASE.into(),
            estimate_s: 300.0,
            reason: "about 300 s by the pilot".into(),
        }],
        ..Budget::default()
    });
    assert_refused(&made, Status::OverBudget, "about 300 s");
}

#[test]
fn equal_runs_give_equal_analyses() {
    let made = made(&[plain()], 5, 22);
    let mut turned = common::Made {
        run: made.run.clone(),
        scenarios: made.scenarios.clone(),
    };
    turned.run.launches.reverse();
    assert_eq!(made.analyse(), turned.analyse());
}

#[test]
fn a_missing_invocation_is_not_run() {
    let mut made = made(&[plain()], 5, 22);
    made.run.launches.remove(3);
    assert_refused(&made, Status::NotRun, "complete in 4 of 5 invocations");
    assert_eq!(made.cell().requests, 88);
    // Killed in the middle of the case: no `case_end`, no `end`.
    let mut made = common::made(&[plain()], 5, 22);
    let log = made.log(2);
    log.case_ends.clear();
    log.end = None;
    assert_refused(&made, Status::NotRun, "complete in 4 of 5 invocations");
}

#[test]
fn a_failed_launch_gives_its_status_and_reason() {
    let mut made = made(&[plain()], 5, 22);
    let log = made.log(2);
    log.case_ends.clear();
    log.end = failed(Status::Oom, "out of memory at batch 4");
    assert_refused(
        &made,
        Status::Oom,
        "out of memory at batch 4 (invocation 2)",
    );
}

#[test]
fn a_failure_in_an_earlier_case_is_named() {
    let mut made = made(&[plain()], 5, 22);
    let log = made.log(2);
    log.case_ends.clear();
    log.launch.cases = vec!["p5".into(), CASE.into()];
    log.end = failed(Status::Timeout, "no answer in 60 s");
    assert_refused(&made, Status::Timeout, "in case p5 before this one");
}

#[test]
fn a_failure_after_the_case_does_not_touch_it() {
    let mut made = made(&[plain()], 5, 22);
    made.log(2).end = failed(Status::Crashed, "signal 11");
    assert_eq!(made.cell().status, Status::Ok);
}

#[test]
fn a_resumed_launch_counts_and_the_broken_attempt_does_not() {
    let engine = plain();
    let mut made = made(std::slice::from_ref(&engine), 5, 22);
    let good = made.cell();
    // An incomplete attempt 0 with absurd samples beside the complete attempt 1.
    let slow = Engine {
        prefill_ns: 900_000_000,
        ..engine
    };
    let mut broken = log(&slow, 2, 7, 99);
    broken.case_ends.clear();
    broken.end = None;
    made.log(2).launch.attempt = 1;
    made.run.launches.push(broken);
    assert_eq!(made.cell(), good);
    // Two complete attempts: the higher counts, whatever the order of files.
    let mut other = log(&slow, 2, 22, 99);
    made.run.launches.push(other.clone());
    assert_eq!(made.cell(), good);
    other.launch.attempt = 2;
    made.run.launches.insert(0, other);
    assert_ne!(made.cell(), good);
}

#[test]
fn the_requests_of_other_cases_are_not_samples() {
    let mut made = made(&[plain()], 5, 22);
    let good = made.cell();
    let log = made.log(1);
    let mut other = log.requests.clone();
    for request in &mut other {
        request.case = "p5".into();
        request.answered_ns += 50_000_000;
    }
    log.launch.cases.insert(0, "p5".into());
    log.requests.splice(0..0, other);
    assert_eq!(made.cell(), good);
}

#[test]
fn an_unverified_target_has_no_numbers() {
    let mut made = made(&[plain()], 5, 22);
    let verify = made.run.verify.get_mut("base.cpu.f32").unwrap();
    verify.status = Status::WrongOutput;
    verify.reason = "argmax differs at 3 of 512 positions".into();
    assert_refused(&made, Status::WrongOutput, "argmax differs at 3");
    let verify = made.run.verify.get_mut("base.cpu.f32").unwrap();
    verify.status = Status::Ok;
    verify.verified_positions = Some(13);
    assert_refused(&made, Status::Unverified, "(logits) for contexts up to 13");
    made.run.verify.get_mut("base.cpu.f32").unwrap().model = "another".into();
    assert_refused(&made, Status::NotRun, "has not judged this target");
    made.run.verify.clear();
    assert_refused(&made, Status::NotRun, "has not judged this target");
    made.log(0).case_ends.clear();
    made.log(0).end = failed(Status::Unavailable, "libtorch is not here");
    assert_refused(&made, Status::Unavailable, "libtorch is not here");
}

#[test]
fn a_rejected_output_takes_the_numbers_away() {
    let mut made = made(&[plain()], 5, 22);
    made.judge(check("base.cpu.f32", 3));
    assert_refused(&made, Status::WrongOutput, "rejects 3 of 110 timed outputs");
    made.judge(check("base.cpu.f32", 0));
    assert_eq!(made.cell().status, Status::Ok);
}

#[test]
fn a_short_answer_is_a_protocol_error() {
    let mut made = made(&[plain()], 5, 22);
    made.log(1).requests[5].token_ns.pop();
    assert_refused(&made, Status::ProtocolError, "3 stamps and 4 ids for 4");
}

#[test]
fn backwards_stamps_are_bad_timing() {
    let spoil = |change: fn(&mut schema::record::RequestRecord)| {
        let mut made = made(&[plain()], 5, 22);
        change(&mut made.log(1).requests[5]);
        made
    };
    let made = spoil(|r| r.token_ns[2] = r.token_ns[1] - 1_500_000);
    let reason = "request 5 of invocation 1: by its stamps token 2 1.500 ms before token 1";
    assert_refused(&made, Status::BadTiming, reason);
    let made = spoil(|r| r.received_ns = r.scheduled_ns - 1);
    assert_refused(
        &made,
        Status::BadTiming,
        "received 0.000 ms before it was due",
    );
    let made = spoil(|r| r.started_ns = r.received_ns - 1000);
    assert_refused(
        &made,
        Status::BadTiming,
        "started 0.001 ms before it was received",
    );
    let made = spoil(|r| r.token_ns[0] = r.started_ns - 1000);
    assert_refused(
        &made,
        Status::BadTiming,
        "token 0 0.001 ms before it was started",
    );
    let made = spoil(|r| r.answered_ns = r.token_ns[3] - 2_000_000);
    assert_refused(
        &made,
        Status::BadTiming,
        "2.000 ms after the harness had read",
    );
    // A warm-up request is not timed, so it is not judged.
    let mut made = common::made(&[plain()], 5, 22);
    made.log(1).requests[0].token_ns.reverse();
    assert_eq!(made.cell().status, Status::Ok);
}

/// Make a run of one launch of 22 requests of four tokens, with 1 000 looks in 1 s; `found` sets
/// what the looks found.
fn with_audit(found: impl Fn(&mut AuditResult)) -> common::Made {
    let mut made = made(&[plain()], 1, 22);
    let mut witnessed = AuditResult {
        batch: 1,
        looks: 1000,
        watched_ns: 1_000_000_000,
        ..AuditResult::default()
    };
    (witnessed.first.tokens, witnessed.later.tokens) = (20, 60);
    found(&mut witnessed);
    made.log(0).case_ends[0].witnessed = Some(witnessed);
    made
}

#[test]
fn stamps_that_looks_contradict_are_bad_timing() {
    let of = |sum| Sum {
        looks: sum,
        most: 1,
        sum,
        squares: sum,
    };
    // At one look in five a first token is missing, over 1 s and 20 first tokens: 10 ms a token.
    let made = with_audit(|found| found.first.early = of(200));
    assert_refused(
        &made,
        Status::BadTiming,
        "1000 looks saw that first tokens are stamped 10.000 ms before they are there",
    );
    let made = with_audit(|found| found.later.late = of(200));
    let reason = "other tokens are stamped 3.333 ms after they are there";
    assert_refused(&made, Status::BadTiming, reason);
    let made = with_audit(|found| found.contradicted = 2);
    assert_refused(
        &made,
        Status::BadTiming,
        "2 commits are not of the answer's tokens",
    );
    let made = with_audit(|found| found.uncommitted = 1);
    assert_refused(&made, Status::BadTiming, "1 of 80 tokens were never");
}

#[test]
fn the_error_of_stamps_is_known_where_somebody_looked() {
    // Two looks of a thousand miss a token: the engine was interrupted between its stamp and its
    // commit.
    let made = with_audit(|found| (0..2).for_each(|_| found.later.early.add(1)));
    let cell = made.cell();
    assert_eq!(cell.status, Status::Ok, "{}", cell.reason);
    let audit = cell.audit.expect("somebody looked");
    assert_eq!(audit.looks, 1000);
    assert!((audit.later.early.mean_ns - 2e-3 / 60.0 * 1e9).abs() < 1.0);
    assert_eq!(audit.later.mean_ns(), audit.later.early.mean_ns);
    assert!((audit.first.high_ns() - -0.05f64.ln() / 1000.0 / 20.0 * 1e9).abs() < 1.0);
    // A launch whose commits were lost has no audit.
    let made = with_audit(|found| found.lost = true);
    assert_eq!(made.cell().audit, None);
    // There is none either where nobody looked, or where the engine commits nothing.
    assert_eq!(common::made(&[plain()], 1, 22).cell().audit, None);
    let made = with_audit(|found| found.uncommitted = 80);
    let cell = made.cell();
    assert_eq!((cell.status, cell.audit), (Status::Ok, None));
}

/// Change the stamps to those of a clock that runs at `speed` from the moment a request was
/// received.
fn slow_clock(made: &mut common::Made, speed: f64) {
    made.each(|r| {
        let from = r.received_ns;
        let slow = |at: u64| from + ((at - from) as f64 * speed) as u64;
        r.started_ns = slow(r.started_ns);
        r.token_ns.iter_mut().for_each(|at| *at = slow(*at));
    });
}

#[test]
fn a_clock_at_half_speed_is_caught() {
    // A request takes 6 ms: a median lag of 5 ms is allowed, but the shortest lag is too long.
    let mut made = made(&[plain()], 5, 22);
    slow_clock(&mut made, 0.5);
    assert_refused(&made, Status::BadTiming, "the shortest report lag is 3.");
    // A request takes 1.5 ms.
    let short = Engine {
        prefill_ns: 900_000,
        step_ns: 200_000,
        ..plain()
    };
    let mut made = common::made(std::slice::from_ref(&short), 5, 22);
    assert_eq!(made.cell().status, Status::Ok);
    slow_clock(&mut made, 0.5);
    assert_refused(&made, Status::BadTiming, "the shortest report lag is 0.8");
    // With six requests even the least lag may be long because the machine is busy: up to 1.7 ms.
    let mut made = common::made(&[short], 1, 6);
    slow_clock(&mut made, 0.5);
    assert_eq!(made.cell().status, Status::Ok);
    let mut made = common::made(&[plain()], 1, 6);
    slow_clock(&mut made, 0.5);
    assert_refused(&made, Status::BadTiming, "the shortest report lag is 3.");
    // With long requests a clock that is only 10 % slow is caught too.
    let long = Engine {
        prefill_ns: 90_000_000,
        ..plain()
    };
    let mut made = common::made(&[long], 5, 22);
    slow_clock(&mut made, 0.9);
    assert_refused(&made, Status::BadTiming, "the median report lag is 9.");
}

#[test]
fn a_clock_that_is_honest_now_and_then_is_caught() {
    let long = Engine {
        prefill_ns: 90_000_000,
        ..plain()
    };
    let mut made = common::made(&[long], 5, 22);
    made.each(|r| {
        if r.id % 5 < 3 {
            let early = |at: u64| at - (at - r.started_ns) / 5;
            r.token_ns.iter_mut().for_each(|at| *at = early(*at));
        }
    });
    assert_refused(&made, Status::BadTiming, "the median report lag is 1");
}

#[test]
fn a_clock_with_another_origin_is_caught() {
    for shift in [-50_000_000_i64, 50_000_000] {
        let mut made = made(&[plain()], 5, 22);
        made.each(|r| {
            let moved = |at: u64| at.wrapping_add_signed(shift);
            r.received_ns = moved(r.received_ns);
            r.started_ns = moved(r.started_ns);
            r.token_ns.iter_mut().for_each(|at| *at = moved(*at));
        });
        assert_eq!(made.cell().status, Status::BadTiming, "{shift}");
    }
}

#[test]
fn a_busy_machine_is_not_called_a_liar() {
    // Two answers in five come 30 ms late because the engine holds both cores.
    let mut made = made(&[plain()], 5, 22);
    made.each(|r| {
        if r.id % 5 < 2 {
            r.answered_ns += 30_000_000;
        }
    });
    assert_eq!(made.cell().status, Status::Ok, "{}", made.cell().reason);
}

#[test]
fn one_invocation_has_no_interval_and_no_rank_but_its_own() {
    let cell = made(&[plain()], 1, 5).cell();
    assert_eq!(cell.status, Status::Ok);
    assert_eq!(cell.rank, Some(1), "the only one of its case");
    let ttft = metric(&cell, MetricId::TtftNs);
    assert_eq!((ttft.n, ttft.ci95, ttft.cv_invocations), (5, None, None));
    let shape = ttft.shape.as_ref().unwrap();
    assert_eq!((shape.p90, shape.quantiles.len()), (None, 5));
}

#[test]
fn under_a_hundred_requests_no_percentile_is_printed() {
    let cell = made(&[plain()], 5, 19).cell();
    // 285 gaps, but only 95 requests.
    let itl = metric(&cell, MetricId::ItlNs);
    assert_eq!(itl.n, 285);
    assert_eq!(itl.shape.as_ref().unwrap().p90, None);
}

#[test]
fn a_cell_without_a_launch_in_the_plan_says_so() {
    let mut made = made(&[plain()], 5, 22);
    made.run.header.plan.launches.clear();
    assert_refused(&made, Status::NotRun, "no launch");
}

/// Add a scenario that asks for one user's load, which the first scenario measures.
fn with_a_shared_case() -> common::Made {
    let mut made = made(&[plain()], 5, 22);
    let plan = &mut made.run.header.plan;
    let mut other = plan.scenarios[0].clone();
    other.id = "users".into();
    other.load = LoadShape::ClosedLoop;
    other.cases[0].id = "u1".into();
    other.cases[0].measured_by = Some(CaseKey::new(SCENARIO, CASE));
    plan.scenarios.push(other);
    made
}

#[test]
fn a_case_that_another_measures_has_the_same_samples() {
    let made = with_a_shared_case();
    let cells = made.analyse().cells;
    assert_eq!(cells.len(), 2);
    assert_eq!((&*cells[1].scenario, &*cells[1].case), ("users", "u1"));
    assert_eq!((cells[1].status, &*cells[1].reason), (Status::Ok, ""));
    assert_eq!(cells[1].requests, cells[0].requests);
    for id in [MetricId::TtftNs, MetricId::OutputTokPerS] {
        let value = |cell| metric(cell, id).value;
        assert_eq!(value(&cells[1]), value(&cells[0]));
    }
}

#[test]
fn what_withdraws_a_measured_case_withdraws_who_shares_it() {
    let mut made = with_a_shared_case();
    made.judge(check(plain().target, 1));
    let of = |cell: &stats::analysis::Cell| (cell.status, cell.reason.contains("rejects"));
    let cells = made.analyse().cells;
    assert_eq!(of(&cells[0]), (Status::WrongOutput, true));
    assert_eq!(of(&cells[1]), (Status::WrongOutput, true));
}
