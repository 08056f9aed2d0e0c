//! The adapter: a thread that owns llama.cpp and steps as long as there is work, and a channel
//! that sends it work.

use crate::describe;
use crate::llama::{self, Llama};
use crate::slots::{Forced, Slots, Work};
use protocol::check_ids;
use protocol::engine::EngineError;
use protocol::scheduler::{Job, Scheduler};
use protocol::wire::{Hello, Load, Loaded};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// What is said once llama.cpp's thread has panicked.
const GONE: &str = "llama.cpp's thread is gone; standard error says why";

/// The handle of llama.cpp's thread.
pub struct LlamaCpp {
    /// The channel to the thread. `None` only during `drop`: closing it ends the thread.
    work: Option<Sender<Work>>,
    thread: Option<JoinHandle<()>>,
    vocabulary: usize,
}

impl Scheduler for LlamaCpp {
    fn hello(load: &Load) -> Hello {
        describe::hello(load)
    }

    fn backends_by_hand() -> &'static [&'static str] {
        match cfg!(feature = "cuda") {
            true => &["cuda", "cpu"],
            false => &["cpu"],
        }
    }

    fn load(load: &Load) -> Result<(Self, Loaded), EngineError> {
        let (work, inbox) = channel();
        let (ready, loading) = channel();
        let wanted = load.clone();
        // The model is loaded on that thread too, so that llama.cpp's objects never change
        // threads.
        let run = move || match Llama::load(&wanted) {
            Ok((llama, loaded)) => {
                let vocabulary = llama.vocabulary();
                let count = llama::sequences(&wanted);
                let slots = Slots::new(llama, count, wanted.prefix_cache);
                if ready.send(Ok((vocabulary, loaded))).is_ok() {
                    serve(slots, &inbox);
                }
            }
            Err(error) => drop(ready.send(Err(error))),
        };
        let thread = std::thread::Builder::new().name("llama".to_string());
        let thread = thread.spawn(run).map_err(EngineError::internal)?;
        let (vocabulary, loaded) = loading.recv().map_err(|_| EngineError::internal(GONE))??;
        let engine = Self {
            work: Some(work),
            thread: Some(thread),
            vocabulary,
        };
        Ok((engine, loaded))
    }

    fn submit(&mut self, job: Job) {
        // An id outside the vocabulary would fail every request that shares the step.
        match check_ids(job.prompt_ids(), self.vocabulary) {
            Ok(()) => self.send(Work::Generate(job)),
            Err(error) => job.failed(error),
        }
    }

    fn forced_logits(
        &mut self,
        prompt: &[u32],
        forced: &[u32],
    ) -> Result<Vec<Vec<f32>>, EngineError> {
        check_ids(prompt, self.vocabulary)?;
        check_ids(forced, self.vocabulary)?;
        let (reply, logits) = channel();
        self.send(Work::Force(Forced {
            prompt: prompt.to_vec(),
            forced: forced.to_vec(),
            reply,
        }));
        logits.recv().unwrap_or_else(|_| panic!("{GONE}"))
    }
}

impl LlamaCpp {
    /// Pass work to llama.cpp's thread.
    ///
    /// # Panics
    /// If that thread has ended: it panicked, so this process must end too, and the runtime ends
    /// it after a panic.
    fn send(&self, work: Work) {
        let channel = self.work.as_ref();
        let is_sent = channel.is_some_and(|channel| channel.send(work).is_ok());
        assert!(is_sent, "{GONE}");
    }
}

impl Drop for LlamaCpp {
    /// Free llama.cpp before the process begins to exit.
    fn drop(&mut self) {
        self.work = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // a panic there has been answered already
        }
    }
}

/// Run steps until every sender of work is dropped.
fn serve(mut slots: Slots<Llama>, inbox: &Receiver<Work>) {
    loop {
        if slots.idle() {
            match inbox.recv() {
                Ok(work) => slots.admit(work),
                Err(_) => return,
            }
        }
        for work in inbox.try_iter() {
            slots.admit(work);
        }
        slots.step();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "llama.cpp's thread is gone")]
    fn work_for_a_thread_that_is_gone_ends_the_process() {
        let (work, inbox) = channel();
        drop(inbox);
        let engine = LlamaCpp {
            work: Some(work),
            thread: None,
            vocabulary: 10,
        };
        let (reply, _logits) = channel();
        engine.send(Work::Force(Forced {
            prompt: vec![1],
            forced: vec![2],
            reply,
        }));
    }
}
