//! Requests as they arrive: lines off standard input, each with the time at
//! which it was read. A thread of its own reads, because a request that arrives
//! during a batch must be stamped then and not when the batch is over. It
//! deliberately does not judge a request; the queue does.
//!
//! Which requests make sense for what was loaded. It deliberately knows nothing
//! of the engine: what that cannot do, it says itself.

use crate::clock::now_ns;
use crate::wire::{Generate, Request, Score};
use serde_json::Value;
use std::fs::File;
use std::io;
use std::io::{BufRead, BufReader, Read};
use std::mem::ManuallyDrop;
use std::os::fd::FromRawFd;
use std::sync::mpsc::{Receiver, Sender, channel};

/// Standard input without the standard library's own buffer, whose reads we
/// could not stamp.
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

/// What the inbox delivers. The end of input, and `exit`, close it.
#[derive(Debug)]
pub enum Inbound {
    /// A request, and when its line was read.
    Request(u64, Request),
    /// A line that is no request, and why.
    Malformed(String),
}

/// The first thing on standard input tells a harness from a person.
#[derive(Debug)]
pub enum First {
    /// A request of the protocol. Nothing that comes first is timed, so it bears
    /// no time.
    Request(Request),
    /// A JSON object without `op`, possibly over several lines.
    ByHand(Value),
    /// Neither.
    Malformed(String),
    /// Nothing (more) to read.
    End,
}

/// Lines, each stamped with the time of the read that completed it.
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
        // Here and not after parsing: lines that arrive in one read were all
        // received now, however long the first of them takes to parse.
        self.read_ns = now_ns();
        count
    }
}

impl<R: Read + Send + 'static> Lines<R> {
    /// Lines of `input`.
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

    /// The next line that is not blank, without its end; `None` at the end.
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

    /// The first message. An object may go on over several lines; whether it is
    /// complete is the JSON parser's to say.
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

    /// Read on in a thread; the channel closes at the end of input.
    pub fn into_inbox(self) -> Receiver<Inbound> {
        let (sender, inbox) = channel();
        self.forward(sender, |message| message);
        inbox
    }

    /// Read on in a thread, into a channel that others write to as well: each
    /// message as `wrap` makes it. The sender is dropped at the end of input.
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

/// The answer to a second `load`.
pub const LOADED_ALREADY: &str = "a model is loaded already; start another process";

/// What was loaded for.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// [`crate::wire::Load::max_context`].
    pub max_context: u32,
}

impl Bounds {
    /// Whether a generation fits; otherwise why not.
    pub fn generate(&self, generate: &Generate) -> Result<(), String> {
        let total = generate.prompt_ids.len() + generate.new_tokens as usize;
        if generate.prompt_ids.is_empty() {
            Err("the prompt is empty".to_string())
        } else if generate.new_tokens == 0 {
            Err("new_tokens is 0".to_string())
        } else {
            self.length(total)
        }
    }

    /// Whether a score fits; otherwise why not.
    pub fn score(&self, score: &Score) -> Result<(), String> {
        let (n, k) = (score.ids.len(), score.ask.len());
        if k == 0 || k > n {
            return Err(format!("{k} positions asked for, {n} ids given"));
        }
        self.length(n)
    }

    fn length(&self, tokens: usize) -> Result<(), String> {
        if tokens <= self.max_context as usize {
            return Ok(());
        }
        Err(format!(
            "{tokens} tokens are more than the max_context of {}",
            self.max_context
        ))
    }
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
