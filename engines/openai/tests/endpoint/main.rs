//! Tests of the adapter as the harness uses it, with a scripted server in this process. Times are
//! tested only for their order, with barriers, never for a duration.

mod adapter;
mod failures;
mod real;
mod server;

use adapter::{Adapter, done, failure, generate, hello};
use protocol::clock::now_ns;
use protocol::wire::{Batching, Event, FailureKind};
use serde_json::{Value, json};
use server::{Answer, Server, Step, chunk, stream, tokens};
use std::sync::{Arc, Barrier};

/// Ids of `tokenizer.json` in [`adapter`]: `<s>` is 0, `a` is 1, and so on.
const PROMPT: [u32; 4] = [0, 1, 2, 3];

/// Answer with the number of ids that were asked for, counting upwards from the prompt's last id.
fn with_ids(body: &Value) -> Answer {
    let Some(prompt) = body["prompt"].as_array() else {
        return Answer::error(400, "ids, please");
    };
    let count = body["max_tokens"].as_u64().unwrap();
    let last = prompt.last().unwrap().as_u64().unwrap();
    let chunks = (1..=count)
        .map(|k| chunk(&format!("{k}"), &[last + k]))
        .collect();
    tokens(chunks, prompt.len() as u64, count)
}

/// Accept only text and return only text; `bos` tokens are added to the prompt's count.
fn with_text(body: &Value, bos: u64) -> Answer {
    let Some(prompt) = body["prompt"].as_str() else {
        return Answer::error(422, "prompt: expected a string");
    };
    let read = prompt.replace("<s>", "0").chars().count() as u64 + bos;
    let count = body["max_tokens"].as_u64().unwrap();
    let chunks = (0..count).map(|_| chunk("x", &[])).collect();
    tokens(chunks, read, count)
}

#[test]
fn a_server_that_knows_ids_is_sent_ids_and_gives_them_back() {
    let server = Server::start(with_ids);
    let events = Adapter::new(&server, 2).talk(&[generate(1, &PROMPT, 5)]);
    let hello = hello(&events);
    assert_eq!(
        (hello.engine.as_str(), hello.version.as_str()),
        ("openai", "scripted/1")
    );
    assert_eq!(hello.capabilities.batching, Batching::Continuous);
    assert!(!hello.capabilities.score);
    assert_eq!(hello.build["served_model"], "the-model");
    let notes = hello.capabilities.notes.join("; ");
    assert!(
        notes.contains("at the client") && notes.contains("token ids"),
        "{notes}"
    );
    assert!(matches!(events[1], Event::Loaded(_)), "{events:?}");

    let done = done(&events, 1);
    assert_eq!(
        (&done.output_ids[..], done.output_text.as_deref()),
        (&[4, 5, 6, 7, 8][..], None)
    );
    let mut times = vec![done.received_ns, done.started_ns];
    times.extend(&done.token_ns);
    assert!(times.is_sorted() && done.token_ns.len() == 5, "{done:?}");
    assert_eq!(done.batch, 1);
    let sent = server.requests().pop().unwrap();
    assert_eq!(sent["prompt"], json!(PROMPT));
    assert_eq!(sent["model"], "the-model");
    assert_eq!(
        (&sent["temperature"], &sent["max_tokens"]),
        (&json!(0), &json!(5))
    );
    assert_eq!(
        (&sent["ignore_eos"], &sent["min_tokens"]),
        (&json!(true), &json!(5))
    );
}

#[test]
fn a_server_that_knows_text_alone_gets_a_bos_exactly_once() {
    for (bos, sent) in [(1, "abc"), (0, "<s>abc")] {
        let server = Server::start(move |body| with_text(body, bos));
        // The single token `ab` is not what the text `ab` encodes to.
        let merged = [0, adapter::AB];
        let requests = [generate(1, &PROMPT, 3), generate(2, &merged, 3)];
        let events = Adapter::new(&server, 1).talk(&requests);
        let done = done(&events, 1);
        assert_eq!(
            (done.output_ids.len(), done.output_text.as_deref()),
            (0, Some("xxx"))
        );
        assert_eq!(done.token_ns.len(), 3);
        assert_eq!(server.requests().pop().unwrap()["prompt"], sent);
        let refused = failure(&events, Some(2));
        assert_eq!(refused.kind, FailureKind::Unsupported);
        assert!(
            refused.message.contains("read as 2 others"),
            "{}",
            refused.message
        );
    }
}

