//! Tests of sender and reader with engines that are shell scripts: what is sent when, and what
//! becomes of requests that have no answer. No test asserts a wall-clock time.

use super::super::issue::issue as issue_case;
use super::super::load::PromptQueue;
use super::*;
use crate::engine::scripted;
use schema::record::RequestRecord;

fn case(requests: u32) -> Case {
    Case {
        id: "r50".into(),
        prompt_tokens: 2,
        new_tokens: 2,
        concurrency: 1,
        load_percent: Some(50),
        requests,
        ..Case::default()
    }
}

fn offered(rate_per_s: f64) -> Offered {
    Offered {
        rate_per_s,
        seed: 7,
        name: "open/r50/0".into(),
    }
}

/// Run a case of one warm-up arrival, `requests` timed ones and one filler, with one request before
/// them that fills the engine. Returns the recorded events, and how the case ended.
fn run_case(script: &str, requests: u32, rate_per_s: f64) -> (Vec<RecordEvent>, Option<CaseError>) {
    let timed = (0..requests).map(|i| vec![1, i]).collect();
    run_prompts(script, timed, rate_per_s)
}

/// Run such a case with these timed prompts.
fn run_prompts(
    script: &str,
    timed: Vec<Vec<u32>>,
    rate_per_s: f64,
) -> (Vec<RecordEvent>, Option<CaseError>) {
    let mut session = scripted::session(false, script, Duration::from_millis(300));
    let requests = timed.len() as u32;
    let prompts = CasePrompts {
        untimed: PromptQueue::new(900, vec![vec![1, 2]]),
        timed: PromptQueue::new(0, timed),
    };
    let mut events = Vec::new();
    let mut keep = |event| {
        events.push(event);
        Ok(())
    };
    let ended = issue_case(
        &mut session,
        LoadShape::Poisson,
        &case(requests),
        1,
        Some(offered(rate_per_s)),
        prompts,
        &mut keep,
    );
    session.process.abort();
    (events, ended.err())
}

fn requests<'a>(events: &'a [RecordEvent]) -> Vec<&'a RequestRecord> {
    let request = |event: &'a RecordEvent| match event {
        RecordEvent::Request(request) => Some(request),
        _ => None,
    };
    events.iter().filter_map(request).collect()
}

fn failure(stop: Option<CaseError>) -> EngineFailure {
    match stop {
        Some(CaseError::Engine(failure)) => failure,
        Some(CaseError::Record(error)) => panic!("{error}"),
        None => panic!("the case should not have ended well"),
    }
}

#[test]
fn the_sender_waits_for_no_answer() {
    // Nothing is answered before everything was read: a sender that waits for an answer before it
    // sends the next request never gets one.
    let script = "skip 1; answer 1; skip 6; for id in 2 3 4 5 6 7; do answer $id; done; skip 1";
    let (events, stop) = run_case(script, 4, 1000.0);
    assert!(stop.is_none(), "{:?}", stop.map(|stop| failure(Some(stop))));
    let all = requests(&events);
    let timed: Vec<_> = all.iter().filter(|r| !r.warmup).collect();
    assert_eq!((all.len(), timed.len()), (7, 4));
    let open = all.iter().filter(|r| r.id > 1);
    let first_answer = open.map(|r| r.answered_ns).min().unwrap();
    assert!(timed.iter().all(|r| r.sent_ns < first_answer));
    assert!(timed.iter().all(|r| r.scheduled_ns <= r.sent_ns));
    let prompts: Vec<u64> = timed.iter().map(|r| r.prompt).collect();
    assert_eq!(prompts, [0, 1, 2, 3]);
}

#[test]
fn requests_are_due_as_the_seed_has_it_at_the_rate_offered() {
    let script = "while read -r line; do id=${line#*\\\"id\\\":}; answer ${id%%[!0-9]*}; done";
    let (events, stop) = run_case(script, 4, 500.0);
    assert!(stop.is_none());
    let counts = Counts {
        warmup: 1,
        timed: 4,
        fillers: 1,
    };
    let gaps = unit_gaps(LoadShape::Poisson, 7, "open/r50/0", counts);
    let wanted = due_ns(&gaps, 500.0);
    let due: Vec<u64> = requests(&events)[1..]
        .iter()
        .map(|r| r.scheduled_ns)
        .collect();
    let offsets = due.iter().map(|ns| ns - due[0] + wanted[0]);
    let mut pairs = offsets.zip(&wanted);
    assert!(pairs.all(|(offset, wanted)| offset == *wanted));
}

#[test]
fn what_has_no_answer_is_recorded_and_the_case_fails() {
    let script = "skip 1; answer 1; skip 2; answer 2; answer 3; skip 99";
    let (events, stop) = run_case(script, 3, 1000.0);
    let failure = failure(stop);
    assert_eq!(failure.status, Status::Timeout);
    assert!(
        failure.reason.contains("over-saturated: 2 of 3"),
        "{failure}"
    );
    let unanswered: Vec<(u64, bool)> = events
        .iter()
        .filter_map(|event| match event {
            RecordEvent::Unanswered(u) => Some((u.prompt, u.sent_ns.is_some())),
            _ => None,
        })
        .collect();
    assert_eq!(unanswered, [(1, true), (2, true)]);
}

#[test]
fn nothing_more_is_sent_with_too_many_in_flight() {
    let requests = IN_FLIGHT_MAX as u32 + 10;
    let (events, stop) = run_case("skip 1; answer 1; sleep 60", requests, 1e6);
    assert_eq!(failure(stop).status, Status::Timeout);
    let sent =
        |event: &&RecordEvent| matches!(event, RecordEvent::Unanswered(u) if u.sent_ns.is_some());
    let unsent =
        |event: &&RecordEvent| matches!(event, RecordEvent::Unanswered(u) if u.sent_ns.is_none());
    // The warm-up arrival is in flight too, hence one less.
    assert_eq!(events.iter().filter(sent).count(), IN_FLIGHT_MAX - 1);
    assert_eq!(events.iter().filter(unsent).count(), 11);
}

#[test]
fn a_case_ends_though_the_sender_is_blocked_in_a_full_pipe() {
    // Two megabytes of prompts, which the engine doesn't read and no pipe holds.
    let prompts = vec![vec![12345; 2000]; 200];
    let (events, stop) = run_prompts("skip 1; answer 1; sleep 60", prompts, 1e6);
    assert_eq!(failure(stop).status, Status::Timeout);
    assert_eq!(
        events.len(),
        201,
        "the warm-up's answer, and 200 requests without one"
    );
}

#[test]
fn an_answer_before_its_question_is_no_answer() {
    // At this rate the second request is not due until long after the test.
    let (_, stop) = run_case("skip 1; answer 1; answer 3; skip 99", 2, 0.01);
    let failure = failure(stop);
    assert_eq!(failure.status, Status::ProtocolError);
    assert!(failure.reason.contains("before it was asked"), "{failure}");
}

#[test]
fn a_death_on_the_way_is_a_crash() {
    let (_, stop) = run_case("skip 1; answer 1; skip 1; exit 3", 4, 1000.0);
    let failure = failure(stop);
    assert_eq!(failure.status, Status::Crashed);
    assert!(failure.reason.contains("status 3"), "{failure}");
}
