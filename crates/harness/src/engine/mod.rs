//! Talks to an engine, which is a process at the other end of two pipes.
//!
//! `start` starts a program with a restricted environment, `process` owns its pipes and its end,
//! `unread` buffers its output, `life` opens and closes a program of any protocol, `session` speaks
//! the engines' protocol, `load` says what is to be loaded, `kv` checks the declared format of keys
//! and values, and `isa` limits the instructions of its libraries; `scripted` has engines for tests.
//! No module knows which engine it talks to.

pub(crate) mod events;
pub mod isa;
pub(crate) mod kv;
pub(crate) mod life;
pub mod load;
pub mod process;
#[cfg(test)]
pub(crate) mod scripted;
pub mod session;
pub mod start;
mod unread;

use protocol::clock::now_ns;
use schema::record::{End, Status};
use std::path::{Path, PathBuf};
use watch::control::GivenUp;

/// A program that speaks the protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The command line.
    pub argv: Vec<String>,
    /// The command line for a record: its paths are relative to the repository, because the
    /// checkout's directory is private and differs on every machine.
    pub argv_recorded: Vec<String>,
    /// Variables that it needs in addition to the user's, such as the path of its shared libraries.
    /// Not recorded: they are paths of this machine.
    pub env: Vec<(String, String)>,
    /// Variables of the user's that it sees in addition to those that every program sees: names, or
    /// the beginning of names before a `*`.
    pub passed: Vec<String>,
    /// Which instructions its library may use; `None` where no ladder applies.
    pub isa: Option<isa::Isa>,
    /// The files whose content is the program: the binary, or all of a script's modules.
    pub files: Vec<PathBuf>,
}

impl Program {
    /// A program of this repository, which builds into `build_dir`.
    pub fn new(argv: Vec<String>, files: Vec<PathBuf>, root: &Path, build_dir: &Path) -> Self {
        let relative = |word: &String| {
            let path = Path::new(word);
            let in_build = path
                .strip_prefix(build_dir)
                .map(|rest| Path::new("target").join(rest));
            match (in_build, path.strip_prefix(root)) {
                (Ok(path), _) => path.display().to_string(),
                (_, Ok(path)) => path.display().to_string(),
                _ => word.clone(),
            }
        };
        let argv_recorded = argv.iter().map(relative).collect();
        Self {
            argv,
            argv_recorded,
            env: Vec::new(),
            passed: Vec::new(),
            isa: None,
            files,
        }
    }

    /// The same program with variables set.
    pub fn with_env(mut self, env: Vec<(String, String)>) -> Self {
        self.env = env;
        self
    }

    /// The same program, which also sees these variables of the user's.
    pub fn with_passed(mut self, passed: Vec<String>) -> Self {
        self.passed = passed;
        self
    }

    /// All variables that it is started with in addition to the user's.
    pub fn variables(&self) -> impl Iterator<Item = (&str, &str)> {
        let limit = self.isa_limit().into_iter();
        let limit = limit.map(|limit| (limit.variable.as_str(), limit.value.as_str()));
        let env = self.env.iter();
        env.map(|(name, value)| (name.as_str(), value.as_str()))
            .chain(limit)
    }

    /// The hash that identifies the program in a record: SHA-256 of the contents of its files.
    pub fn sha256(&self) -> std::io::Result<String> {
        let mut hasher = schema::hash::Hasher::default();
        for file in &self.files {
            hasher.update(&std::fs::read(file)?);
        }
        Ok(hasher.hex())
    }
}

/// The maximum length of a reason, in characters.
const REASON_CHARS_MAX: usize = 1000;

/// Why an engine gave no answer: the status its record gets, and one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineFailure {
    /// The status for the record.
    pub status: Status,
    /// What failed, where and why, in one line.
    pub reason: String,
    /// The signal that killed the process, if one did.
    pub signal: Option<i32>,
    /// Why the request was given up, where nothing failed but the user asked for that.
    pub given_up: Option<GivenUp>,
    /// The last lines of the process's stderr; empty where it wasn't ended because of this.
    pub stderr_tail: String,
}

impl EngineFailure {
    /// Create a failure. The reason may be in the engine's words, so it is made one line without
    /// control characters for a terminal.
    pub fn new(status: Status, reason: impl Into<String>) -> Self {
        Self {
            status,
            reason: base::text::line(&reason.into(), REASON_CHARS_MAX),
            signal: None,
            given_up: None,
            stderr_tail: String::new(),
        }
    }

    /// The failure of an engine that doesn't keep to its protocol.
    pub(crate) fn protocol(reason: impl Into<String>) -> Self {
        Self::new(Status::ProtocolError, reason)
    }

    /// The same failure with the last lines of the process's stderr.
    pub(crate) fn with_stderr(mut self, stderr_tail: String) -> Self {
        self.stderr_tail = stderr_tail;
        self
    }

    /// The same failure, its reason prefixed with where it happened.
    pub(crate) fn at(mut self, place: &str) -> Self {
        self.reason = format!("{place}: {}", self.reason);
        self
    }

    /// The failure of work that was given up because the user asked for that.
    pub(crate) fn given_up(why: GivenUp) -> Self {
        Self {
            given_up: Some(why),
            ..Self::new(Status::NotRun, why.reason())
        }
    }

    /// Whether the user skipped this work.
    pub(crate) fn was_skipped(&self) -> bool {
        self.given_up == Some(GivenUp::Skipped)
    }

    /// Whether the processor refused an instruction.
    pub fn is_illegal_instruction(&self) -> bool {
        self.signal == Some(libc::SIGILL)
    }

    /// Whether it says nothing about the engine's answers: the user interrupted or skipped the
    /// work, or a lower limit of the instructions may avoid it.
    pub(crate) fn judges_nothing(&self) -> bool {
        self.status == Status::NotRun || self.is_illegal_instruction()
    }
}

impl std::fmt::Display for EngineFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.status.id(), self.reason)
    }
}

impl std::error::Error for EngineFailure {}

/// The last line of the record of a launch that ended now: with `failure`, or well.
pub(crate) fn end(failure: Option<EngineFailure>) -> End {
    let (status, reason, stderr_tail) = match failure {
        None => (Status::Ok, String::new(), String::new()),
        Some(failure) => (failure.status, failure.reason, failure.stderr_tail),
    };
    End {
        status,
        reason,
        stderr_tail,
        end_ns: now_ns(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_a_line_that_no_terminal_obeys() {
        let said = "\u{1b}[2Jout of\n  memory\u{7}";
        let failure = EngineFailure::new(Status::Oom, said);
        assert_eq!(failure.to_string(), "oom: out of memory");
        let flood = EngineFailure::new(Status::Oom, "x ".repeat(1 << 20));
        assert_eq!(flood.reason.chars().count(), REASON_CHARS_MAX);
    }

    #[test]
    fn a_record_says_nothing_of_where_the_checkout_lay() {
        let argv = [
            "/home/me/repo/target/venv/bin/python",
            "/home/me/repo/engines/x.py",
            "--fast",
        ];
        let argv = argv.map(str::to_owned).to_vec();
        let root = Path::new("/home/me/repo");
        let build_dir = Path::new("/home/me/repo/target");
        let program = Program::new(argv.clone(), vec![], root, build_dir);
        assert_eq!(
            program.argv_recorded,
            ["target/venv/bin/python", "engines/x.py", "--fast"]
        );
        let elsewhere = Program::new(argv, vec![], Path::new("/srv"), build_dir);
        assert_eq!(elsewhere.argv_recorded[0], "target/venv/bin/python");
    }
}