#[test]
fn the_first_token_is_the_first_content_and_not_the_first_byte() {
    let (here, go) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
    let (server_here, server_go) = (Arc::clone(&here), Arc::clone(&go));
    let server = Server::start(move |body| {
        let Answer::Stream(mut steps) = with_ids(body) else {
            panic!("ids are sent")
        };
        if body["max_tokens"] == 2 {
            let empty = Step::Send(chunk("", &[]));
            let wait = [Arc::clone(&server_here), Arc::clone(&server_go)].map(Step::Wait);
            steps.splice(0..0, [empty].into_iter().chain(wait));
        }
        Answer::Stream(steps)
    });
    let adapter = Adapter::new(&server, 1);
    let talk = std::thread::spawn(move || adapter.talk(&[generate(1, &PROMPT, 2)]));
    here.wait(); // the server has sent its first bytes, and no content
    let mark_ns = now_ns();
    go.wait();
    let events = talk.join().unwrap();
    let done = done(&events, 1);
    assert!(
        done.started_ns < mark_ns && mark_ns < done.token_ns[0],
        "{done:?}"
    );
}

#[test]
fn a_piece_of_several_tokens_stamps_all_of_them() {
    let ids = [[4, 5, 6].as_slice(), &[7], &[8, 9]];
    let server = Server::start(move |body| {
        if body["max_tokens"] != 6 {
            return with_ids(body);
        }
        let between = Arc::new(Barrier::new(1));
        let mut steps = Vec::new();
        for ids in ids {
            steps.push(Step::Send(chunk("t", ids)));
            steps.push(Step::Wait(Arc::clone(&between)));
        }
        stream(steps, 4, 6)
    });
    let events = Adapter::new(&server, 1).talk(&[generate(1, &PROMPT, 6)]);
    let done = done(&events, 1);
    assert_eq!(done.output_ids, [4, 5, 6, 7, 8, 9]);
    let at = &done.token_ns;
    assert!(at.is_sorted() && at[0] == at[2] && at[4] == at[5], "{at:?}");
}

#[test]
fn as_many_are_in_flight_as_may_be_over_no_more_connections() {
    let together = Arc::new(Barrier::new(4));
    let server = Server::start(move |body| {
        if body["max_tokens"] == 3 {
            together.wait(); // passes only if four are here at a time
        }
        with_ids(body)
    });
    let requests: Vec<String> = (1..=20).map(|id| generate(id, &PROMPT, 3)).collect();
    let events = Adapter::new(&server, 4).talk(&requests);
    for id in 1..=20 {
        let batch = done(&events, id).batch;
        assert_eq!(batch, 4, "request {id}");
    }
    assert!(
        server.connections() <= 4,
        "{} connections",
        server.connections()
    );
}

#[test]
fn its_user_may_allow_fewer_in_flight() {
    let server = Server::start(with_ids);
    let requests: Vec<String> = (1..=6).map(|id| generate(id, &PROMPT, 3)).collect();
    let adapter = Adapter::new(&server, 4).with("BENCH_OPENAI_CONNECTIONS", "1");
    let events = adapter.talk(&requests);
    assert_eq!(hello(&events).capabilities.batching, Batching::None);
    for id in 1..=6 {
        assert_eq!(done(&events, id).batch, 1, "request {id}");
    }
    assert_eq!(server.connections(), 1);
}

#[test]
fn chat_is_sent_as_a_message_and_says_that_it_cannot_be_compared() {
    let server = Server::start(|body| {
        assert_eq!(body["messages"][0]["role"], "user");
        let delta = json!({ "choices": [{ "delta": { "content": "hi" } }] });
        let count = body["max_tokens"].as_u64().unwrap();
        let chunks = (0..count).map(|_| delta.to_string()).collect();
        tokens(chunks, 99, count)
    });
    let adapter = Adapter::new(&server, 1).with("BENCH_OPENAI_ROUTE", "chat");
    let events = adapter.talk(&[generate(1, &PROMPT, 2)]);
    let notes = hello(&events).capabilities.notes.join("; ");
    assert!(notes.contains("can't pass the gate"), "{notes}");
    assert_eq!(done(&events, 1).output_text.as_deref(), Some("hihi"));
}
