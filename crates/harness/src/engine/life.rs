//! Starts and ends a program's process, whichever protocol it speaks.

use super::process::{Process, describe_exit};
use super::{EngineFailure, Program};
use schema::record::Status;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;
use watch::Control;

/// How long a program may take to exit: to free gigabytes takes seconds.
const EXIT_PATIENCE: Duration = Duration::from_secs(60);

/// A failure, and the last lines of the program's stderr.
pub(crate) type FailedProcess = (EngineFailure, String);

impl Process {
    /// Start `program`; that it can't be started is an engine's failure like any other. Through
    /// `control` the user can give up waiting for it.
    pub(crate) fn open(program: &Program, control: &Control) -> Result<Self, FailedProcess> {
        Self::start(program, control).map_err(|error| {
            let reason = format!("{} can't be started: {error}", program.argv.join(" "));
            let failure = EngineFailure::new(Status::Unavailable, reason);
            (failure, String::new())
        })
    }

    /// End a process that did not start as it should.
    pub(crate) fn fail(mut self, failure: EngineFailure) -> FailedProcess {
        self.finish(Duration::from_millis(200));
        let tail = self.stderr_tail();
        (failure, tail)
    }

    /// Ask the process to exit by the line `exit` of its protocol and wait a little; returns
    /// whether it exited well, and the last lines of its stderr.
    pub(crate) fn close(self, exit: &str) -> (Result<(), EngineFailure>, String) {
        self.close_within(exit, EXIT_PATIENCE)
    }

    fn close_within(
        mut self,
        exit: &str,
        timeout: Duration,
    ) -> (Result<(), EngineFailure>, String) {
        let _ = self.write_line(exit);
        let status = self.finish(timeout);
        let result = match status {
            Some(status) if status.success() => Ok(()),
            // Killed by the harness, not because memory ran out.
            _ if self.was_killed => Err(EngineFailure::new(
                Status::Timeout,
                format!(
                    "it had answered everything, but did not exit within {} s of being asked to, and was killed",
                    timeout.as_secs_f64()
                ),
            )),
            status => Err(self.died("at exit", status)),
        };
        (result, self.stderr_tail())
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

    /// Kill the process and return the last lines of its stderr.
    pub(crate) fn abort(mut self) -> String {
        self.finish(Duration::from_millis(100));
        self.stderr_tail()
    }
}

/// Refuse a program of another protocol version, which could mean something else by the same words.
pub(crate) fn check_protocol(name: &str, theirs: u32, ours: u32) -> Result<(), EngineFailure> {
    if theirs == ours {
        return Ok(());
    }
    Err(EngineFailure::new(
        Status::ProtocolError,
        format!("speaks {name} {theirs}, the harness speaks {ours}: build both from one revision"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn who_does_not_exit_is_killed_by_us_and_not_by_the_kernel() {
        let closed = |script: &str| {
            let argv = ["sh", "-c", script].map(str::to_owned).into();
            let here = Path::new("/");
            let process =
                Process::open(&Program::new(argv, vec![], here, here), &Control::default());
            let (result, _) = process
                .ok()
                .unwrap()
                .close_within("", Duration::from_millis(300));
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
