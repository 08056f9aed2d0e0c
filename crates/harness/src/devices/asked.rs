//! A process that is asked one thing about a device, because what answers may crash or hang.

use crate::engine::start::launch;
use serde::de::DeserializeOwned;
use std::io::Read;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Silence {
    /// It couldn't be started.
    NotStarted(std::io::Error),
    /// It was killed after this time.
    Late(Duration),
    /// It ended without an answer; the last line of what it said of that.
    Failed(ExitStatus, String),
}

/// The last line of its output that is an answer, in JSON, and what it said on stderr, where the caller
/// has that piped. Both must fit into a pipe.
pub(super) fn asked<T: DeserializeOwned>(
    mut command: Command,
    patience: Duration,
) -> Result<(T, String), Silence> {
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = launch(command).map_err(Silence::NotStarted)?;
    let deadline = Instant::now() + patience;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(2));
            }
            _ => {
                let _ = child.kill(); // it may have just ended
                let _ = child.wait();
                return Err(Silence::Late(patience));
            }
        }
    };
    // What isn't UTF-8 or can't be read is no answer and no reason.
    let (mut said, mut why) = (String::new(), String::new());
    let _ = child.stdout.take().map(|mut s| s.read_to_string(&mut said));
    let _ = child.stderr.take().map(|mut s| s.read_to_string(&mut why));
    let mut lines = said.lines().rev();
    if let Some(answer) = lines.find_map(|line| serde_json::from_str(line).ok()) {
        return Ok((answer, why));
    }
    let why = why.lines().rfind(|line| !line.trim().is_empty());
    Err(Silence::Failed(status, why.unwrap_or_default().into()))
}
