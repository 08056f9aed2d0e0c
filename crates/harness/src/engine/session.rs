//! Speaks the protocol with a running engine: loads the model, sends requests, reads events, and
//! turns everything that can go wrong into one [`EngineFailure`].

use super::events::{
    Asked, check_done, check_scored, event_before, next_event, not_in_flight, refusal, unexpected,
};
use super::life::{check_protocol, encode};
use super::process::{Input, Process};
use super::{EngineFailure, Program};
use protocol::wire::{
    Batching, Done, Event, Generate, Hello, Load, Loaded, PROTOCOL, Request, Score, Scored,
};
use protocol::witness::{self, Ring};
use schema::plan::Plan;
use schema::record::{Ready, Status};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use watch::Control;

/// An engine that has loaded its model.
pub struct Session {
    /// Its process. Requests go through the session, which awaits their answers.
    pub(crate) process: Process,
    /// The engine's first event, which describes it.
    pub hello: Hello,
    /// When `hello` was read (ns).
    pub hello_ns: u64,
    /// What the engine reports about the loaded model.
    pub loaded: Loaded,
    /// When `loaded` was read (ns).
    pub ready_ns: u64,
    /// The requests in flight by id, and what their answers must contain.
    in_flight: BTreeMap<u64, ExpectedAnswer>,
    next_id: u64,
    /// How long an answer may take.
    pub(crate) request_timeout: Duration,
    /// Shared memory in which the engine commits its tokens, if its stamps are audited.
    ring: Option<Arc<Ring>>,
}

/// How long loading and answering may take, and the handle to end the waiting sooner.
#[derive(Clone, Debug)]
pub struct Timeouts {
    /// Time from start to `loaded`, at most.
    pub load: Duration,
    /// Time between two answers while a request is in flight, at most.
    pub request: Duration,
    /// The handle through which the user can give up waiting.
    pub control: Control,
}

impl Timeouts {
    /// The time limits of a plan, for the run that `control` belongs to.
    pub fn new(plan: &Plan, control: &Control) -> Self {
        Self {
            load: Duration::from_secs(plan.load_timeout_s.into()),
            request: Duration::from_secs(plan.request_timeout_s.into()),
            control: control.clone(),
        }
    }

    /// Make the limits of a process outside a run, which no user skips.
    pub fn outside_a_run(load: Duration, request: Duration) -> Self {
        Self {
            load,
            request,
            control: Control::default(),
        }
    }
}

/// What the answer to a request must contain.
enum ExpectedAnswer {
    Tokens(u32),
    Scores(Asked),
}

impl Session {
    /// Start `program` and load the model.
    pub fn open(
        program: &Program,
        load: &Load,
        timeouts: &Timeouts,
    ) -> Result<Self, EngineFailure> {
        let handshake = |process: &mut Process| Self::handshake(process, load, timeouts.load);
        let (process, (hello, hello_ns, loaded, ready_ns)) =
            Process::open(program, &timeouts.control, handshake)?;
        Ok(Self {
            process,
            hello,
            hello_ns,
            loaded,
            ready_ns,
            in_flight: BTreeMap::new(),
            next_id: 1,
            request_timeout: timeouts.request,
            ring: None,
        })
    }

    /// The same as [`Session::open`] for a program that commits its tokens as they are produced.
    /// Where there is no room for the shared file, its stamps are not audited.
    pub fn open_watched(
        program: &Program,
        load: &Load,
        timeouts: &Timeouts,
    ) -> Result<Self, EngineFailure> {
        // In memory, where the system has such a directory, so that nothing is written to a disk.
        let shm = Path::new("/dev/shm");
        let mut named = tempfile::Builder::new();
        named.prefix("llm-engine-bench-witness-");
        let file = match shm.is_dir() {
            true => named.tempfile_in(shm),
            false => named.tempfile(),
        };
        let ring = file.and_then(|file| Ok((Ring::create(file.as_file())?, file)));
        let Ok((ring, file)) = ring else {
            return Self::open(program, load, timeouts);
        };
        let mut program = program.clone();
        let path = file.path().to_string_lossy().into_owned();
        program.env.push((witness::VARIABLE.into(), path));
        // The file's name is removed when `file` is dropped; by then the process has mapped it.
        let session = Self::open(&program, load, timeouts)?;
        Ok(Self {
            ring: Some(Arc::new(ring)),
            ..session
        })
    }

