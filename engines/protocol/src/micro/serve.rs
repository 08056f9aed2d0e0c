//! The runtime of a micro program: it reads requests, writes events, and reads the clock before
//! and after calls. Between the two readings nothing is written or allocated except by the call
//! itself.
//!
//! Exit status: 0 after `exit` or the end of input, 101 after a panic, which is reported first.

use super::Suite;
use super::wire::{Event, Load, PROTOCOL, Prepared, Request, Time, Timed};
use crate::clock::now_ns;
use crate::engine::EngineError;
use crate::serve::{Stop, begin, guarded, set_threads};
use std::fs::File;
use std::io::{self, BufRead, BufWriter, Write};
use std::process::ExitCode;

/// Largest number of calls in one sample; more would not make it more precise.
const CALLS_MAX: u64 = 1_000_000;

/// Run a micro program: the whole body of its `main`.
pub fn main<S: Suite>() -> ExitCode {
    begin(USAGE, |stream| serve::<S>(io::stdin().lock(), stream))
}

const USAGE: &str = "\
A micro program behind the benchmark's protocol: JSON Lines in, JSON Lines out, no arguments.
Requests: load, prepare, output, time, exit (engines/README.md).";

/// Answer requests until the input ends; return the exit status.
fn serve<S: Suite>(input: impl BufRead, mut out: impl Write) -> io::Result<u8> {
    let mut suite: Option<S> = None;
    for line in input.lines() {
        let line = line?;
        let event = match serde_json::from_str(&line) {
            Ok(Request::Exit) => return Ok(0),
            Ok(Request::Load(load)) => open::<S>(&load).map(|(opened, hello)| {
                suite = Some(opened);
                hello
            }),
            Ok(request) => match &mut suite {
                Some(suite) => answer(suite, request),
                None => Err(bad_request("nothing is loaded")),
            },
            Err(error) => Err(bad_request(format!("not a request: {error}"))),
        };
        let (event, ends) = match event {
            Ok(event) => (event, None),
            Err(stop) => refusal(stop),
        };
        let mut bytes = serde_json::to_vec(&event)?;
        bytes.push(b'\n');
        out.write_all(&bytes)?;
        out.flush()?;
        if let Some(status) = ends {
            return Ok(status);
        }
    }
    Ok(0)
}

/// Return the error event, and the exit status if the process must end after it.
fn refusal(stop: Stop) -> (Event, Option<u8>) {
    let (error, ends) = stop.of_call();
    let event = Event::Error {
        kind: error.kind,
        message: error.message.lines().next().unwrap_or_default().to_owned(),
        is_last: ends.is_some(),
    };
    (event, ends)
}

fn open<S: Suite>(load: &Load) -> Result<(S, Event), Stop> {
    set_threads(load.threads);
    let (suite, mut hello) = guarded(|| S::open(load))?;
    hello.protocol = PROTOCOL;
    for (key, value) in crate::serve::build_info() {
        hello.build.entry(key).or_insert(value);
    }
    Ok((suite, Event::Hello(hello)))
}

fn answer<S: Suite>(suite: &mut S, request: Request) -> Result<Event, Stop> {
    match request {
        Request::Prepare(case) => guarded(|| {
            let work = suite.prepare(&case)?;
            let start_ns = now_ns();
            suite.call()?;
            let first_call_ns = now_ns() - start_ns;
            Ok(Event::Prepared(Prepared {
                work,
                first_call_ns,
            }))
        }),
        Request::Output { path } => {
            let values = guarded(|| suite.output())?;
            write_values(&path, &values).map_err(|e| {
                Stop::Failed(EngineError::internal(format!(
                    "{path} can't be written: {e}"
                )))
            })?;
            Ok(Event::Written {
                values: values.len() as u64,
            })
        }
        Request::Time(time) => guarded(|| timed(suite, &time)).map(Event::Timed),
        Request::Load(_) => Err(bad_request("loaded twice")),
        Request::Exit => Err(bad_request("exit is the end of the loop")),
    }
}

fn timed<S: Suite>(suite: &mut S, time: &Time) -> Result<Timed, EngineError> {
    let calls = warm_up(suite, time)?;
    let mut ns = Vec::with_capacity(time.samples as usize);
    let start_ns = now_ns();
    let mut end_ns = start_ns;
    for _ in 0..time.samples {
        let from_ns = now_ns();
        for _ in 0..calls {
            suite.call()?;
        }
        end_ns = now_ns();
        ns.push(end_ns - from_ns);
    }
    Ok(Timed {
        calls,
        start_ns,
        end_ns,
        ns,
    })
}

