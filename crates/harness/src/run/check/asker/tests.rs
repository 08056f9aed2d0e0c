//! Tests of the asker with references that are shell scripts: answers in any order, and every way
//! in which one can fail while it has many questions. No test asserts a wall-clock time.

use super::*;
use crate::engine::scripted;
use protocol::wire::{Done, Event, Failure, FailureKind};
use schema::golden::TOP;
use schema::record::Status;
use std::time::Duration;

const PROMPT: [u32; 3] = [7, 7, 7];

/// The asker of a reference that runs `script`. Requests are numbered from 1.
fn asker(script: &[String]) -> Asker {
    let session = scripted::session(true, &script.join("\n"), Duration::from_secs(10));
    Asker::new("scripted.cpu.f32".into(), session, tokenizer())
}

/// A tokenizer in which "a" is 0 and "b" is 1.
fn tokenizer() -> Tokenizer {
    let json = serde_json::json!({
        "version": "1.0",
        "pre_tokenizer": { "type": "Whitespace" },
        "model": { "type": "WordLevel", "vocab": { "a": 0, "b": 1, "?": 2 }, "unk_token": "?" },
    });
    json.to_string().parse().expect("it is a tokenizer")
}

fn skip(requests: usize) -> String {
    format!("skip {requests}")
}

fn say(event: &Event) -> String {
    let line = serde_json::to_string(event).expect("it is JSON");
    format!("echo '{line}'")
}

/// Scores of two positions at which the reference prefers 0 and then 1; at the second, the token
/// that was asked about is `behind` nats behind.
fn scored(id: u64, behind: f64) -> Event {
    Event::Scored(Scored {
        id,
        argmax: vec![0, 1],
        logprobs: vec![vec![-1.0], vec![-1.0 - behind]],
        top_ids: vec![vec![0], vec![1]],
        top_logprobs: vec![vec![-1.0], vec![-1.0]],
    })
}

fn put(asker: &mut Asker, outputs: &[[u32; 2]]) -> Vec<Put> {
    let mut put = |ids: &[u32; 2]| asker.put(&PROMPT, Output::Ids(ids.to_vec()), 2);
    outputs.iter().map(&mut put).collect()
}

#[test]
fn questions_go_out_ahead_and_answers_come_in_any_order() {
    let mut asker = asker(&[
        // The reference answers nothing before it has all questions.
        skip(3),
        say(&scored(3, 0.5)),
        say(&scored(1, 0.0)),
        say(&scored(2, 0.25)),
        skip(1),
    ]);
    let puts = put(&mut asker, &[[0, 1], [0, 2], [0, 3]]);
    let gaps: Vec<_> = puts.iter().map(|put| asker.gap(put, 0.1)).collect();
    assert_eq!(gaps, [Ok(Some(0.0)), Ok(Some(0.25)), Ok(Some(0.5))]);
}

#[test]
fn what_is_equal_is_asked_once() {
    let mut asker = asker(&[skip(2), say(&scored(1, 0.0)), say(&scored(2, 0.5)), skip(1)]);
    let puts = put(&mut asker, &[[0, 1], [0, 2], [0, 1], [0, 2]]);
    let text = asker.put(&PROMPT, Output::Text("a b".into()), 2);
    assert_eq!(asker.distinct(), 2);
    for (put, gap) in puts.iter().zip([0.0, 0.5, 0.0, 0.5]) {
        assert_eq!(asker.gap(put, 0.1), Ok(Some(gap)));
    }
    assert_eq!(asker.gap(&text, 0.1), Ok(Some(0.0)));
}

#[test]
fn no_more_is_in_flight_than_there_is_room_for() {
    let mut asker = asker(&[
        skip(2),
        say(&scored(1, 0.0)),
        skip(1),
        say(&scored(3, 0.0)),
        say(&scored(2, 0.0)),
        skip(1),
        say(&scored(4, 0.0)),
    ]);
    let half = |id| vec![id; TOKENS_IN_FLIGHT / 2 - 2];
    let above_all = vec![7; TOKENS_IN_FLIGHT];
    let mut puts: Vec<_> = (1..4)
        .map(|id| asker.put(&half(id), Output::Ids(vec![0, 1]), 2))
        .collect();
    puts.push(asker.put(&above_all, Output::Ids(vec![0, 1]), 2));
    assert!(asker.gap(&puts[0], 0.1).is_ok());
    assert_eq!(asker.sent, 2);
    assert!(asker.gap(&puts[2], 0.1).is_ok());
    assert_eq!(asker.sent, 3);
    assert_eq!(asker.gap(&puts[3], 0.1), Ok(Some(0.0)), "alone it may go");
    assert_eq!((asker.sent, asker.tokens_in_flight), (4, 0));
}

