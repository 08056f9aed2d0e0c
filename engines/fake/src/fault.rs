//! The kinds of failure, by the name of the variant that asks for each. Each fault is implemented
//! where it occurs: in `engine` or, for faults of the stream, here.
//!
//! Faults of the stream can't be made by an engine behind the runtime. Instead the runtime's
//! output passes through [`Spoiler`], which corrupts the answers to `generate`. It deliberately
//! leaves every other event alone, so that such a target passes the gate and fails only where it
//! is timed.

use protocol::wire::{Done, Event};
use protocol::witness::{self, Witness};
use std::io;
use std::io::Write;
use std::sync::OnceLock;
use std::time::Duration;

/// Defines the faults, each with the variant that asks for it.
macro_rules! faults {
    ($($(#[$doc:meta])* $fault:ident = $variant:literal,)*) => {
        /// A kind of failure.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Fault {
            $($(#[$doc])* $fault,)*
        }

        /// Every variant's name, with its fault.
        const NAMES: &[(&str, Fault)] = &[("", Fault::None), $(($variant, Fault::$fault)),*];
    };
}

faults! {
    /// No fault. The variant `""` means the same.
    None = "ok",
    /// No fault, but everything takes 10 % longer.
    Slow = "slow",
    /// A prompt that was asked before takes no prefill time, although no cache was asked for.
    Caches = "caches",
    /// Declares no prefix cache, and keeps nothing.
    Forgets = "forgets",
    /// Wrong tokens, with matching logits.
    Wrong = "wrong",
    /// Wrong tokens after prompts of 4·n tokens.
    WrongAfter4n = "wrong_after_4n",
    /// Wrong tokens after prompts of 64·n + 37 tokens.
    WrongAfter37 = "wrong_after_37",
    /// Wrong tokens after prompts of which more than one token was kept from the previous one.
    WrongReuse = "wrong_reuse",
    /// Wrong tokens beyond 1 200 positions.
    WrongFar = "wrong_far",
    /// `unsupported` for prompts beyond 1 200 positions.
    Short = "short",
    /// `abort` while loading.
    CrashLoad = "crash_load",
    /// `abort` in a prefill.
    CrashPrefill = "crash_prefill",
    /// `abort` while decoding.
    Crash = "crash",
    /// `abort` once everything is answered and it was told to exit.
    CrashExit = "crash_exit",
    /// SIGKILL while decoding, as from the kernel when memory runs out.
    OomKill = "oom_kill",
    /// An illegal instruction while decoding, unless `FAKE_MAX_ISA` is set.
    Sigill = "sigill",
    /// An illegal instruction while decoding, whatever is set.
    SigillAlways = "sigill_always",
    /// Exits while decoding, leaving a child process that holds its standard error open.
    Orphan = "orphan",
    /// Exit status 3 while decoding.
    Exit = "exit",
    /// Never answers, from a decode step on.
    Hang = "hang",
    /// Never finishes loading.
    HangLoad = "hang_load",
    /// Answers one byte at a time, and never ends the line.
    Drip = "drip",
    /// Out of memory in a batch; the process goes on.
    Oom = "oom",
    /// Out of memory while loading.
    OomLoad = "oom_load",
    /// `unsupported` while loading.
    Unsupported = "unsupported",
    /// `unavailable` while loading.
    Unavailable = "unavailable",
    /// Writes a line that is not JSON before each answer.
    Garbage = "garbage",
    /// Writes a line that is not UTF-8 before each answer.
    Binary = "binary",
    /// Writes a line of 64 MiB before the first answer.
    HugeLine = "huge_line",
    /// Answers with an id that no request has.
    WrongId = "wrong_id",
    /// Writes every answer twice.
    Duplicate = "duplicate",
    /// Leaves out the last token of an answer.
    TooFew = "too_few",
    /// Stamps the last token earlier than the first.
    Backwards = "backwards",
    /// Its clock runs at half speed: latencies look twice as good as they are.
    Liar = "liar",
    /// All tokens except the last are stamped a microsecond apart, from the beginning of the work
    /// on.
    StampsEarly = "stamps_early",
    /// All tokens are stamped at equal distances, so that the first seems to come early.
    StampsSpread = "stamps_spread",
    /// Tokens are stamped correctly but committed late: all of them when the answer is written.
    HeldBack = "held_back",
    /// Writes its answer again and again without end.
    Flood = "flood",
    /// Writes a mebibyte to standard error per batch, to fill a pipe that isn't drained.
    FloodStderr = "flood_stderr",
}

/// The process's fault, set once when the load request names it.
static CHOSEN: OnceLock<Fault> = OnceLock::new();

/// The handle with which tokens are committed late.
static HELD: OnceLock<Witness> = OnceLock::new();

impl Fault {
    /// Return the fault that a variant asks for; `None` if there is no such variant.
    pub fn from_variant(variant: &str) -> Option<Self> {
        NAMES
            .iter()
            .find(|(name, _)| *name == variant)
            .map(|(_, fault)| *fault)
    }

    /// Return all variants, for a message.
    pub fn variants() -> String {
        let names: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
        names.join(" ")
    }

    /// Make this the process's fault, so that the output stream applies it.
    pub fn choose(self) {
        // It can't be set twice, because `load` comes once.
        let _ = CHOSEN.set(self);
        if self == Fault::HeldBack {
            take_witness();
        }
    }

    /// Return the process's fault.
    pub fn chosen() -> Self {
        CHOSEN.get().copied().unwrap_or(Fault::None)
    }
}

/// Take the shared memory for commits away from the runtime, which looks for it after `hello`.
fn take_witness() {
    if let Ok(witness) = Witness::from_env() {
        let _ = HELD.set(witness);
    }
    // SAFETY: no thread but the runtime's watchdog on the output runs yet, and that one never
    // reads the environment.
    unsafe { std::env::remove_var(witness::VARIABLE) };
}

/// Length of a line that the harness must survive without keeping it.
const HUGE_LINE_BYTES: usize = 64 << 20;

/// Time between two bytes of an answer that never ends.
const DRIP: Duration = Duration::from_millis(20);

/// A writer that corrupts the stream.
pub struct Spoiler<W> {
    inner: W,
    answers: u64,
}

impl<W: Write> Spoiler<W> {
    /// Wrap the real stream.
    pub fn new(inner: W) -> Self {
        Self { inner, answers: 0 }
    }

    fn spoil(&mut self, fault: Fault, done: Done) -> io::Result<()> {
        self.answers += 1;
        match fault {
            Fault::Garbage => self.inner.write_all(b"Loading weights: 100%\n")?,
            Fault::Binary => self.inner.write_all(b"\x00\xff\xfe{\x80\n")?,
            Fault::HugeLine if self.answers == 1 => {
                self.inner.write_all(&vec![b'x'; HUGE_LINE_BYTES])?;
                self.inner.write_all(b"\n")?;
            }
            Fault::Duplicate => self.answer(done.clone())?,
            Fault::HeldBack => {
                let witness = HELD.get().cloned().unwrap_or_default();
                for (index, &id) in done.output_ids.iter().enumerate() {
                    witness.commit(done.id, index, id);
                }
            }
            Fault::Flood => loop {
                self.answer(done.clone())?;
            },
            Fault::Drip => loop {
                self.inner.write_all(b" ")?;
                self.inner.flush()?;
                std::thread::sleep(DRIP);
            },
            _ => {}
        }
        self.answer(bend(fault, done))
    }

    fn answer(&mut self, done: Done) -> io::Result<()> {
        let mut line = serde_json::to_vec(&Event::Done(done))?;
        line.push(b'\n');
        self.inner.write_all(&line)
    }
}

/// Return `done`, changed as the fault demands.
fn bend(fault: Fault, mut done: Done) -> Done {
    match fault {
        Fault::WrongId => done.id += 1_000_000,
        Fault::TooFew => {
            done.token_ns.pop();
            done.output_ids.pop();
        }
        Fault::Backwards => {
            let early_ns = done.started_ns;
            if let Some(last) = done.token_ns.last_mut() {
                *last = early_ns;
            }
            if let [first, ..] = done.token_ns.as_mut_slice() {
                *first += 1;
            }
        }
        Fault::Liar => {
            let received_ns = done.received_ns;
            let halve = |ns: &mut u64| *ns = received_ns + (*ns - received_ns) / 2;
            halve(&mut done.started_ns);
            done.token_ns.iter_mut().for_each(halve);
        }
        Fault::StampsEarly => {
            let behind_last = done.token_ns.len().saturating_sub(1);
            for (token, ns) in (1..).zip(&mut done.token_ns[..behind_last]) {
                *ns = (done.started_ns + 1000 * token).min(*ns);
            }
        }
        Fault::StampsSpread => {
            let count = done.token_ns.len() as u64;
            let last_ns = done.token_ns.last().copied().unwrap_or_default();
            for (token, ns) in (1..).zip(&mut done.token_ns) {
                *ns = done.started_ns + (last_ns - done.started_ns) * token / count;
            }
        }
        _ => {}
    }
    done
}

impl<W: Write> Write for Spoiler<W> {
    fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        let fault = Fault::chosen();
        if fault == Fault::None {
            // Written unchanged in one call, like any engine's, because this variant calibrates
            // the harness.
            self.inner.write_all(lines)?;
            return Ok(lines.len());
        }
        for line in lines.split_inclusive(|&byte| byte == b'\n') {
            match serde_json::from_slice(line) {
                Ok(Event::Done(done)) => self.spoil(fault, done)?,
                _ => self.inner.write_all(line)?,
            }
        }
        Ok(lines.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done() -> Done {
        Done {
            id: 1,
            received_ns: 100,
            started_ns: 110,
            token_ns: vec![200, 300, 400],
            output_text: None,
            output_ids: vec![1, 2, 3],
            batch: 1,
        }
    }

    #[test]
    fn each_fault_bends_what_its_name_says() {
        assert_eq!(bend(Fault::None, done()), done());
        assert_ne!(bend(Fault::WrongId, done()).id, 1);
        let few = bend(Fault::TooFew, done());
        assert_eq!((few.token_ns.len(), few.output_ids.len()), (2, 2));
        assert!(!bend(Fault::Backwards, done()).token_ns.is_sorted());
        let liar = bend(Fault::Liar, done());
        assert_eq!((liar.started_ns, liar.token_ns), (105, vec![150, 200, 250]));
        let mut slow = done();
        slow.token_ns = vec![50_110, 60_110, 70_110];
        let early = bend(Fault::StampsEarly, slow.clone());
        assert_eq!(early.token_ns, [1_110, 2_110, 70_110]);
        slow.token_ns = vec![60_110, 60_110, 60_110];
        let spread = bend(Fault::StampsSpread, slow);
        assert_eq!(spread.token_ns, [20_110, 40_110, 60_110]);
    }
}
