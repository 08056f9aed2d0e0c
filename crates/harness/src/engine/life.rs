//! Starts and ends a program's process, whichever protocol it speaks.

use super::process::{Process, describe_exit};
use super::{EngineFailure, Program};
use schema::record::Status;
use serde::Serialize;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;
use watch::Control;

/// How long a program may take to exit: to free gigabytes takes seconds.
const EXIT_PATIENCE: Duration = Duration::from_secs(60);

impl Process {
    /// Start `program` and let `handshake` talk to it; returns the process with what that returned.
    /// A program that can't be started is an engine's failure like any other. Where the handshake
    /// fails, the process is killed. Through `control` the user can give up waiting for it.
    pub(crate) fn open<T>(
        program: &Program,
        control: &Control,
        handshake: impl FnOnce(&mut Self) -> Result<T, EngineFailure>,
    ) -> Result<(Self, T), EngineFailure> {
        let mut process = Self::start(program, control).map_err(|error| {
            let reason = format!("{} can't be started: {error}", program.argv.join(" "));
            EngineFailure::new(Status::Unavailable, reason)
        })?;
        match handshake(&mut process) {
            Ok(answer) => Ok((process, answer)),
            Err(failure) => Err(failure.with_stderr(process.abort())),
        }
    }

    /// Write a request as [`Process::write_line`] writes a line.
    pub(crate) fn send(&mut self, request: &impl Serialize) -> std::io::Result<u64> {
        self.write_line(&encode(request))
    }

    /// Ask the process to exit by the request `exit` of its protocol and wait a little; `Err` unless
    /// it exited well.
    pub(crate) fn close(self, exit: &impl Serialize) -> Result<(), EngineFailure> {
        self.close_within(&encode(exit), EXIT_PATIENCE)
    }

    fn close_within(mut self, exit: &str, timeout: Duration) -> Result<(), EngineFailure> {
        let _ = self.write_line(exit);
        let status = self.finish(timeout);
        let failure = match status {
            Some(status) if status.success() => return Ok(()),
            // Killed by the harness, not because memory ran out.
            _ if self.was_killed => EngineFailure::new(
                Status::Timeout,
                format!(
                    "it had answered everything, but did not exit within {} s of being asked to, and was killed",
                    timeout.as_secs_f64()
                ),
            ),
            status => self.died("at exit", status),
        };
        Err(failure.with_stderr(self.stderr_tail()))
    }

    /// The failure of a process that ended at a wrong time, described by `when`: how it ended, and
    /// after an illegal instruction also the limit that its library was kept to.
    pub(crate) fn died(&self, when: &str, status: Option<ExitStatus>) -> EngineFailure {
        let reason = format!("{when} the process {}", describe_exit(status));
        let mut failure = EngineFailure::new(Status::Crashed, reason);
        failure.signal = status.and_then(|status| status.signal());
        if failure.is_illegal_instruction()
            && let Some(limit) = &self.isa_limit
        {
            failure.reason = format!("{} (with {limit})", failure.reason);
        }
        failure
    }

    /// Kill the process, unless it ends at once, and return the last lines of its stderr.
    pub(crate) fn abort(mut self) -> String {
        self.finish(Duration::from_millis(200));
        self.stderr_tail()
    }
}

/// The line of a request.
pub(super) fn encode(request: &impl Serialize) -> String {
    serde_json::to_string(request).expect("a request has no map with keys that aren't strings")
}

/// Refuse a program of another protocol version, which could mean something else by the same words.
pub(crate) fn check_protocol(name: &str, theirs: u32, ours: u32) -> Result<(), EngineFailure> {
    if theirs == ours {
        return Ok(());
    }
    Err(EngineFailure::protocol(format!(
        "speaks {name} {theirs}, the harness speaks {ours}: build both from one revision"
    )))
}

/// Refuse a program whose hello has another engine's id: its numbers would be that engine's.
pub(crate) fn check_engine(theirs: &str, ours: &str) -> Result<(), EngineFailure> {
    if theirs == ours {
        return Ok(());
    }
    Err(EngineFailure::protocol(format!(
        "its hello says that it is engine {theirs:?}, not {ours:?}: engines.toml names another engine's program, or the adapter a wrong id"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn another_engine_is_refused_with_both_names() {
        assert_eq!(check_engine("a", "a"), Ok(()));
        let failure = check_engine("other", "a").unwrap_err();
        assert_eq!(failure.status, Status::ProtocolError);
        let said = "its hello says that it is engine \"other\", not \"a\": ";
        assert!(failure.reason.starts_with(said), "{}", failure.reason);
    }

    #[test]
    fn who_does_not_exit_is_killed_by_us_and_not_by_the_kernel() {
        let closed = |script: &str| {
            let argv = ["sh", "-c", script].map(str::to_owned).into();
            let here = Path::new("/");
            let program = Program::new(argv, vec![], here, here);
            let process = Process::start(&program, &Control::default()).unwrap();
            let result = process.close_within("", Duration::from_millis(300));
            result.map_err(|failure| (failure.status, failure.reason))
        };
        assert_eq!(closed("exit 0"), Ok(()));
        let (status, reason) = closed("sleep 60").unwrap_err();
        assert_eq!(status, Status::Timeout);
        assert!(reason.contains("did not exit within 0.3 s"), "{reason}");
        let (status, reason) = closed("kill -9 $$").unwrap_err();
        assert_eq!(status, Status::Crashed);
        assert!(reason.contains("SIGKILL"), "{reason}");
    }
}
