//! This module reads requests: lines from standard input, each with the time at which it was read.
//! A separate thread reads, because a request that arrives during a batch must be stamped then and
//! not when the batch is over. It deliberately does not judge a request; the queue does.
//!
//! It also checks whether requests fit what was loaded. It deliberately knows nothing
//! of the engine, which reports itself what it cannot do.

use crate::clock::now_ns;
use crate::wire::{Generate, Request, Score};
use serde_json::Value;
use std::fs::File;
use std::io;
use std::io::{BufRead, BufReader, Read};
use std::mem::ManuallyDrop;
use std::os::fd::FromRawFd;
use std::sync::mpsc::{Receiver, Sender, channel};

/// Open standard input without the standard library's own buffer, whose reads could not be
/// stamped.
pub fn stdin() -> impl Read + Send + 'static {
    struct Stdin(ManuallyDrop<File>);
    impl Read for Stdin {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            self.0.read(buf)
        }
    }
    // SAFETY: descriptor 0 lives as long as the process and is never closed by us.
    Stdin(ManuallyDrop::new(unsafe { File::from_raw_fd(0) }))
}

/// A message from the inbox. The end of input, and `exit`, close the inbox.
#[derive(Debug)]
pub enum Inbound {
    /// A request, with the time when its line was read (ns).
    Request(u64, Request),
    /// A line that is not a request, with the reason.
    Malformed(String),
}

/// The first message on standard input, which shows whether a harness or a person sent it.
#[derive(Debug)]
pub enum First {
    /// A request of the protocol. It has no time stamp, because no first request is timed.
    Request(Request),
    /// A request made by hand: a JSON object without `op`, possibly over several lines.
    ByHand(Value),
    /// A line that is neither, with the reason.
    Malformed(String),
    /// The end of input.
    End,
}

/// A reader of lines, each stamped with the time of the read that completed it.
pub struct Lines<R> {
    reader: BufReader<Stamped<R>>,
}

struct Stamped<R> {
    inner: R,
    read_ns: u64,
}

impl<R: Read> Read for Stamped<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buf);
        // Stamped here and not after parsing: lines that arrive in one read were all received now,
        // however long the first of them takes to parse.
        self.read_ns = now_ns();
        count
    }
}

impl<R: Read + Send + 'static> Lines<R> {
    /// Create a reader of the lines of `input`.
    pub fn new(input: R) -> Self {
        // Larger than any usual burst, so that a burst takes one system call.
        Self {
            reader: BufReader::with_capacity(
                1 << 20,
                Stamped {
                    inner: input,
                    read_ns: 0,
                },
            ),
        }
    }

    /// Return the next line that is not blank, and when it was read; `None` at the end of input.
    fn next(&mut self) -> Option<(u64, Vec<u8>)> {
        loop {
            let mut line = Vec::new();
            match self.reader.read_until(b'\n', &mut line) {
                Ok(0) => return None,
                Ok(_) if line.trim_ascii().is_empty() => continue,
                Ok(_) => return Some((self.reader.get_ref().read_ns, line)),
                Err(err) => {
                    eprintln!("cannot read standard input: {err}");
                    return None;
                }
            }
        }
    }

    /// Read the first message. An object may span several lines; the JSON parser decides whether
    /// it is complete.
    pub fn first(&mut self) -> First {
        let Some((received_ns, mut text)) = self.next() else {
            return First::End;
        };
        loop {
            match serde_json::from_slice::<Value>(&text) {
                Ok(value) if value.is_object() && value.get("op").is_none() => {
                    return First::ByHand(value);
                }
                Err(err) if err.is_eof() && text.trim_ascii_start().starts_with(b"{") => {
                    match self.next() {
                        Some((_, more)) => text.extend(more),
                        None => return First::Malformed(complaint(&text, &err)),
                    }
                }
                _ => match parse(received_ns, &text) {
                    Inbound::Request(_, request) => return First::Request(request),
                    Inbound::Malformed(message) => return First::Malformed(message),
                },
            }
        }
    }

    /// Read the rest in a thread and return its channel, which closes at the end of input.
    pub fn into_inbox(self) -> Receiver<Inbound> {
        let (sender, inbox) = channel();
        self.forward(sender, |message| message);
        inbox
    }

    /// Read the rest in a thread, and send each message, converted by `wrap`, into a channel that
    /// others write to as well. The sender is dropped at the end of input.
    pub fn forward<T: Send + 'static>(
        mut self,
        sender: Sender<T>,
        wrap: impl Fn(Inbound) -> T + Send + 'static,
    ) {
        std::thread::spawn(move || {
            while let Some((received_ns, line)) = self.next() {
                let message = parse(received_ns, &line);
                let exit = matches!(message, Inbound::Request(_, Request::Exit));
                if exit || sender.send(wrap(message)).is_err() {
                    return;
                }
            }
        });
    }
}