    /// The `ready` event for a launch's record.
    pub(crate) fn ready(&self) -> Ready {
        let batching = match self.hello.capabilities.batching {
            Batching::None => "none",
            Batching::StaticEqualLength => "static_equal_length",
            Batching::Continuous => "continuous",
        };
        let mut notes = self.hello.capabilities.notes.clone();
        notes.extend(self.hello.capabilities.position_gap.clone());
        let mut build = self.hello.build.clone();
        build.extend(self.loaded.runtime.clone());
        Ready {
            version: self.hello.version.clone(),
            build,
            batching: batching.into(),
            notes,
            hello_ns: self.hello_ns,
            ready_ns: self.ready_ns,
            load_ns: self.loaded.load_ns,
            weight_bytes: self.loaded.weight_bytes,
            kv_bytes_per_token: self.loaded.kv_bytes_per_token,
        }
    }

    /// Shared memory in which the engine commits its tokens, if its stamps are audited.
    pub fn ring(&self) -> Option<Arc<Ring>> {
        self.ring.clone()
    }

    fn handshake(
        process: &mut Process,
        load: &Load,
        timeout: Duration,
    ) -> Result<(Hello, u64, Loaded, u64), EngineFailure> {
        let deadline = Instant::now() + timeout;
        // A process that is already dead is reported by its exit status, so ignore a failed write.
        let _ = process.send(&Request::Load(load.clone()));
        let (event, hello_ns) = next_event(process, deadline, "loading")?;
        let hello = match event {
            Event::Hello(hello) => hello,
            Event::Error(failure) => return Err(refusal(failure)),
            other => return Err(unexpected("`hello`", &other)),
        };
        check_protocol("protocol", hello.protocol, PROTOCOL)?;
        let (event, ready_ns) = next_event(process, deadline, "loading")?;
        match event {
            Event::Loaded(loaded) => Ok((hello, hello_ns, loaded, ready_ns)),
            Event::Error(failure) => Err(refusal(failure)),
            other => Err(unexpected("`loaded`", &other)),
        }
    }

    /// The number of requests sent or announced that have no answer yet.
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Send a generation request and wait for its answer; nothing else may be in flight. Returns the
    /// answer, the time after the request was written, and the time when the answer was read (ns).
    pub fn generate(
        &mut self,
        prompt_ids: Vec<u32>,
        new_tokens: u32,
    ) -> Result<(Done, u64, u64), EngineFailure> {
        let (_, sent_ns) = self.send_one_of(1, prompt_ids, new_tokens)?;
        let (done, answered_ns) = self.next_done()?;
        Ok((done, sent_ns, answered_ns))
    }

    /// Send a generation request, one of `together` that are sent at once: a static batch waits for
    /// all of them, and the caller sends the others next. Returns its id and the time after it was
    /// written (ns).
    pub fn send_one_of(
        &mut self,
        together: u32,
        prompt_ids: Vec<u32>,
        new_tokens: u32,
    ) -> Result<(u64, u64), EngineFailure> {
        let (id, request) = self.request(together, prompt_ids, new_tokens);
        let sent_ns = self.send(&request)?;
        Ok((id, sent_ns))
    }

    /// Encode a generation request in advance, so that it needs only to be written through
    /// [`Session::take_input`] when it is due; returns its id and its line, newline included.
    pub fn encode_generate(&mut self, prompt_ids: Vec<u32>, new_tokens: u32) -> (u64, Vec<u8>) {
        let (id, request) = self.request(1, prompt_ids, new_tokens);
        let mut line = encode(&request).into_bytes();
        line.push(b'\n');
        (id, line)
    }

    /// Make a generation request, whose answer is expected from now on; returns its id too.
    fn request(&mut self, together: u32, prompt_ids: Vec<u32>, new_tokens: u32) -> (u64, Request) {
        let id = self.new_id(ExpectedAnswer::Tokens(new_tokens));
        let request = Request::Generate(Generate {
            id,
            prompt_ids,
            new_tokens,
            together,
        });
        (id, request)
    }

    /// Take the engine's stdin, for a thread that writes announced requests while this one reads.
    pub fn take_input(&mut self) -> Result<Input, EngineFailure> {
        self.process.take_input().ok_or_else(|| {
            EngineFailure::new(
                Status::Crashed,
                "its input is closed: it can't be asked more",
            )
        })
    }

    /// Forget an announced request that will never be written.
    pub fn withdraw(&mut self, id: u64) {
        self.in_flight.remove(&id);
    }

    /// The next finished generation and when its line was read (ns). A request that failed ends the
    /// session: a benchmark that skips failures measures nothing.
    pub fn next_done(&mut self) -> Result<(Done, u64), EngineFailure> {
        let deadline = Instant::now() + self.request_timeout;
        let (event, read_ns) = next_event(&mut self.process, deadline, "answering")?;
        self.done(event, read_ns)
    }

