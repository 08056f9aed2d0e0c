//! The protocol's side of a running micro program: ask, read the answer, and turn
//! everything that can go wrong into one [`EngineFailure`].
//!
//! What a call put out, read from its file.

use crate::engine::events::{next_event, status_of, unexpected};
use crate::engine::life::check_protocol;
use crate::engine::process::Process;
use crate::engine::session::Patience;
use crate::engine::{EngineFailure, Program};
use protocol::clock::now_ns;
use protocol::micro::wire::{
    Event, Hello, Load, PROTOCOL, Prepare, Prepared, Request, Time, Timed,
};
use schema::record::Status;
use std::path::Path;
use std::time::{Duration, Instant};

/// A micro program that is ready.
pub(crate) struct Session {
    process: Process,
    /// How long an answer may take.
    patience: Duration,
    /// It said that it can't go on.
    is_over: bool,
    /// Its first words.
    pub(crate) hello: Hello,
    /// When they were read.
    pub(crate) ready_ns: u64,
}

impl Session {
    /// Start `program` and load. On failure also the last lines of its stderr.
    pub(crate) fn open(
        program: &Program,
        load: &Load,
        patience: &Patience,
    ) -> Result<Self, (EngineFailure, String)> {
        let mut process = Process::open(program, &patience.control)?;
        match handshake(&mut process, load, patience.load) {
            Ok((hello, ready_ns)) => Ok(Self {
                process,
                patience: patience.load,
                is_over: false,
                hello,
                ready_ns,
            }),
            Err(failure) => Err(process.fall(failure)),
        }
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Make a case ready; its first call may compile and tune, so it gets the time of a
    /// load.
    pub(crate) fn prepare(&mut self, case: Prepare) -> Result<Prepared, EngineFailure> {
        match self.ask(&Request::Prepare(case))? {
            (Event::Prepared(prepared), ..) => Ok(prepared),
            (other, ..) => Err(unexpected("`prepared`", &other)),
        }
    }

    /// The output of the last call, through a file that is gone afterwards, however
    /// that went: the next program needs the name.
    pub(crate) fn output(&mut self, file: &Path) -> Result<Vec<f64>, EngineFailure> {
        let _ = std::fs::remove_file(file);
        let values = self.written(file);
        let _ = std::fs::remove_file(file);
        values
    }

    fn written(&mut self, file: &Path) -> Result<Vec<f64>, EngineFailure> {
        let request = Request::Output {
            path: file.display().to_string(),
        };
        let written = match self.ask(&request)? {
            (Event::Written { values }, ..) => values,
            (other, ..) => return Err(unexpected("`written`", &other)),
        };
        let values = read(file);
        let values = values.map_err(|why| EngineFailure::new(Status::ProtocolError, why))?;
        if values.len() as u64 == written {
            return Ok(values);
        }
        Err(EngineFailure::new(
            Status::ProtocolError,
            format!("said {written} values, wrote {}", values.len()),
        ))
    }

    /// Time the case. What it says must lie between the harness's own stamps.
    pub(crate) fn time(&mut self, time: Time) -> Result<Timed, EngineFailure> {
        let (event, asked_ns, read_ns) = self.ask(&Request::Time(time))?;
        let timed = match event {
            Event::Timed(timed) => timed,
            other => return Err(unexpected("`timed`", &other)),
        };
        if timed.ns.len() != time.samples as usize || timed.calls == 0 {
            return Err(EngineFailure::new(
                Status::ProtocolError,
                format!("{} samples where {} were due", timed.ns.len(), time.samples),
            ));
        }
        let within = asked_ns <= timed.start_ns && timed.start_ns <= timed.end_ns;
        let span_ns = timed.end_ns.saturating_sub(timed.start_ns);
        let sum_ns = timed
            .ns
            .iter()
            .fold(0_u64, |sum, ns| sum.saturating_add(*ns));
        if !within || timed.end_ns > read_ns || sum_ns > span_ns {
            return Err(EngineFailure::new(
                Status::BadTiming,
                "its samples don't lie between the harness's own stamps".to_owned(),
            ));
        }
        Ok(timed)
    }

    /// Ask it to exit; how it ended, where that was no success, and its last lines.
    pub(crate) fn close(self) -> (Result<(), EngineFailure>, String) {
        self.process.close(&encode(&Request::Exit))
    }

    /// Whether the process is gone, or said that it goes.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.is_over || self.process.has_ended()
    }

    /// Kill it; the last lines of its stderr.
    pub(crate) fn abort(self) -> String {
        self.process.abort()
    }

    fn ask(&mut self, request: &Request) -> Result<(Event, u64, u64), EngineFailure> {
        ask(&mut self.process, request, self.patience).map_err(|refused| {
            self.is_over |= refused.is_last;
            refused.failure
        })
    }
}

fn handshake(
    process: &mut Process,
    load: &Load,
    patience: Duration,
) -> Result<(Hello, u64), EngineFailure> {
    let answer = ask(process, &Request::Load(load.clone()), patience);
    match answer.map_err(|refused| refused.failure)? {
        (Event::Hello(hello), _, ready_ns) => {
            check_protocol("micro protocol", hello.protocol, PROTOCOL)?;
            Ok((hello, ready_ns))
        }
        (other, ..) => Err(unexpected("`hello`", &other)),
    }
}

/// A request that was not answered as it should be.
struct Refused {
    failure: EngineFailure,
    /// The process said that it goes on no further.
    is_last: bool,
}

/// The answer to a request, when that was about to be written, and when the answer was
/// read.
fn ask(
    process: &mut Process,
    request: &Request,
    patience: Duration,
) -> Result<(Event, u64, u64), Refused> {
    let refused = |failure, is_last| Refused { failure, is_last };
    let asked_ns = now_ns();
    // A process that is dead says why by its exit status, so a failed write is no news.
    let _ = process.write_line(&encode(request));
    let deadline = Instant::now() + patience;
    let answer = next_event(process, deadline, "answering");
    let (event, read_ns) = answer.map_err(|failure| refused(failure, false))?;
    match event {
        Event::Error {
            kind,
            message,
            is_last,
        } => Err(refused(
            EngineFailure::new(status_of(kind), message),
            is_last,
        )),
        event => Ok((event, asked_ns, read_ns)),
    }
}

fn encode(request: &Request) -> String {
    serde_json::to_string(request).expect("a request has no map with keys that aren't strings")
}

/// Every value of a file of little-endian `f64`.
pub(super) fn read(file: &Path) -> Result<Vec<f64>, String> {
    let bytes = std::fs::read(file).map_err(|error| format!("no output: {error}"))?;
    let (values, rest) = bytes.as_chunks::<8>();
    match rest {
        [] => Ok(values.iter().map(|v| f64::from_le_bytes(*v)).collect()),
        _ => Err(format!("an output of {} bytes", bytes.len())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_cut_short_is_no_output() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("x");
        assert!(read(&file).unwrap_err().contains("no output"));
        std::fs::write(&file, [0; 12]).unwrap();
        assert!(read(&file).unwrap_err().contains("12 bytes"));
        std::fs::write(&file, 1.5_f64.to_le_bytes()).unwrap();
        assert_eq!(read(&file), Ok(vec![1.5]));
    }
}
