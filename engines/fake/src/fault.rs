//! The kinds of failure, by the name of the variant that asks for each. What
//! each one does stands where it strikes: in `engine` or, for faults of the
//! stream, here.
//!
//! Faults of the stream, which no engine behind the runtime can have: the
//! runtime's lines pass through here, and answers to `generate` come out spoilt.
//! It deliberately leaves every other event alone, so that such a target passes
//! the gate and is caught where it is timed.

use protocol::wire::{Done, Event};
use protocol::witness::{self, Witness};
use std::io;
use std::io::Write;
use std::sync::OnceLock;
use std::time::Duration;

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing. Variants `""` and `ok`.
    None,
    /// Nothing but time: everything takes 10 % longer.
    Slow,
    /// A prompt that was asked before costs nothing for its length, though nobody asks for a cache.
    Caches,
    /// Declares no prefix cache, and keeps nothing.
    Forgets,
    /// Wrong tokens, and logits to match.
    Wrong,
    /// The same, after prompts of 4·n tokens.
    WrongAfter4n,
    /// The same, after prompts of 64·n + 37 tokens.
    WrongAfter37,
    /// The same, after prompts of which more than a token was kept of the one before.
    WrongReuse,
    /// The same, beyond 1 200 positions.
    WrongFar,
    /// `unsupported` beyond 1 200 positions.
    Short,
    /// `abort` while loading.
    CrashLoad,
    /// `abort` in a prefill.
    CrashPrefill,
    /// `abort` while decoding.
    Crash,
    /// `abort` once everything is answered and it is told to exit.
    CrashExit,
    /// What the kernel does to it when memory runs out: SIGKILL, while decoding.
    OomKill,
    /// An illegal instruction while decoding, unless `FAKE_MAX_ISA` is set.
    Sigill,
    /// The same whatever is set.
    SigillAlways,
    /// A child of its own outlives it and holds its standard error open.
    Orphan,
    /// Exit status 3 while decoding.
    Exit,
    /// Never answers.
    Hang,
    /// Never loads.
    HangLoad,
    /// Answers a byte at a time, and never comes to the end of the line.
    Drip,
    /// Out of memory in a batch; the process lives on.
    Oom,
    /// Out of memory while loading.
    OomLoad,
    /// Load answers `unsupported`.
    Unsupported,
    /// Load answers `unavailable`.
    Unavailable,
    /// A line that is not JSON, before each answer.
    Garbage,
    /// A line that is not UTF-8, before each answer.
    Binary,
    /// A line of 64 MiB, before the first answer.
    HugeLine,
    /// Answers have an id that no request has.
    WrongId,
    /// Every answer twice.
    Duplicate,
    /// The last token is missing.
    TooFew,
    /// The last token is earlier than the first.
    Backwards,
    /// A clock at half speed: latencies look twice as good as they are.
    Liar,
    /// All tokens but the last are stamped a microsecond apart, as soon as work begins.
    StampsEarly,
    /// All tokens are stamped at equal distances, so that the first seems to come soon.
    StampsSpread,
    /// Tokens are stamped truly and committed late: all of them as the answer is written.
    HeldBack,
    /// Answers, and never stops answering.
    Flood,
    /// A mebibyte of standard error per batch, to fill a pipe that isn't drained.
    FloodStderr,
}

/// Every fault and its variant.
const NAMES: [(&str, Fault); 40] = [
    ("", Fault::None),
    ("ok", Fault::None),
    ("slow", Fault::Slow),
    ("caches", Fault::Caches),
    ("forgets", Fault::Forgets),
    ("wrong", Fault::Wrong),
    ("wrong_after_4n", Fault::WrongAfter4n),
    ("wrong_after_37", Fault::WrongAfter37),
    ("wrong_reuse", Fault::WrongReuse),
    ("wrong_far", Fault::WrongFar),
    ("short", Fault::Short),
    ("crash_load", Fault::CrashLoad),
    ("crash_prefill", Fault::CrashPrefill),
    ("crash", Fault::Crash),
    ("crash_exit", Fault::CrashExit),
    ("oom_kill", Fault::OomKill),
    ("sigill", Fault::Sigill),
    ("sigill_always", Fault::SigillAlways),
    ("orphan", Fault::Orphan),
    ("exit", Fault::Exit),
    ("hang", Fault::Hang),
    ("hang_load", Fault::HangLoad),
    ("drip", Fault::Drip),
    ("oom", Fault::Oom),
    ("oom_load", Fault::OomLoad),
    ("unsupported", Fault::Unsupported),
    ("unavailable", Fault::Unavailable),
    ("garbage", Fault::Garbage),
    ("binary", Fault::Binary),
    ("huge_line", Fault::HugeLine),
    ("wrong_id", Fault::WrongId),
    ("duplicate", Fault::Duplicate),
    ("too_few", Fault::TooFew),
    ("backwards", Fault::Backwards),
    ("liar", Fault::Liar),
    ("stamps_early", Fault::StampsEarly),
    ("stamps_spread", Fault::StampsSpread),
    ("held_back", Fault::HeldBack),
    ("flood", Fault::Flood),
    ("flood_stderr", Fault::FloodStderr),
];

/// Chosen once, when the load request names it.
static CHOSEN: OnceLock<Fault> = OnceLock::new();

/// Where tokens are committed that are held back.
static HELD: OnceLock<Witness> = OnceLock::new();

impl Fault {
    /// The fault that a variant asks for.
    pub fn from_variant(variant: &str) -> Option<Self> {
        NAMES
            .iter()
            .find(|(name, _)| *name == variant)
            .map(|(_, fault)| *fault)
    }

    /// All variants, for a message.
    pub fn variants() -> String {
        NAMES.map(|(name, _)| name).join(" ")
    }

    /// Make this the process's fault, for the stream to know.
    pub fn choose(self) {
        // A second choice cannot be: `load` comes once.
        let _ = CHOSEN.set(self);
        if self == Fault::HeldBack {
            take_witness();
        }
    }

    /// The process's fault.
    pub fn chosen() -> Self {
        CHOSEN.get().copied().unwrap_or(Fault::None)
    }
}

/// Keep the way to commit tokens from the runtime, which looks for it after `hello`.
fn take_witness() {
    if let Ok(witness) = Witness::from_env() {
        let _ = HELD.set(witness);
    }
    // SAFETY: no thread but the runtime's watchdog on the output runs yet, and that one never
    // reads the environment.
    unsafe { std::env::remove_var(witness::VARIABLE) };
}

/// The harness has to survive a line of this length without keeping it.
const HUGE_LINE_BYTES: usize = 64 << 20;

/// Between two bytes of an answer that never ends.
const DRIP: Duration = Duration::from_millis(20);

/// A writer that spoils.
pub struct Spoiler<W> {
    inner: W,
    answers: u64,
}

impl<W: Write> Spoiler<W> {
    /// Around the real stream.
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

/// `done` as the fault has it.
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
            // Untouched in one call, as any engine's: this one calibrates.
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
