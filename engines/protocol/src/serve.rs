//! The adapter runtime: one process with one engine, which reads requests and writes events.
//!
//! This file has the sequence of steps; each part has its own file. The runtime deliberately knows
//! no engine, retries nothing and logs nothing.
//!
//! Exit status: 0 after `exit` or the end of input, 1 if loading failed or if the input was
//! invalid and nothing was ever loaded, 101 after a panic.

mod batch;
mod build_info;
mod by_hand;
mod defaults;
mod input;
mod output;
mod queue;
mod scheduled;
mod score;
mod summary;

pub(crate) use build_info::collect as build_info;

use crate::engine::{Engine, EngineError};
use crate::panicked;
use crate::scheduler::Scheduler;
use crate::wire::{Event, Failure, Hello, Load, Loaded, PROTOCOL, Request};
use crate::witness::{self, Witness};
use batch::{Batched, Timeline};
use input::{First, Lines};
use output::{claim_stdout, exit_when_output_closes};
use scheduled::Scheduled;
use std::fs::File;
use std::io::{self, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

const LOAD_FAILED: u8 = 1;
const PANICKED: u8 = 101;

/// What the runtime needs of either kind of adapter. [`Batched`] implements it for an [`Engine`],
/// [`Scheduled`] for a [`Scheduler`].
trait Adapter: Sized {
    fn backends_by_hand() -> &'static [&'static str];
    fn hello(load: &Load) -> Hello;
    fn load(load: &Load, hello: &Hello) -> Result<(Self, Loaded), EngineError>;
    /// Run one request with nothing else in flight, then the work that must not be timed.
    fn run_alone(&mut self, prompt_ids: &[u32], new_tokens: u32) -> Result<Timeline, EngineError>;
    /// Answer requests until the input ends; return the exit status, or the error of a failed
    /// write.
    fn answer<R: Read + Send + 'static, W: Write>(
        self,
        lines: Lines<R>,
        out: W,
        witness: Witness,
    ) -> io::Result<u8>;
}

/// Run an adapter that implements [`Engine`]: the whole body of its `main`.
pub fn main<E: Engine>() -> ExitCode {
    start::<Batched<E>, File>(|stream| stream)
}

/// Run an adapter that implements [`Scheduler`]: the whole body of its `main`.
pub fn main_scheduled<S: Scheduler>() -> ExitCode {
    start::<Scheduled<S>, File>(|stream| stream)
}

/// Run like [`main`], but write every byte of the event stream through `wrap`'s writer. `fake`
/// uses it to corrupt the stream; each `write_all` holds whole lines.
pub fn main_through<E: Engine, W: Write>(wrap: impl FnOnce(File) -> W) -> ExitCode {
    start::<Batched<E>, W>(wrap)
}

fn start<A: Adapter, W: Write>(wrap: impl FnOnce(File) -> W) -> ExitCode {
    begin(USAGE, |stream| {
        serve::<A, _, _>(input::stdin(), wrap(stream))
    })
}

/// Run a program that takes no arguments, whose `usage` is its help: `run` gets the stream of
/// events, and returns the exit status, or the error of a failed write.
pub(crate) fn begin(usage: &str, run: impl FnOnce(File) -> io::Result<u8>) -> ExitCode {
    // This comes first, so that nothing a library prints can get into the stream.
    let stream = match claim_stdout() {
        Ok(stream) => stream,
        Err(err) => {
            eprintln!("cannot redirect standard output: {err}");
            return ExitCode::FAILURE;
        }
    };
    if let Some(argument) = std::env::args().nth(1) {
        return refuse(&argument, usage, stream);
    }
    exit_when_output_closes(&stream);
    match run(stream) {
        Ok(status) => ExitCode::from(status),
        // The reader is gone, so the error can't be reported to it either.
        Err(err) if err.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(err) => {
            eprintln!("cannot write an event: {err}");
            ExitCode::FAILURE
        }
    }
}

/// Refuse the argument, since there are none. Help goes to standard output, an error to standard
/// error.
fn refuse(argument: &str, usage: &str, mut stream: File) -> ExitCode {
    if matches!(argument, "-h" | "--help") && writeln!(stream, "{usage}").is_ok() {
        return ExitCode::SUCCESS;
    }
    eprintln!("unexpected argument {argument:?}\n{usage}");
    ExitCode::from(2)
}

const USAGE: &str = "\
An inference engine behind the benchmark's protocol: JSON in, JSON out, no arguments.
By hand:  echo '{\"prompt\":\"Hello\",\"iterations\":50,\"model_path\":\"models/tiny-llama\"}' | candle-bench
Optional: prompt_ids warmup new_tokens weights precision backend device threads variant";

