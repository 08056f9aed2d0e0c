//! This module makes an adapter of a [`Scheduler`]: requests are passed on as they arrive and
//! answered as they finish, on one thread that otherwise sleeps. It deliberately forms no batches
//! and holds no request back.

use super::batch::Timeline;
use super::input::{Inbound, LOADED_ALREADY, Lines, check_generate, check_score};
use super::{Adapter, Stop, bad_request, failed, guarded, score, send};
use crate::clock::now_ns;
use crate::engine::EngineError;
use crate::scheduler::{Job, Scheduler};
use crate::wire::{Event, Generate, Hello, Load, Loaded, Request};
use crate::witness::Witness;
use std::io::{self, Read, Write};
use std::sync::mpsc::{Sender, channel};

/// The adapter of a [`Scheduler`].
pub struct Scheduled<S> {
    scheduler: S,
    max_context: u32,
}

/// A message to the thread that answers.
enum Message {
    In(Inbound),
    InputEnded,
    Out(Event),
}

impl<S: Scheduler> Adapter for Scheduled<S> {
    fn backends_by_hand() -> &'static [&'static str] {
        S::backends_by_hand()
    }

    fn hello(load: &Load) -> Hello {
        S::hello(load)
    }

    fn load(load: &Load, _hello: &Hello) -> Result<(Self, Loaded), EngineError> {
        let (scheduler, loaded) = S::load(load)?;
        let max_context = load.max_context;
        let adapter = Self {
            scheduler,
            max_context,
        };
        Ok((adapter, loaded))
    }

    fn run_alone(&mut self, prompt_ids: &[u32], new_tokens: u32) -> Result<Timeline, EngineError> {
        let (reply, answer) = channel();
        let generate = Generate {
            id: 0,
            prompt_ids: prompt_ids.to_vec(),
            new_tokens,
            together: 1,
        };
        self.scheduler
            .submit(Job::new(generate, now_ns(), move |event| {
                let _ = reply.send(event); // the receiver waits below
            }));
        match answer.recv() {
            Ok(Event::Done(done)) => Ok(Timeline {
                started_ns: done.started_ns,
                token_ns: done.token_ns,
                tokens: done.output_ids,
                text: done.output_text,
            }),
            Ok(Event::Error(failure)) => Err(EngineError::new(failure.kind, failure.message)),
            Ok(_) | Err(_) => Err(EngineError::internal("the engine gave no answer")),
        }
    }

    fn answer<R: Read + Send + 'static, W: Write>(
        mut self,
        lines: Lines<R>,
        mut out: W,
        witness: Witness,
    ) -> io::Result<u8> {
        let (sender, messages) = channel();
        let ended = AtDrop(sender.clone());
        lines.forward(sender.clone(), move |inbound| {
            let _ = &ended; // dropped with this closure, at the end of input
            Message::In(inbound)
        });

        let (mut open, mut in_flight) = (true, 0u64);
        while open || in_flight > 0 {
            let Ok(message) = messages.recv() else { break };
            let answer = match message {
                Message::InputEnded => {
                    open = false;
                    continue;
                }
                Message::Out(event) => {
                    in_flight -= 1;
                    Some(event)
                }
                Message::In(inbound) => match self.admit(inbound, &sender, &witness) {
                    Ok(answer) => {
                        in_flight += u64::from(answer.is_none());
                        answer
                    }
                    Err(stop) => return stop.report_fatal(&mut out),
                },
            };
            if let Some(event) = answer {
                send(&mut out, &[event])?;
            }
        }
        Ok(0)
    }
}

impl<S: Scheduler> Scheduled<S> {
    /// Return the answer to a message; `None` if the scheduler has taken the request.
    fn admit(
        &mut self,
        inbound: Inbound,
        reply: &Sender<Message>,
        witness: &Witness,
    ) -> Result<Option<Event>, Stop> {
        let refused = |id, message: String| Ok(Some(Event::Error(bad_request(id, message))));
        match inbound {
            Inbound::Malformed(message) => refused(None, message),
            Inbound::Request(received_ns, Request::Generate(generate)) => {
                if let Err(message) = check_generate(&generate, self.max_context) {
                    return refused(Some(generate.id), message);
                }
                let reply = reply.clone();
                let job = Job::new(generate, received_ns, move |event| {
                    // The channel outlives every job, except at the process's end.
                    let _ = reply.send(Message::Out(event));
                });
                let job = job.witnessed(witness);
                guarded(|| {
                    self.scheduler.submit(job);
                    Ok(None)
                })
            }
            Inbound::Request(_, Request::Score(request)) => {
                if let Err(message) = check_score(&request, self.max_context) {
                    return refused(Some(request.id), message);
                }
                match guarded(|| score::run_forced(&mut self.scheduler, &request)) {
                    Ok(scored) => Ok(Some(Event::Scored(scored))),
                    Err(Stop::Failed(err)) => Ok(Some(failed(request.id, &err))),
                    Err(stop) => Err(stop),
                }
            }
            // The reader does not forward `exit`: it treats it as the end of input.
            Inbound::Request(_, Request::Load(_) | Request::Exit) => {
                refused(None, LOADED_ALREADY.to_string())
            }
        }
    }
}

/// Sends the message that the input ended when it is dropped, that is when the reader's closure
/// is.
struct AtDrop(Sender<Message>);

impl Drop for AtDrop {
    fn drop(&mut self) {
        let _ = self.0.send(Message::InputEnded);
    }
}
