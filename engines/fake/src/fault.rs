//! The kinds of failure, by the name of the variant that asks for each. What
//! each one does stands where it strikes: in `engine` or, for faults of the
//! stream, in `spoil`.

use std::sync::OnceLock;

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing. Variants `""` and `ok`.
    None,
    /// Nothing but time: everything takes 10 % longer.
    Slow,
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
    /// Answers bear an id that nobody asked for.
    WrongId,
    /// Every answer twice.
    Duplicate,
    /// The last token is missing.
    TooFew,
    /// The last token is earlier than the first.
    Backwards,
    /// A clock at half speed: latencies look twice as good as they are.
    Liar,
    /// Answers, and never stops answering.
    Flood,
    /// A mebibyte of standard error per batch, to fill a pipe that nobody drains.
    FloodStderr,
}

/// Every fault and its variant.
const NAMES: [(&str, Fault); 36] = [
    ("", Fault::None),
    ("ok", Fault::None),
    ("slow", Fault::Slow),
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
    ("flood", Fault::Flood),
    ("flood_stderr", Fault::FloodStderr),
];

/// Chosen once, when the load request names it.
static CHOSEN: OnceLock<Fault> = OnceLock::new();

impl Fault {
    /// The fault that a variant asks for.
    pub fn of(variant: &str) -> Option<Self> {
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
    }

    /// The process's fault.
    pub fn chosen() -> Self {
        CHOSEN.get().copied().unwrap_or(Fault::None)
    }
}
