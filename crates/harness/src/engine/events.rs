//! Reads a program's events, and turns everything that can be wrong with them into one
//! [`EngineFailure`].

use super::EngineFailure;
use super::process::Process;
use super::unread::Output;
use protocol::wire::{Done, Failure, FailureKind, Scored};
use schema::record::Status;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::time::{Duration, Instant};

/// Read one event and when it was read (ns); a missed deadline is a failure.
pub(crate) fn next_event<E: DeserializeOwned>(
    process: &mut Process,
    deadline: Instant,
    doing: &str,
) -> Result<(E, u64), EngineFailure> {
    let began = Instant::now();
    event_before(process, deadline, doing)?.ok_or_else(|| {
        let waited_s = began.elapsed().as_secs();
        EngineFailure::new(
            Status::Timeout,
            format!("nothing came for {waited_s} s while {doing}"),
        )
    })
}

/// Read one event and when it was read (ns); `None` at the deadline. Waits in short steps so that
/// an interrupt is noticed.
pub(super) fn event_before<E: DeserializeOwned>(
    process: &mut Process,
    deadline: Instant,
    doing: &str,
) -> Result<Option<(E, u64)>, EngineFailure> {
    let mut is_gone = false;
    loop {
        if let Some(why) = process.control.given_up() {
            return Err(EngineFailure::given_up(why));
        }
        let soon = Instant::now() + Duration::from_millis(200);
        // Once the process has ended its pipe closes, so the last read may ignore the deadline.
        let step = if is_gone { soon } else { deadline.min(soon) };
        match process.read(step) {
            Some(Output::Line { read_ns, bytes }) => {
                tracing::trace!(pid = process.pid(), line = %excerpt(&bytes), "answered");
                return match serde_json::from_slice(&bytes) {
                    Ok(event) => Ok(Some((event, read_ns))),
                    Err(error) => Err(EngineFailure::protocol(format!(
                        "wrote a line that is no event: {:?} ({error})",
                        excerpt(&bytes)
                    ))),
                };
            }
            Some(Output::TooLong) => {
                return Err(EngineFailure::protocol("wrote a line of more than 16 MiB"));
            }
            Some(Output::End) => return Err(ended(process, doing)),
            None if is_gone => return Err(ended(process, doing)),
            None => {
                // The process's last line may still be in the pipe: read once more.
                is_gone = process.has_ended();
                if !is_gone && Instant::now() >= deadline {
                    return Ok(None);
                }
            }
        }
    }
}

fn ended(process: &mut Process, doing: &str) -> EngineFailure {
    let status = process.finish(Duration::from_secs(5));
    process.died(&format!("while {doing}"), status)
}

pub(super) fn check_done(done: &Done, new_tokens: u32) -> Result<(), EngineFailure> {
    let expected = new_tokens as usize;
    let (id, tokens, stamps) = (done.id, done.output_ids.len(), done.token_ns.len());
    let text_alone = tokens == 0 && done.output_text.is_some();
    if (text_alone || tokens == expected) && stamps == expected {
        return Ok(());
    }
    Err(EngineFailure::protocol(format!(
        "answered request {id} with {tokens} tokens and {stamps} stamps where {expected} were asked for"
    )))
}

/// The answer that a `score` request must get.
pub(super) struct Asked {
    /// For each position, how many ids it asked for.
    pub(super) positions: Vec<usize>,
    /// How many of the most likely ids it asked for at each position.
    pub(super) top: usize,
}

pub(super) fn check_scored(scored: &Scored, asked: &Asked) -> Result<(), EngineFailure> {
    let positions = asked.positions.len();
    let top_ok = asked.top == 0
        || scored.top_ids.len() == positions
            && scored.top_ids.iter().all(|ids| ids.len() == asked.top)
            && scored.top_logprobs.len() == positions
            && scored.top_logprobs.iter().all(|of| of.len() == asked.top);
    let lengths = scored.logprobs.iter().map(Vec::len);
    if top_ok && scored.argmax.len() == positions && lengths.eq(asked.positions.iter().copied()) {
        return Ok(());
    }
    Err(EngineFailure::protocol(format!(
        "`scored` {} does not answer the {positions} positions it was asked for",
        scored.id
    )))
}

pub(super) fn not_in_flight(id: u64) -> EngineFailure {
    EngineFailure::protocol(format!(
        "answered id {id}, which is not in flight (unknown, or answered before)"
    ))
}

pub(super) fn refusal(failure: Failure) -> EngineFailure {
    EngineFailure::new(status_of(failure.kind), failure.message)
}

/// The status in a record of a failure that the program itself reported.
pub(crate) fn status_of(kind: FailureKind) -> Status {
    match kind {
        FailureKind::Oom => Status::Oom,
        FailureKind::Unsupported => Status::Unsupported,
        FailureKind::Unavailable => Status::Unavailable,
        FailureKind::BadRequest => Status::ProtocolError,
        FailureKind::Internal => Status::Crashed,
    }
}

pub(crate) fn unexpected(wanted: &str, event: &impl Serialize) -> EngineFailure {
    let text = serde_json::to_string(event).unwrap_or_default();
    let said = excerpt(text.as_bytes());
    EngineFailure::protocol(format!("{wanted} was due, but it said {said:?}"))
}

fn excerpt(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(120)]);
    text.into_owned()
}
