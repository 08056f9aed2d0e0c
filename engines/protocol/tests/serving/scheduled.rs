//! Tests of the runtime around an engine with a scheduler of its own. The adapter is
//! `examples/relay-bench.rs`; nothing here asserts how long anything takes, nor which requests
//! happened to share a step.

use crate::{asked_by_hand, done, events, generate, kinds, load};
use protocol::wire::{Batching, Event, FailureKind};
use protocol::witness::{self, Ring};
use std::process::Output;

fn talk(input: &str) -> Output {
    crate::talk("relay-bench", input)
}

#[test]
fn every_request_is_answered_with_times_in_order_before_the_process_ends() {
    let requests: String = (1..=20).map(|id| generate(id, &[1, 2], 9)).collect();
    let output = talk(&(load("", 20) + &requests));
    assert!(output.status.success());
    let events = events(&output);
    let Event::Hello(hello) = &events[0] else {
        panic!("{events:?}")
    };
    assert_eq!(hello.capabilities.batching, Batching::Continuous);
    assert!(hello.build.contains_key("rustc"));
    let mut ids = Vec::new();
    for event in &events[2..] {
        let done = done(event);
        assert_eq!(done.output_ids, [3, 4, 5, 6, 7, 8, 9, 10, 11]);
        let mut times = vec![done.received_ns, done.started_ns];
        times.extend(&done.token_ns);
        assert!(times.is_sorted());
        assert!(done.batch >= 1 && done.batch <= 20);
        ids.push(done.id);
    }
    ids.sort_unstable();
    assert_eq!(ids, (1..=20).collect::<Vec<_>>());
}

/// Tokens are committed under both runtimes, the batched one and the scheduled one.
#[test]
fn tokens_are_committed_for_whoever_looks() {
    for (example, request) in [("relay-bench", [1, 2]), ("echo-bench", [1, 2])] {
        let file = tempfile::NamedTempFile::new().unwrap();
        let ring = Ring::create(file.as_file()).unwrap();
        let mut command = crate::command(example);
        command.env(witness::VARIABLE, file.path());
        let requests = generate(3, &request, 4) + &generate(5, &request, 4);
        let output = crate::finish(command.spawn().unwrap(), &(load("", 2) + &requests));
        let mut left = 8;
        assert_eq!(ring.committed(), left, "{example}");
        for event in &events(&output)[2..] {
            let done = done(event);
            let committed = (0..8).map(|n| ring.entry(n));
            let of_request = committed.filter(|entry| entry.request == done.id);
            for (index, entry) in of_request.enumerate() {
                assert_eq!(entry.index, index as u32);
                assert_eq!(entry.id, done.output_ids[index]);
                left -= 1;
            }
        }
        assert_eq!(left, 0, "{example}");
    }
}

#[test]
fn a_file_that_cannot_be_mapped_is_an_error() {
    let mut command = crate::command("relay-bench");
    command.env(witness::VARIABLE, "/nowhere");
    let output = crate::finish(command.spawn().unwrap(), &load("", 1));
    assert_eq!(output.status.code(), Some(1));
    assert!(matches!(events(&output).last(), Some(Event::Error(_))));
}

#[test]
fn scores_line_up_with_the_positions_asked_for() {
    let score = "{\"op\":\"score\",\"id\":5,\"ids\":[1,2,9,4],\"ask\":[[3],[10,0],[5]]}\n";
    let events = events(&talk(&(load("", 1) + score)));
    let Event::Scored(scored) = &events[2] else {
        panic!("{events:?}")
    };
    assert_eq!(scored.argmax, [3, 10, 5]);
    assert!((scored.logprobs[1][0] - (2.0f64 / 17.0).ln()).abs() < 1e-6);
}

#[test]
fn failures_stay_with_their_request() {
    let score = "{\"op\":\"score\",\"id\":6,\"ids\":[1,2,9,4],\"ask\":[[3],[4]]}\n";
    let input = load("", 4)
        + "nonsense\n"
        + &generate(1, &[], 1)
        + &generate(2, &[0; 30], 3)
        + &load("", 1)
        + score
        + &generate(3, &[1, 1, 1], 1)
        + &generate(4, &[1, 1, 1, 1, 1], 1)
        + &generate(5, &[1], 1);
    let output = talk(&input);
    assert!(output.status.success());
    let mut kinds = kinds(&events(&output)[2..]);
    kinds.sort_by_key(|(id, _)| *id);
    use FailureKind::{BadRequest, Internal, Oom};
    assert_eq!(
        kinds,
        [
            (None, Some(BadRequest)),
            (None, Some(BadRequest)),
            (Some(1), Some(BadRequest)),
            (Some(2), Some(BadRequest)),
            (Some(3), Some(Oom)),
            (Some(4), Some(Internal)),
            (Some(5), None),
            (Some(6), Some(Internal)),
        ]
    );
}

#[test]
fn a_panic_is_reported_and_final() {
    let output = talk(&(load("", 1) + &generate(1, &[1, 1, 1, 1], 1)));
    assert_eq!(output.status.code(), Some(101));
    let said = events(&output);
    assert!(
        said.iter().any(
            |event| matches!(event, Event::Error(failure) if failure.message.contains("four!"))
        )
    );
}

#[test]
fn a_person_gets_one_result_with_statistics() {
    let result = asked_by_hand("relay-bench");
    assert_eq!(result["output_ids"], serde_json::json!([3, 4, 5, 6]));
    assert_eq!(result["itl_ms"]["n"], 15);
}
