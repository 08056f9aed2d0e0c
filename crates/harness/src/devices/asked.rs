//! Asks a process of its own one question about a device, because the code that answers may crash
//! or hang.

use crate::engine::start::launch;
use serde::de::DeserializeOwned;
use std::io::Read;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Why the process gave no answer.
#[derive(Debug)]
pub(super) enum NoAnswer {
    NotStarted(std::io::Error),
    /// The process was killed after this time.
    Late(Duration),
    /// The process ended without an answer; with its exit status and the last line of its stderr.
    Failed(ExitStatus, String),
}

/// Run `command` and return the last line of its stdout that parses as JSON, and its whole stderr
/// where the caller has piped it. Both must fit into a pipe, because they are read after the exit.
pub(super) fn ask_process<T: DeserializeOwned>(
    mut command: Command,
    timeout: Duration,
) -> Result<(T, String), NoAnswer> {
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = launch(command).map_err(NoAnswer::NotStarted)?;
    let deadline = Instant::now() + timeout;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(2));
            }
            _ => {
                let _ = child.kill(); // it may have just ended
                let _ = child.wait();
                return Err(NoAnswer::Late(timeout));
            }
        }
    };
    // Output that isn't UTF-8 or can't be read counts as no answer and no reason.
    let (mut said, mut why) = (String::new(), String::new());
    let _ = child.stdout.take().map(|mut s| s.read_to_string(&mut said));
    let _ = child.stderr.take().map(|mut s| s.read_to_string(&mut why));
    let mut lines = said.lines().rev();
    if let Some(answer) = lines.find_map(|line| serde_json::from_str(line).ok()) {
        return Ok((answer, why));
    }
    let why = why.lines().rfind(|line| !line.trim().is_empty());
    Err(NoAnswer::Failed(status, why.unwrap_or_default().into()))
}