#[test]
fn all_outputs_of_a_prompt_go_out_together() {
    let mut asker = asker(&[
        skip(3),
        say(&scored(1, 0.0)),
        say(&scored(2, 0.0)),
        say(&scored(3, 0.0)),
        skip(1),
        say(&scored(4, 0.0)),
    ]);
    let long = vec![7; TOKENS_IN_FLIGHT - 2];
    let of_long = |id| Output::Ids(vec![0, id]);
    let mut puts: Vec<_> = (1..4).map(|id| asker.put(&long, of_long(id), 2)).collect();
    puts.push(asker.put(&PROMPT, of_long(1), 2));
    assert!(asker.gap(&puts[0], 0.1).is_ok());
    assert_eq!(asker.sent, 3, "another prompt waits");
    assert!(asker.gap(&puts[3], 0.1).is_ok());
}

/// The failure of an asker of three questions, where the reference reads them all, answers the
/// first, and then does something else.
fn fails(then: String) -> EngineFailure {
    let mut asker = asker(&[skip(3), say(&scored(1, 0.0)), then]);
    let puts = put(&mut asker, &[[0, 1], [0, 2], [0, 3]]);
    assert_eq!(asker.gap(&puts[0], 0.1), Ok(Some(0.0)));
    let failure = asker.gap(&puts[1], 0.1).expect_err("it was not answered");
    assert_eq!(asker.gap(&puts[0], 0.1), Ok(Some(0.0)), "an answer stays");
    failure
}

#[test]
fn a_reference_that_fails_among_many_questions_says_why() {
    let failure = Event::Error(Failure {
        id: Some(2),
        kind: FailureKind::Oom,
        message: "no memory for 31 rows".into(),
    });
    let failure = fails(format!("{}; skip 1", say(&failure)));
    assert_eq!(failure.status, Status::Oom);
    assert_eq!(failure.reason, "no memory for 31 rows");
    let failure = fails("exit 3".into());
    assert_eq!(failure.status, Status::Crashed);
    assert!(failure.reason.contains("status 3"), "{failure}");
    let failure = fails(format!("{}; skip 1", say(&scored(1, 0.0))));
    assert_eq!(failure.status, Status::ProtocolError);
    assert!(failure.reason.contains("not in flight"), "{failure}");
}

#[test]
fn one_that_reads_no_more_is_told_by_how_it_died() {
    // The reference closes its stdin before it answers, so the second question can't be written.
    let mut asker = asker(&[
        skip(1),
        "exec <&-".into(),
        say(&scored(1, 0.0)),
        "exit 3".into(),
    ]);
    let puts = put(&mut asker, &[[0, 1]]);
    assert_eq!(asker.gap(&puts[0], 0.1), Ok(Some(0.0)));
    let puts = put(&mut asker, &[[0, 2]]);
    let failure = asker.gap(&puts[0], 0.1).expect_err("nobody reads it");
    assert_eq!(failure.status, Status::Crashed);
    assert!(failure.reason.contains("status 3"), "{failure}");
}

#[test]
fn a_text_is_held_against_the_references_own_once_nothing_is_in_flight() {
    let done = Event::Done(Done {
        id: 3,
        received_ns: 1,
        started_ns: 2,
        token_ns: vec![3, 4],
        output_ids: vec![0, 1],
        output_text: None,
        batch: 1,
    });
    let likeliest = |best: u32| (0..TOP as u32).map(|rank| best + rank).collect();
    let falling: Vec<f64> = (0..TOP).map(|rank| -(rank as f64)).collect();
    let own = Event::Scored(Scored {
        id: 4,
        argmax: vec![0, 1],
        logprobs: vec![vec![], vec![]],
        top_ids: vec![likeliest(0), likeliest(1)],
        top_logprobs: vec![falling.clone(), falling],
    });
    let mut asker = asker(&[
        skip(2),
        say(&scored(1, 0.0)),
        say(&scored(2, 0.5)),
        skip(1),
        say(&done),
        skip(1),
        say(&own),
        skip(1),
    ]);
    let puts = put(&mut asker, &[[0, 1], [0, 2]]);
    // Four letters that are no tokens of this tokenizer.
    let text = asker.put(&PROMPT, Output::Text("else".into()), 2);
    assert_eq!(asker.gap(&puts[0], 0.1), Ok(Some(0.0)));
    assert_eq!(asker.gap(&text, 0.1), Ok(Some(OTHER_TEXT)));
    assert_eq!(asker.gap(&puts[1], 0.1), Ok(Some(0.5)));
}