/// Serve `input` until it ends; return the exit status, or the error of a failed write.
fn serve<A: Adapter, R: Read + Send + 'static, W: Write>(input: R, mut out: W) -> io::Result<u8> {
    let mut lines = Lines::new(input);
    let mut status_at_end = 0;
    loop {
        let failure = match lines.first() {
            First::End => return Ok(status_at_end),
            First::ByHand(ask) => return by_hand::answer::<A>(ask, &mut out),
            First::Request(Request::Load(load)) => return loaded::<A, _, _>(load, lines, out),
            First::Request(Request::Exit) => return Ok(0),
            First::Request(Request::Generate(g)) => bad_request(Some(g.id), "nothing is loaded"),
            First::Request(Request::Score(s)) => bad_request(Some(s.id), "nothing is loaded"),
            First::Malformed(message) => bad_request(None, message),
        };
        status_at_end = LOAD_FAILED;
        send(&mut out, &[Event::Error(failure)])?;
    }
}

/// Load the model, then answer requests until the input ends.
fn loaded<A: Adapter, R: Read + Send + 'static, W: Write>(
    load: Load,
    lines: Lines<R>,
    mut out: W,
) -> io::Result<u8> {
    set_threads(load.threads);
    let hello = match guarded(|| Ok(introduce::<A>(&load))) {
        Ok(hello) => hello,
        Err(stop) => return stop.report_fatal(&mut out),
    };
    send(&mut out, &[Event::Hello(hello.clone())])?;

    let witness = match guarded(watched) {
        Ok(witness) => witness,
        Err(stop) => return stop.report_fatal(&mut out),
    };
    let (adapter, loaded) = match guarded(|| timed_load::<A>(&load, &hello)) {
        Ok(both) => both,
        Err(stop) => return stop.report_fatal(&mut out),
    };
    send(&mut out, &[Event::Loaded(loaded)])?;
    adapter.answer(lines, out, witness)
}

/// Load the model. Every engine's load time is measured here, so that no engine can leave a part of
/// it out.
fn timed_load<A: Adapter>(load: &Load, hello: &Hello) -> Result<(A, Loaded), EngineError> {
    let start_ns = crate::clock::now_ns();
    let (adapter, mut loaded) = A::load(load, hello)?;
    loaded.load_ns = crate::clock::now_ns() - start_ns;
    Ok((adapter, loaded))
}

/// Open the shared memory into which tokens are committed.
fn watched() -> Result<Witness, EngineError> {
    Witness::from_env().map_err(|error| {
        let variable = witness::VARIABLE;
        let what = format!("the file that {variable} names can't be mapped ({error}): unset it");
        EngineError::internal(what)
    })
}

/// Return the engine's `hello`, completed with what the runtime knows about the build.
fn introduce<A: Adapter>(load: &Load) -> Hello {
    let mut hello = A::hello(load);
    hello.protocol = PROTOCOL;
    for (key, value) in build_info() {
        hello.build.entry(key).or_insert(value);
    }
    hello
}

/// Tell rayon and OpenMP how many threads to start. Both read the environment once, when first
/// used, so it is set before the engine's `hello` is called.
pub(crate) fn set_threads(threads: u32) {
    for name in ["RAYON_NUM_THREADS", "OMP_NUM_THREADS"] {
        // SAFETY: no thread of ours but the watchdog on the output runs yet, and
        // that one never reads the environment.
        unsafe { std::env::set_var(name, threads.max(1).to_string()) };
    }
}

/// The reason why a call into the engine gave no result.
pub(crate) enum Stop {
    /// The call returned an error; the process can go on.
    Failed(EngineError),
    /// The call panicked with this message. The engine's state is unknown, so the process must
    /// end.
    Panicked(String),
}

impl Stop {
    /// Return the error, and the process's exit status.
    fn parts(self) -> (EngineError, u8) {
        match self {
            Stop::Failed(error) => (error, LOAD_FAILED),
            Stop::Panicked(message) => (
                EngineError::internal(format!("the engine panicked: {message}")),
                PANICKED,
            ),
        }
    }

    /// Return the error, and the exit status if the process can't go on.
    pub(crate) fn of_call(self) -> (EngineError, Option<u8>) {
        let is_over = matches!(self, Stop::Panicked(_));
        let (error, status) = self.parts();
        (error, is_over.then_some(status))
    }

    /// Report that the engine has failed as a whole; return the exit status.
    fn report_fatal(self, out: &mut impl Write) -> io::Result<u8> {
        let (error, status) = self.parts();
        send(out, &[Event::Error(error.failure(None))])?;
        Ok(status)
    }
}

/// Call into the engine; a panic becomes [`Stop::Panicked`].
pub(crate) fn guarded<T>(call: impl FnOnce() -> Result<T, EngineError>) -> Result<T, Stop> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(result) => result.map_err(Stop::Failed),
        Err(payload) => Err(Stop::Panicked(
            panicked::message(payload.as_ref()).to_owned(),
        )),
    }
}

fn bad_request(id: Option<u64>, message: impl std::fmt::Display) -> Failure {
    EngineError::bad_request(message).failure(id)
}

fn failed(id: u64, error: &EngineError) -> Event {
    Event::Error(error.clone().failure(Some(id)))
}

/// Write events, one per line, in a single call, so that the answers of one batch reach their
/// readers together.
fn send(out: &mut impl Write, events: &[Event]) -> io::Result<()> {
    let mut lines = Vec::new();
    for event in events {
        serde_json::to_writer(&mut lines, event)?;
        lines.push(b'\n');
    }
    out.write_all(&lines)?;
    out.flush()
}
