//! Tests of a server's failures: each gives one error per request that says what it was, nothing
//! is retried, and the key is never shown.

use crate::adapter::{Adapter, done, failure, generate};
use crate::server::{Answer, Server, Step, chunk, stream, tokens};
use crate::{PROMPT, with_ids};
use protocol::wire::FailureKind;
use serde_json::Value;

/// Start a server that answers with `bad` if 7 tokens are asked for.
fn spoilt(bad: impl Fn(&Value) -> Answer + Send + Sync + 'static) -> Server {
    Server::start(move |body| {
        if body["max_tokens"] == 7 {
            bad(body)
        } else {
            with_ids(body)
        }
    })
}

/// Return the error of the spoilt request, which must contain `words`; the request after it must
/// be answered.
fn error_of(server: &Server, words: &[&str]) -> String {
    let requests = [generate(1, &PROMPT, 7), generate(2, &PROMPT, 2)];
    let events = Adapter::new(server, 1).talk(&requests);
    assert_eq!(done(&events, 2).output_ids, [4, 5]);
    let spoilt = |body: &&Value| body["max_tokens"] == 7;
    assert_eq!(
        server.requests().iter().filter(spoilt).count(),
        1,
        "it was repeated"
    );
    let failure = failure(&events, Some(1));
    assert_eq!(failure.kind, FailureKind::Internal);
    assert!(!failure.message.contains('\n'));
    for word in words {
        assert!(failure.message.contains(word), "{}", failure.message);
    }
    failure.message.clone()
}

#[test]
fn a_refusal_is_passed_on_with_its_status_its_wait_and_its_words() {
    let busy = spoilt(|_| Answer::Whole {
        status: 429,
        headers: vec![("Retry-After".into(), "7".into())],
        body: format!("{{\"error\":\"too\\nbusy {}\"}}", "x".repeat(500)),
    });
    let error = error_of(&busy, &["429", "Retry-After 7", "busy xxx"]);
    assert!(error.len() < 300, "{error}");
    let broken = spoilt(|_| Answer::error(500, "CUDA error"));
    error_of(&broken, &["500", "CUDA error"]);
}

#[test]
fn a_stream_that_breaks_off_is_an_error() {
    let pieces = || vec![Step::Send(chunk("a", &[4])), Step::Send(chunk("b", &[5]))];
    // One stream ends amid the body; the other ends properly, but without its last event.
    let cut = spoilt(move |_| Answer::Stream(pieces().into_iter().chain([Step::Cut]).collect()));
    error_of(&cut, &["cut off"]);
    let early = spoilt(move |_| Answer::Stream(pieces()));
    error_of(&early, &["without [DONE]", "2 pieces"]);
}

#[test]
fn a_wrong_count_names_both_counts() {
    let few = |count: u64, usage: u64| {
        let chunks = (0..count).map(|k| chunk("a", &[k])).collect();
        tokens(chunks, 4, usage)
    };
    let said_less = spoilt(move |_| few(7, 6));
    error_of(&said_less, &["server counts 6", "client 7"]);
    let came_less = spoilt(move |_| few(4, 7));
    error_of(&came_less, &["server counts 7", "client 4"]);
    let read_more = spoilt(|_| {
        let chunks = (0..7).map(|k| chunk("a", &[k])).collect();
        tokens(chunks, 5, 7)
    });
    let requests = [generate(1, &PROMPT, 7)];
    let events = Adapter::new(&read_more, 1).talk(&requests);
    let message = &failure(&events, Some(1)).message;
    assert!(message.contains("5 prompt tokens where 4"), "{message}");
}

#[test]
fn what_is_no_json_is_an_error() {
    let garbled = spoilt(|_| stream(vec![Step::Send("{\"choices\":[{".into())], 4, 7));
    error_of(&garbled, &["no JSON"]);
}

#[test]
fn the_key_is_in_the_header_and_nowhere_else() {
    const KEY: &str = "sk-very-secret-0123456789";
    let echo = |key: &str| Answer::Whole {
        status: 401,
        headers: vec![("Retry-After".into(), key.into())],
        body: format!("{{\"error\":\"bad header Authorization: Bearer {key}\"}}"),
    };
    // The key is refused while trying the server, and during its work.
    for spoilt_tokens in [1, 7] {
        let server = Server::start_with_key(KEY, move |body| {
            if body["max_tokens"] == spoilt_tokens {
                echo(KEY)
            } else {
                with_ids(body)
            }
        });
        let adapter = Adapter::new(&server, 1).with("OPENAI_API_KEY", KEY);
        let (said, events) = adapter.talk_aloud(&[generate(1, &PROMPT, 7)]);
        assert!(!said.contains(KEY), "{said}");
        let request = (spoilt_tokens == 7).then_some(1);
        let message = &failure(&events, request).message;
        assert!(
            message.contains("401") && message.contains("[key]"),
            "{message}"
        );
    }
}

#[test]
fn without_a_server_the_engine_is_unavailable_and_says_what_to_do() {
    let server = Server::start(with_ids);
    let unset = Adapter::new(&server, 1).with("OPENAI_BASE_URL", "");
    let closed = Adapter::new(&server, 1).with("OPENAI_BASE_URL", "http://127.0.0.1:1/v1");
    let lost =
        Adapter::new(&server, 1).with("OPENAI_BASE_URL", &server.url().replace("/v1", "/v2"));
    for (adapter, word) in [
        (unset, "OPENAI_BASE_URL is not set"),
        (closed, "is the server running"),
        (lost, "check OPENAI_BASE_URL"),
    ] {
        let events = adapter.talk(&[]);
        let failure = failure(&events, None);
        assert_eq!(failure.kind, FailureKind::Unavailable);
        assert!(failure.message.contains(word), "{}", failure.message);
    }
}
