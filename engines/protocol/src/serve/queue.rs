//! This module decides what runs next: requests run in order of arrival, and those of equal shape
//! are joined into one batch. It deliberately does not run anything.

use super::bad_request;
use super::input::{Inbound, LOADED_ALREADY, check_generate, check_score};
use crate::wire::{Failure, Generate, Request, Score};
use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Return how long a batch may wait for the clients that were just answered: 1/25 of the time that
/// their batch `took`, and 1 ms or more.
///
/// Requests that are sent at once say so ([`Generate::together`]), and a batch waits for all of
/// them. The clients of a closed loop are independent: they reply to a finished batch within
/// microseconds, or some milliseconds where the machine is busy, one after the other. Without a
/// wait, the first of them would run alone and the other n − 1 after it, again and again. So the
/// next batch waits for as many requests as were just answered, if that batch had several rows or
/// other requests are still waiting: a single user never waits, and two users that got out of step
/// are batched together again. The wait grows with the batch because so does what a late client
/// would lose: another whole batch. An open loop loses at most 4 % of its time by it, where a batch
/// takes 25 ms or more.
fn gather(took: Duration) -> Duration {
    GATHER_MIN.max(took / 25)
}

/// Shortest wait for the clients that were just answered, enough for a process that isn't kept from
/// running.
const GATHER_MIN: Duration = Duration::from_millis(1);

/// A request to generate, with the time when its line was read.
#[derive(Debug)]
pub struct Waiting {
    /// When the request's line was read (ns), as in [`crate::wire::Done::received_ns`].
    pub received_ns: u64,
    /// The request to generate.
    pub generate: Generate,
}

impl Waiting {
    /// The request's id.
    pub fn id(&self) -> u64 {
        self.generate.id
    }

    /// Prompt length and number of new tokens, in which all rows of a batch must agree.
    fn shape(&self) -> (usize, u32) {
        (self.generate.prompt_ids.len(), self.generate.new_tokens)
    }
}

/// The next piece of work.
#[derive(Debug)]
pub enum Work {
    /// One or more requests of the same shape, in order of arrival.
    Batch(Vec<Waiting>),
    /// One score, which runs alone.
    Score(Score),
    /// A request that is not valid, with the error to answer.
    Reject(Failure),
}

enum Item {
    Generate(Waiting),
    Score(Score),
    Reject(Failure),
}

/// Requests waiting for the engine.
pub struct Queue {
    inbox: Receiver<Inbound>,
    waiting: VecDeque<Item>,
    max_batch: usize,
    max_context: u32,
    /// Rows of the batch that finished last; 0 if the last work was not a batch.
    answered: usize,
    /// When the work that is running, or ran last, was handed out.
    handed_out: Instant,
    /// How long the work that finished last took.
    took: Duration,
    /// Number of requests that were waiting when that batch finished.
    left_over: usize,
    /// Number of generate requests that arrived since.
    arrived: usize,
    /// Number of requests that were sent together and are still to come.
    to_come: usize,
}

impl Queue {
    /// Create a queue over `inbox` that forms batches of up to `max_batch` rows.
    pub fn new(inbox: Receiver<Inbound>, max_batch: usize, max_context: u32) -> Self {
        Self {
            inbox,
            waiting: VecDeque::new(),
            max_batch,
            max_context,
            answered: 0,
            handed_out: Instant::now(),
            took: Duration::ZERO,
            left_over: 0,
            arrived: 0,
            to_come: 0,
        }
    }

    /// Wait for the next piece of work; `None` when everything is answered and the input has
    /// ended. Must be called as soon as the last answer is written.
    pub fn next(&mut self) -> Option<Work> {
        let deadline = Instant::now() + gather(self.took);
        self.drain();
        if self.waiting.is_empty() {
            let message = self.inbox.recv().ok()?;
            self.admit(message);
        }
        self.complete();
        self.gather(deadline);
        self.handed_out = Instant::now();
        Some(match self.waiting.pop_front()? {
            Item::Generate(first) => Work::Batch(self.join(first)),
            Item::Score(score) => Work::Score(score),
            Item::Reject(failure) => Work::Reject(failure),
        })
    }

    /// Record that a batch of `rows` (0: other work) is finished. Must be called before it is
    /// answered, so that a request that arrived earlier is not taken for a reply to that answer.
    pub fn finished(&mut self, rows: usize) {
        self.took = self.handed_out.elapsed();
        self.drain();
        self.answered = rows;
        self.left_over = self.waiting.len();
        self.arrived = 0;
    }

