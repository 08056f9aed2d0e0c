//! Records a launch while it is made: each event is written to its file at once, and kept in
//! memory, so that the file needn't be read again.

use anyhow::{Context, Error, Result};
use base::files::Appender;
use schema::Log;
use schema::hash::Hasher;
use std::path::{Path, PathBuf};

/// A record file, and the log of the events written to it.
pub(crate) struct Recorder<L> {
    file: Appender,
    /// The file's path, relative to the run's directory.
    name: PathBuf,
    /// Hash of the lines, updated as each is written: SHA-256 takes a microsecond per kilobyte, and
    /// reading the file again would disturb what is measured next.
    hasher: Hasher,
    /// The log so far; present from the first event on.
    log: Option<L>,
}

impl<L: Log> Recorder<L> {
    /// Create the file of a launch in a run's directory, under the name of `attempt` or of the next
    /// attempt whose name is free; also returns the attempt's number.
    pub(crate) fn create(
        run_dir: &Path,
        attempt: u32,
        named: impl Fn(u32) -> PathBuf,
    ) -> Result<(Self, u32)> {
        let (file, attempt) = Appender::create_next(attempt, &named)?;
        let path = named(attempt);
        let name = path.strip_prefix(run_dir).unwrap_or(&path).to_owned();
        let recorder = Self {
            file,
            name,
            hasher: Hasher::default(),
            log: None,
        };
        Ok((recorder, attempt))
    }

    /// Record an event; the first event says what is launched.
    pub(crate) fn event(&mut self, event: L::Event) -> Result<()> {
        let line = self.file.append(&event)?;
        self.hasher.update(&line);
        match &mut self.log {
            Some(log) => log.take(event).map_err(Error::msg)?,
            None => self.log = L::begin(&event),
        }
        Ok(())
    }

    /// Make sure that the recorded events survive a power cut.
    pub(crate) fn sync(&self) -> Result<()> {
        self.file.sync()
    }

    /// The log so far, once the first event is recorded.
    pub(crate) fn log(&self) -> &L {
        let log = self.log.as_ref();
        log.expect("a record begins with its launch")
    }

    /// The log of all recorded events.
    pub(crate) fn into_log(self) -> Result<L> {
        let mut log = self.log.context("a record begins with its launch")?;
        log.set_file(self.name, self.hasher.hex());
        Ok(log)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schema::hash::sha256_hex;
    use schema::launch_log::LaunchLog;
    use schema::record::{CaseEnd, End, LaunchRecord, RecordEvent, Status};

    fn launch(attempt: u32) -> RecordEvent {
        RecordEvent::Launch(LaunchRecord {
            target: "a.cpu.f32".into(),
            scenario: "single_request".into(),
            invocation: 3,
            attempt,
            cases: vec!["p50".into()],
            argv: vec!["a".into()],
            start_ns: 1,
            ..LaunchRecord::default()
        })
    }

    #[test]
    fn what_is_kept_is_what_the_file_says() {
        let dir = tempfile::tempdir().unwrap();
        let named = |attempt| dir.path().join(format!("a.cpu.f32/x.a{attempt}.jsonl"));
        let (other, attempt) = Recorder::<LaunchLog>::create(dir.path(), 0, named).unwrap();
        assert_eq!(attempt, 0);
        assert!(other.into_log().is_err(), "nothing was launched");
        let (mut recorder, attempt) = Recorder::<LaunchLog>::create(dir.path(), 0, named).unwrap();
        assert_eq!(attempt, 1, "the first name is taken");
        let events = [
            launch(attempt),
            RecordEvent::CaseEnd(CaseEnd {
                case: "p50".into(),
                start_ns: 2,
                end_ns: 1_234_567_890_123_456_789,
                peak_rss_bytes: Some(1 << 40),
                ..CaseEnd::default()
            }),
            RecordEvent::End(End {
                status: Status::Crashed,
                reason: "exited with status 1".into(),
                stderr_tail: "a line\n\"another\"".into(),
                end_ns: 7,
            }),
        ];
        for event in &events {
            recorder.event(event.clone()).unwrap();
        }
        recorder.sync().unwrap();
        let kept = recorder.into_log().unwrap();

        let text = std::fs::read_to_string(named(1)).unwrap();
        let mut lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
        let mut read = LaunchLog::begin(&lines.next().unwrap()).unwrap();
        for event in lines {
            read.take(event).unwrap();
        }
        let name = "a.cpu.f32/x.a1.jsonl".into();
        read.set_file(name, sha256_hex(text.as_bytes()));
        assert_eq!(kept, read);
        assert_eq!(kept.case_ends.len(), 1);

        let (mut recorder, _) = Recorder::<LaunchLog>::create(dir.path(), 0, named).unwrap();
        recorder.event(launch(2)).unwrap();
        let again = recorder.event(launch(2)).unwrap_err().to_string();
        assert_eq!(again, "a second `launch` event");
    }
}