fn parse(received_ns: u64, line: &[u8]) -> Inbound {
    match serde_json::from_slice(line) {
        Ok(request) => Inbound::Request(received_ns, request),
        Err(err) => Inbound::Malformed(complaint(line, &err)),
    }
}

fn complaint(line: &[u8], err: &serde_json::Error) -> String {
    let start: String = String::from_utf8_lossy(line)
        .trim()
        .chars()
        .take(80)
        .collect();
    format!("not a request: {err}; the line begins with {start:?}")
}

/// The error message for a second `load`.
pub const LOADED_ALREADY: &str = "a model is loaded already; start another process";

/// Check that a generation fits in `max_context` tokens; the error is the reason why it doesn't.
pub fn check_generate(generate: &Generate, max_context: u32) -> Result<(), String> {
    let total = generate.prompt_ids.len() + generate.new_tokens as usize;
    if generate.prompt_ids.is_empty() {
        Err("the prompt is empty".to_string())
    } else if generate.new_tokens == 0 {
        Err("new_tokens is 0".to_string())
    } else {
        check_length(total, max_context)
    }
}

/// Check that a score fits in `max_context` tokens; the error is the reason why it doesn't.
pub fn check_score(score: &Score, max_context: u32) -> Result<(), String> {
    let (n, k) = (score.ids.len(), score.ask.len());
    if k == 0 || k > n {
        return Err(format!("{k} positions asked for, {n} ids given"));
    }
    check_length(n, max_context)
}

fn check_length(tokens: usize, max_context: u32) -> Result<(), String> {
    if tokens <= max_context as usize {
        return Ok(());
    }
    Err(format!(
        "{tokens} tokens are more than the max_context of {max_context}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(text: &'static str) -> First {
        Lines::new(text.as_bytes()).first()
    }

    #[test]
    fn an_object_without_op_is_a_person() {
        assert!(matches!(first("{\"prompt\":\"a\"}\n"), First::ByHand(_)));
        assert!(matches!(
            first("\n{\n \"prompt\":\n\"a\"}"),
            First::ByHand(_)
        ));
    }

    #[test]
    fn the_protocol_and_nonsense_are_told_apart() {
        assert!(matches!(
            first("{\"op\":\"exit\"}"),
            First::Request(Request::Exit)
        ));
        assert!(matches!(first("{\"op\":\"dance\"}\n"), First::Malformed(_)));
        assert!(matches!(first("hello\n"), First::Malformed(_)));
        assert!(matches!(first("{\"prompt\":\n"), First::Malformed(_)));
        assert!(matches!(first("  \n"), First::End));
    }

    #[test]
    fn the_inbox_survives_nonsense_and_closes_on_exit() {
        let text =
            b"\xff\xfe\n{\"op\":\"generate\",\"id\":1,\"prompt_ids\":[1],\"new_tokens\":1}\n\
            {\"op\":\"exit\"}\nnever read\n";
        let inbox = Lines::new(&text[..]).into_inbox();
        assert!(matches!(inbox.recv().unwrap(), Inbound::Malformed(_)));
        let Inbound::Request(received_ns, Request::Generate(request)) = inbox.recv().unwrap()
        else {
            panic!("expected the generate request");
        };
        assert!(received_ns > 0 && request.id == 1);
        assert!(inbox.recv().is_err());
    }
}
