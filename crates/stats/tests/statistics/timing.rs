//! Tests of which stamps are believed: against the harness's own, and against looks at what was
//! committed.

use crate::common::{self, Engine, assert_refused, made, plain};
use schema::record::{AuditResult, RequestRecord, Status, Sum};

#[test]
fn backwards_stamps_are_bad_timing() {
    let refused = |reason: &str, spoil: fn(&mut RequestRecord)| {
        let mut made = made(&[plain()], 5, 22);
        spoil(&mut made.log(1).requests[5]);
        assert_refused(&made, Status::BadTiming, reason);
    };
    refused(
        "request 5 of invocation 1: by its stamps token 2 1.500 ms before token 1",
        |r| r.token_ns[2] = r.token_ns[1] - 1_500_000,
    );
    refused("received 0.000 ms before it was due", |r| {
        r.received_ns = r.scheduled_ns - 1;
    });
    refused("started 0.001 ms before it was received", |r| {
        r.started_ns = r.received_ns - 1000;
    });
    refused("token 0 0.001 ms before it was started", |r| {
        r.token_ns[0] = r.started_ns - 1000;
    });
    refused("2.000 ms after the harness had read", |r| {
        r.answered_ns = r.token_ns[3] - 2_000_000;
    });
    // A warm-up request is not timed, so it is not judged.
    let mut made = made(&[plain()], 5, 22);
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
    let refused = |reason: &str, found: &dyn Fn(&mut AuditResult)| {
        assert_refused(&with_audit(found), Status::BadTiming, reason);
    };
    // At one look in five a first token is missing, over 1 s and 20 first tokens: 10 ms a token.
    let reason = "1000 looks saw that first tokens are stamped 10.000 ms before they are there";
    refused(reason, &|found| found.first.early = of(200));
    let reason = "other tokens are stamped 3.333 ms after they are there";
    refused(reason, &|found| found.later.late = of(200));
    let reason = "2 commits are not of the answer's tokens";
    refused(reason, &|found| found.contradicted = 2);
    let reason = "1 of 80 tokens were never";
    refused(reason, &|found| found.uncommitted = 1);
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
    let at_half = |engine: &Engine, invocations, requests| {
        let mut made = made(std::slice::from_ref(engine), invocations, requests);
        slow_clock(&mut made, 0.5);
        made
    };
    let refused = |made: &common::Made, reason| assert_refused(made, Status::BadTiming, reason);
    // A request takes 6 ms: a median lag of 5 ms is allowed, but the shortest lag is too long.
    let of_plain = |invocations, requests| at_half(&plain(), invocations, requests);
    refused(&of_plain(5, 22), "the shortest report lag is 3.");
    // A request takes 1.5 ms.
    let short = Engine {
        prefill_ns: 900_000,
        step_ns: 200_000,
        ..plain()
    };
    let right = made(std::slice::from_ref(&short), 5, 22);
    assert_eq!(right.cell().status, Status::Ok);
    refused(&at_half(&short, 5, 22), "the shortest report lag is 0.8");
    // With six requests even the least lag may be long because the machine is busy: up to 1.7 ms.
    assert_eq!(at_half(&short, 1, 6).cell().status, Status::Ok);
    refused(&of_plain(1, 6), "the shortest report lag is 3.");
    // All requests of one batch are answered at one time, so that one delay lengthens every lag.
    let mut made = at_half(&short, 1, 22);
    refused(&made, "the shortest report lag is 0.8");
    let log = &mut made.run.launches[0];
    let batch = log.requests.iter().find(|r| !r.warmup).cloned().unwrap();
    for request in log.requests.iter_mut().filter(|r| !r.warmup) {
        let (id, prompt) = (request.id, request.prompt);
        *request = batch.clone();
        (request.id, request.prompt) = (id, prompt);
    }
    assert_eq!(made.cell().status, Status::Ok);
    // With long requests a clock that is only 10 % slow is caught too.
    let long = Engine {
        prefill_ns: 90_000_000,
        ..plain()
    };
    let mut made = common::made(&[long], 5, 22);
    slow_clock(&mut made, 0.9);
    refused(&made, "the median report lag is 9.");
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
