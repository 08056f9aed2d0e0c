//! Speaks the protocol with a running micro program: sends requests, reads answers, and turns
//! everything that can go wrong into one [`EngineFailure`].
//!
//! Also reads the file that holds a call's output.

use crate::engine::events::{next_event, status_of, unexpected};
use crate::engine::life::check_protocol;
use crate::engine::process::Process;
use crate::engine::session::Timeouts;
use crate::engine::{EngineFailure, Program};
use protocol::clock::now_ns;
use protocol::micro::wire::{
    Event, Hello, Load, PROTOCOL, Prepare, Prepared, Request, Time, Timed,
};
use schema::record::Status;
use std::path::Path;
use std::time::{Duration, Instant};

/// A micro program that has answered `load`.
pub(crate) struct Session {
    /// Its process. Requests go through the session.
    pub(crate) process: Process,
    /// How long an answer may take.
    timeout: Duration,
    /// Whether the program reported that it can't go on.
    is_over: bool,
    /// The program's answer to `load`, which describes it.
    pub(crate) hello: Hello,
    /// When `hello` was read (ns).
    pub(crate) ready_ns: u64,
}

impl Session {
    /// Start `program` and load it.
    pub(crate) fn open(
        program: &Program,
        load: &Load,
        timeout: &Timeouts,
    ) -> Result<Self, EngineFailure> {
        let handshake = |process: &mut Process| handshake(process, load, timeout.load);
        let (process, (hello, ready_ns)) = Process::open(program, &timeout.control, handshake)?;
        Ok(Self {
            process,
            timeout: timeout.load,
            is_over: false,
            hello,
            ready_ns,
        })
    }

    /// Prepare a case. Its first call may compile and tune, so it may take as long as loading.
    pub(crate) fn prepare(&mut self, case: Prepare) -> Result<Prepared, EngineFailure> {
        match self.ask(&Request::Prepare(case))? {
            (Event::Prepared(prepared), ..) => Ok(prepared),
            (other, ..) => Err(unexpected("`prepared`", &other)),
        }
    }

    /// The output of the last call. The file that transfers it is removed in any case, because the
    /// next program uses the same name.
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
        let values = read(file).map_err(EngineFailure::protocol)?;
        let wrote = values.len() as u64;
        if wrote == written {
            return Ok(values);
        }
        let why = format!("announced {written} output values, but wrote {wrote}");
        Err(EngineFailure::protocol(why))
    }

    /// Time the case. The program's stamps must lie between the harness's own.
    pub(crate) fn time(&mut self, time: Time) -> Result<Timed, EngineFailure> {
        let (event, asked_ns, read_ns) = self.ask(&Request::Time(time))?;
        let timed = match event {
            Event::Timed(timed) => timed,
            other => return Err(unexpected("`timed`", &other)),
        };
        let (samples, due) = (timed.ns.len(), time.samples);
        if samples != due as usize || timed.calls == 0 {
            let why = format!("{samples} samples where {due} were due");
            return Err(EngineFailure::protocol(why));
        }
        let within = asked_ns <= timed.start_ns && timed.start_ns <= timed.end_ns;
        let span_ns = timed.end_ns.saturating_sub(timed.start_ns);
        let sum_ns = timed.ns.iter().copied().fold(0, u64::saturating_add);
        if !within || timed.end_ns > read_ns || sum_ns > span_ns {
            return Err(EngineFailure::new(
                Status::BadTiming,
                "its samples don't lie between the harness's own stamps".to_owned(),
            ));
        }
        Ok(timed)
    }

    /// Ask the program to exit; `Err` unless it exited well.
    pub(crate) fn close(self) -> Result<(), EngineFailure> {
        self.process.close(&Request::Exit)
    }

    /// Whether the process has ended, or reported that it will end.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.is_over || self.process.has_ended()
    }

    /// Send a request; returns the answer with its stamps, as the function of this name does.
    fn ask(&mut self, request: &Request) -> Result<(Event, u64, u64), EngineFailure> {
        let (event, asked_ns, read_ns) = ask(&mut self.process, request, self.timeout)?;
        match event {
            Event::Error {
                kind,
                message,
                is_last,
            } => {
                self.is_over |= is_last;
                Err(EngineFailure::new(status_of(kind), message))
            }
            event => Ok((event, asked_ns, read_ns)),
        }
    }
}

fn handshake(
    process: &mut Process,
    load: &Load,
    timeout: Duration,
) -> Result<(Hello, u64), EngineFailure> {
    let (event, _, ready_ns) = ask(process, &Request::Load(load.clone()), timeout)?;
    match event {
        Event::Hello(hello) => {
            check_protocol("micro protocol", hello.protocol, PROTOCOL)?;
            Ok((hello, ready_ns))
        }
        Event::Error { kind, message, .. } => Err(EngineFailure::new(status_of(kind), message)),
        other => Err(unexpected("`hello`", &other)),
    }
}

/// Send a request; returns the answer, the time before the request was written, and the time after
/// the answer was read (ns).
fn ask(
    process: &mut Process,
    request: &Request,
    timeout: Duration,
) -> Result<(Event, u64, u64), EngineFailure> {
    let asked_ns = now_ns();
    // A process that is dead is reported by its exit status, so ignore a failed write.
    let _ = process.send(request);
    let (event, read_ns) = next_event(process, Instant::now() + timeout, "answering")?;
    Ok((event, asked_ns, read_ns))
}

/// All values of a file of little-endian `f64`.
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