    /// Wait for the rest of the requests that were sent together, or for as many as fit in a batch.
    fn complete(&mut self) {
        while self.to_come > 0 && self.waiting.len() < self.max_batch {
            match self.inbox.recv() {
                Ok(message) => self.admit(message),
                Err(_) => return,
            }
        }
    }

    fn gather(&mut self, deadline: Instant) {
        if self.answered + self.left_over <= 1 {
            return;
        }
        while self.arrived < self.answered && self.joinable() < self.max_batch {
            // A score at the front does not wait. A late first request is not held up either,
            // because the deadline counts from the last answer.
            if !matches!(self.waiting.front(), Some(Item::Generate(_))) {
                return;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            match self.inbox.recv_timeout(left) {
                Ok(message) => self.admit(message),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Return how many waiting requests could run together with the first one, itself included.
    fn joinable(&self) -> usize {
        let Some(Item::Generate(first)) = self.waiting.front() else {
            return 0;
        };
        let equal = |item: &&Item| matches!(item, Item::Generate(w) if w.shape() == first.shape());
        self.waiting.iter().filter(equal).count()
    }

    /// Return `first` and every waiting request of its shape, up to `max_batch`.
    fn join(&mut self, first: Waiting) -> Vec<Waiting> {
        let shape = first.shape();
        let mut batch = vec![first];
        let mut rest = VecDeque::with_capacity(self.waiting.len());
        for item in self.waiting.drain(..) {
            match item {
                Item::Generate(w) if w.shape() == shape && batch.len() < self.max_batch => {
                    batch.push(w);
                }
                other => rest.push_back(other),
            }
        }
        self.waiting = rest;
        batch
    }

    fn drain(&mut self) {
        while let Ok(message) = self.inbox.try_recv() {
            self.admit(message);
        }
    }

    fn admit(&mut self, message: Inbound) {
        let item = match message {
            Inbound::Malformed(message) => reject(None, message),
            Inbound::Request(received_ns, Request::Generate(generate)) => {
                self.arrived += 1;
                self.to_come = match self.to_come {
                    0 => generate.together.saturating_sub(1) as usize,
                    left => left - 1,
                };
                match check_generate(&generate, self.max_context) {
                    Ok(()) => Item::Generate(Waiting {
                        received_ns,
                        generate,
                    }),
                    Err(message) => reject(Some(generate.id), message),
                }
            }
            Inbound::Request(_, Request::Score(score)) => {
                match check_score(&score, self.max_context) {
                    Ok(()) => Item::Score(score),
                    Err(message) => reject(Some(score.id), message),
                }
            }
            Inbound::Request(_, Request::Load(_)) => reject(None, LOADED_ALREADY.to_string()),
            Inbound::Request(_, Request::Exit) => return,
        };
        self.waiting.push_back(item);
    }
}

fn reject(id: Option<u64>, message: String) -> Item {
    Item::Reject(bad_request(id, message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Sender, channel};

    fn generate(id: u64, prompt: usize, new_tokens: u32) -> Inbound {
        one_of(1, id, prompt, new_tokens)
    }

    fn one_of(together: u32, id: u64, prompt: usize, new_tokens: u32) -> Inbound {
        let prompt_ids = vec![7; prompt];
        Inbound::Request(
            id,
            Request::Generate(Generate {
                id,
                prompt_ids,
                new_tokens,
                together,
            }),
        )
    }

    fn queue(max_batch: usize) -> (Sender<Inbound>, Queue) {
        let (sender, inbox) = channel();
        (sender, Queue::new(inbox, max_batch, 64))
    }

    fn ids(work: Option<Work>) -> Vec<u64> {
        match work {
            Some(Work::Batch(batch)) => batch.iter().map(Waiting::id).collect(),
            other => panic!("expected a batch, got {other:?}"),
        }
    }

    #[test]
    fn equal_shapes_share_a_batch_and_others_keep_their_order() {
        let (sender, mut queue) = queue(3);
        for (id, prompt, new) in [
            (1, 4, 8),
            (2, 5, 8),
            (3, 4, 8),
            (4, 4, 9),
            (5, 4, 8),
            (6, 4, 8),
            (7, 5, 8),
        ] {
            sender.send(generate(id, prompt, new)).unwrap();
        }
        drop(sender);
        assert_eq!(ids(queue.next()), [1, 3, 5]);
        assert_eq!(ids(queue.next()), [2, 7]);
        assert_eq!(ids(queue.next()), [4]);
        assert_eq!(ids(queue.next()), [6]);
        assert!(queue.next().is_none());
    }

    #[test]
    fn a_batch_waits_for_those_just_answered() {
        let (sender, mut queue) = queue(8);
        queue.finished(2);
        sender.send(generate(1, 4, 8)).unwrap();
        let late = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_micros(50));
            sender.send(generate(2, 4, 8)).unwrap();
            sender
        });
        // Whether the second arrives within the wait depends on thread scheduling; none may be
        // lost or doubled either way.
        let mut seen = ids(queue.next());
        let sender = late.join().unwrap();
        if seen.len() == 1 {
            seen.extend(ids(queue.next()));
        }
        assert_eq!(seen, [1, 2]);
        drop(sender);
        assert!(queue.next().is_none());
    }

    #[test]
    fn a_long_batch_is_waited_for_longer() {
        let wait = |ms| gather(Duration::from_millis(ms)).as_millis();
        assert_eq!([0, 25, 50, 3_400].map(wait), [1, 1, 2, 136]);
    }

    #[test]
    fn the_wait_ends_when_as_many_came_as_were_answered() {
        let (sender, mut queue) = queue(8);
        queue.finished(0);
        sender.send(generate(9, 4, 8)).unwrap(); // came in during the batch
        queue.finished(2);
        sender.send(generate(1, 4, 8)).unwrap();
        sender.send(generate(2, 4, 8)).unwrap();
        // All three at once: the one left over and the two that were answered.
        assert_eq!(ids(queue.next()), [9, 1, 2]);
        assert_eq!(queue.arrived, 2);
    }

    #[test]
    fn a_batch_waits_for_all_that_are_sent_at_once() {
        let (sender, mut queue) = queue(8);
        sender.send(one_of(4, 1, 4, 8)).unwrap();
        // The engine is idle and asks before the other three are there.
        let late = std::thread::spawn(move || {
            for id in 2..=4 {
                std::thread::sleep(2 * GATHER_MIN);
                sender.send(one_of(4, id, 4, 8)).unwrap();
            }
            sender
        });
        assert_eq!(ids(queue.next()), [1, 2, 3, 4]);
        drop(late.join().unwrap());
        assert!(queue.next().is_none());
    }

    #[test]
    fn a_full_batch_waits_for_no_more_and_the_end_of_input_ends_the_wait() {
        let (sender, mut queue) = queue(2);
        for id in 1..=3 {
            sender.send(one_of(4, id, 4, 8)).unwrap();
        }
        assert_eq!(ids(queue.next()), [1, 2]);
        drop(sender);
        assert_eq!(ids(queue.next()), [3]);
        assert!(queue.next().is_none());
    }

    #[test]
    fn two_users_out_of_step_find_together() {
        let (sender, mut queue) = queue(8);
        sender.send(generate(1, 4, 8)).unwrap();
        assert_eq!(ids(queue.next()), [1]);
        sender.send(generate(2, 4, 8)).unwrap(); // while the first is running
        queue.finished(1);
        sender.send(generate(3, 4, 8)).unwrap(); // the first's user again
        assert_eq!(ids(queue.next()), [2, 3]);
    }

    #[test]
    fn what_makes_no_sense_is_turned_away() {
        let (sender, mut queue) = queue(8);
        for message in [
            generate(1, 0, 8),
            generate(2, 4, 0),
            generate(3, 60, 5),
            Inbound::Request(0, Request::Score(score(4, 3, 0))),
            Inbound::Request(0, Request::Score(score(5, 3, 4))),
            Inbound::Request(0, Request::Score(score(6, 65, 1))),
        ] {
            sender.send(message).unwrap();
        }
        sender.send(generate(7, 60, 4)).unwrap();
        for id in 1..=6 {
            match queue.next() {
                Some(Work::Reject(failure)) => assert_eq!(failure.id, Some(id)),
                other => panic!("{id}: {other:?}"),
            }
        }
        assert_eq!(ids(queue.next()), [7]);
    }

    fn score(id: u64, ids: usize, ask: usize) -> Score {
        Score {
            id,
            ids: vec![1; ids],
            ask: vec![vec![]; ask],
            top: 0,
            parallel: false,
        }
    }
}
