//! Tests of which cells count, which do not, and what the reason says.

use crate::common::{
    self, CASE, Engine, SCENARIO, assert_refused, check, log, made, metric, plain,
};
use schema::budget::Budget;
use schema::key::CaseKey;
use schema::record::{End, Status};
use schema::scenario::LoadShape;
use stats::analysis::MetricId;

fn failed(status: Status, reason: &str) -> Option<End> {
    Some(End {
        status,
        reason: reason.into(),
        ..End::default()
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
    let why = "about 300 s by the pilot";
    made.run.budget = Some(Budget {
        over: vec![fixtures::over(plain().target, SCENARIO, CASE, why)],
        ..Budget::default()
    });
    assert_refused(&made, Status::OverBudget, "about 300 s");
}

#[test]
fn equal_runs_give_equal_analyses() {
    let made = made(&[plain()], 5, 22);
    let mut turned = made.clone();
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