/// Make untimed calls for a while; return how many calls make a sample.
fn warm_up<S: Suite>(suite: &mut S, time: &Time) -> Result<u64, EngineError> {
    let start_ns = now_ns();
    let mut done = 0;
    loop {
        suite.call()?;
        done += 1;
        let took_ns = now_ns() - start_ns;
        if took_ns >= time.warmup_ns {
            let calls = (time.sample_ns * done).div_ceil(took_ns.max(1));
            return Ok(calls.clamp(1, CALLS_MAX));
        }
    }
}

fn write_values(path: &str, values: &[f64]) -> io::Result<()> {
    let mut file = BufWriter::with_capacity(1 << 18, File::create_new(path)?);
    for value in values {
        file.write_all(&value.to_le_bytes())?;
    }
    file.flush()
}

fn bad_request(message: impl std::fmt::Display) -> Stop {
    Stop::Failed(EngineError::bad_request(message))
}

#[cfg(test)]
mod tests {
    use super::super::wire::{Hello, Prepare};
    use super::*;

    /// A suite that doubles its parameter, and panics if that is 13.
    #[derive(Default)]
    struct Doubler {
        value: f64,
        calls: u64,
    }

    impl Suite for Doubler {
        fn open(load: &Load) -> Result<(Self, Hello), EngineError> {
            match load.variant.as_str() {
                "double" => Ok((Self::default(), Hello::default())),
                _ => Err(super::super::unknown_variant(load)),
            }
        }
        fn prepare(&mut self, case: &Prepare) -> Result<f64, EngineError> {
            self.value = super::super::parameter(case, "value")? as f64;
            Ok(1.0)
        }
        fn call(&mut self) -> Result<(), EngineError> {
            assert!(self.value != 13.0, "thirteen");
            self.calls += 1;
            Ok(())
        }
        fn output(&mut self) -> Result<Vec<f64>, EngineError> {
            Ok(vec![2.0 * self.value, self.calls as f64])
        }
    }

    const LOAD: &str = r#"{"op":"load","suite":"s","variant":"double","backend":"cpu","precision":"f32","threads":1,"model_dir":"","seed":1}"#;

    /// Send requests; return the events and the exit status.
    fn talk(lines: &[&str]) -> (Vec<Event>, u8) {
        let mut out = Vec::new();
        let input = [&[LOAD], lines].concat().join("\n");
        let status = serve::<Doubler>(input.as_bytes(), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let events = text.lines().map(|line| serde_json::from_str(line).unwrap());
        (events.collect(), status)
    }

    #[test]
    fn a_case_is_called_written_and_timed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out").display().to_string();
        let output = format!("{{\"op\":\"output\",\"path\":{path:?}}}");
        let (events, status) = talk(&[
            r#"{"op":"prepare","case":"a","params":{"value":21}}"#,
            &output,
            r#"{"op":"time","samples":3,"sample_ns":1000,"warmup_ns":0}"#,
        ]);
        assert_eq!(status, 0);
        assert!(matches!(&events[0], Event::Hello(h) if h.protocol == PROTOCOL));
        assert!(matches!(&events[1], Event::Prepared(p) if p.work == 1.0));
        assert_eq!(events[2], Event::Written { values: 2 });
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(bytes[..8], 42.0_f64.to_le_bytes());
        // `prepare` called once, and `time` came after the output was written.
        assert_eq!(bytes[8..], 1.0_f64.to_le_bytes());
        let Event::Timed(timed) = &events[3] else {
            panic!("{events:?}")
        };
        assert_eq!(timed.ns.len(), 3);
        assert!(timed.calls >= 1);
        assert!(timed.ns.iter().sum::<u64>() <= timed.end_ns - timed.start_ns);
    }

    #[test]
    fn a_refusal_is_an_answer_and_a_panic_the_last() {
        let (events, status) = talk(&[
            r#"{"op":"prepare","case":"b","params":{}}"#,
            "nonsense",
            r#"{"op":"prepare","case":"a","params":{"value":1}}"#,
            r#"{"op":"prepare","case":"c","params":{"value":13}}"#,
            r#"{"op":"prepare","case":"a","params":{"value":1}}"#,
        ]);
        let failed = |event: &Event, needle: &str, last: bool| matches!(event, Event::Error { message, is_last, .. } if message.contains(needle) && *is_last == last);
        assert!(
            failed(&events[1], "no parameter \"value\"", false),
            "{events:?}"
        );
        assert!(failed(&events[2], "not a request", false), "{events:?}");
        assert!(matches!(events[3], Event::Prepared(_)), "{events:?}");
        assert!(failed(&events[4], "thirteen", true), "{events:?}");
        assert_eq!((events.len(), status), (5, 101));
    }
}