    /// As [`Session::next_done`], but reaching the deadline gives `None` and is no failure.
    pub fn next_done_before(
        &mut self,
        deadline: Instant,
    ) -> Result<Option<(Done, u64)>, EngineFailure> {
        match event_before(&mut self.process, deadline, "answering")? {
            Some((event, read_ns)) => self.done(event, read_ns).map(Some),
            None => Ok(None),
        }
    }

    fn done(&mut self, event: Event, read_ns: u64) -> Result<(Done, u64), EngineFailure> {
        match event {
            Event::Done(done) => {
                let Some(ExpectedAnswer::Tokens(new_tokens)) = self.in_flight.remove(&done.id)
                else {
                    return Err(not_in_flight(done.id));
                };
                check_done(&done, new_tokens)?;
                Ok((done, read_ns))
            }
            Event::Error(failure) => {
                // A caller may go on after a refusal: this request is then no longer awaited.
                failure.id.and_then(|id| self.in_flight.remove(&id));
                Err(refusal(failure))
            }
            other => Err(unexpected("`done`", &other)),
        }
    }

    /// Send a score request and wait for its answer; nothing else may be in flight.
    pub fn score(
        &mut self,
        ids: Vec<u32>,
        ask: Vec<Vec<u32>>,
        top: u32,
        parallel: bool,
    ) -> Result<Scored, EngineFailure> {
        self.send_score(ids, ask, top, parallel)?;
        self.next_scored()
    }

    /// Send a score request; returns its id. Any number may be in flight, and
    /// [`Session::next_scored`] returns their answers in whichever order they come.
    pub fn send_score(
        &mut self,
        ids: Vec<u32>,
        ask: Vec<Vec<u32>>,
        top: u32,
        parallel: bool,
    ) -> Result<u64, EngineFailure> {
        let asked = Asked {
            positions: ask.iter().map(Vec::len).collect(),
            top: top as usize,
        };
        let id = self.new_id(ExpectedAnswer::Scores(asked));
        self.send(&Request::Score(Score {
            id,
            ids,
            ask,
            top,
            parallel,
        }))?;
        Ok(id)
    }

    /// Wait for the next finished score. One that failed ends the session's use, as in
    /// [`Session::next_done`].
    pub fn next_scored(&mut self) -> Result<Scored, EngineFailure> {
        let deadline = Instant::now() + self.request_timeout;
        let (event, _) = next_event(&mut self.process, deadline, "answering")?;
        match event {
            Event::Scored(scored) => {
                let Some(ExpectedAnswer::Scores(asked)) = self.in_flight.remove(&scored.id) else {
                    return Err(not_in_flight(scored.id));
                };
                check_scored(&scored, &asked)?;
                Ok(scored)
            }
            Event::Error(failure) => {
                failure.id.and_then(|id| self.in_flight.remove(&id));
                Err(refusal(failure))
            }
            other => Err(unexpected("`scored`", &other)),
        }
    }

    /// Ask the engine to exit and wait a little; `Err` unless it exited well.
    pub fn close(self) -> Result<(), EngineFailure> {
        self.process.close(&Request::Exit)
    }

    fn new_id(&mut self, due: ExpectedAnswer) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.in_flight.insert(id, due);
        id
    }

    fn send(&mut self, request: &Request) -> Result<u64, EngineFailure> {
        self.process.send(request).map_err(|_| self.why_unread())
    }

    /// Why the engine reads no more requests. The pipe broke because the process died: its exit
    /// status says more, and comes after the answers that are still in the pipe.
    fn why_unread(&mut self) -> EngineFailure {
        let deadline = Instant::now() + Duration::from_secs(5);
        loop {
            match event_before(&mut self.process, deadline, "answering") {
                Err(failure) => return failure,
                Ok(Some((Event::Error(failure), _))) => return refusal(failure),
                Ok(Some(_)) => {}
                Ok(None) => {
                    return EngineFailure::new(
                        Status::Crashed,
                        "it closed its stdin and reads no more requests",
                    );
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::engine::scripted;
    use std::time::Duration;

    #[test]
    fn facts_of_the_build_and_of_the_loaded_library_are_recorded_together() {
        let session = scripted::session(true, "", Duration::from_secs(1));
        let build = session.ready().build;
        let facts: Vec<_> = build.iter().map(|(k, v)| format!("{k} {v}")).collect();
        assert_eq!(facts, ["isa avx2", "made by hand"]);
    }
}
