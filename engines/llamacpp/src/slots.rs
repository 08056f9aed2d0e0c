//! The scheduler: it decides which sequence feeds which tokens in which step. Every step feeds one
//! token of each sequence that is past its prompt, then prompt tokens of the others, oldest first,
//! as many as fit; sequences join and leave between steps. It deliberately knows nothing of
//! llama.cpp or threads.

use protocol::argmax;
use protocol::clock::now_ns;
use protocol::engine::EngineError;
use protocol::scheduler::Job;
use protocol::wire::Done;
use std::collections::VecDeque;
use std::sync::mpsc::Sender;

/// Runs the steps that the scheduler composes.
pub trait Decoder {
    /// Largest number of tokens in a step.
    fn tokens_max(&self) -> usize;

    /// Add `token` of the sequence in `slot` to the next step; `wanted` says whether its logits
    /// will be read.
    fn feed(&mut self, slot: usize, position: usize, token: u32, wanted: bool);

    /// Run a step over the tokens that were fed since the last one.
    fn step(&mut self) -> Result<(), EngineError>;

    /// Return the logits after the `index`th token of the last step.
    fn logits(&mut self, index: usize) -> Result<&[f32], EngineError>;

    /// Discard everything that was fed in `slot`.
    fn forget(&mut self, slot: usize);

    /// Discard everything that was fed in `slot` except its first `positions`; return `false`,
    /// with everything unchanged, if the decoder can't.
    fn keep(&mut self, slot: usize, positions: usize) -> bool;
}

/// A piece of work for the scheduler.
pub enum Work {
    /// Generate greedy tokens, for an answer with times.
    Generate(Job),
    /// Feed given tokens (teacher forcing), for their logits.
    Force(Forced),
}

/// A sequence whose tokens are given instead of chosen.
pub struct Forced {
    /// The tokens that are fed first, like a prompt.
    pub prompt: Vec<u32>,
    /// The tokens that are fed after it, one per step.
    pub forced: Vec<u32>,
    /// Receives the logits after the prompt and after each forced token.
    pub reply: Sender<Result<Vec<Vec<f32>>, EngineError>>,
}

/// All sequences, running and waiting.
pub struct Slots<D> {
    decoder: D,
    slots: Vec<Option<Sequence>>,
    waiting: VecDeque<Work>,
    /// Whether a slot keeps what was fed in it when its sequence leaves.
    keeps: bool,
    /// The tokens that each free slot holds; empty for occupied slots.
    held: Vec<Vec<u32>>,
    /// Slots whose prompt is not yet fed completely, oldest first.
    prompts: VecDeque<usize>,
    /// The tokens of the step in progress whose logits are wanted: each one's index in the step,
    /// and its slot.
    wanted: Vec<(usize, usize)>,
}

/// A running sequence, which occupies a slot.
struct Sequence {
    work: Work,
    /// Number of its tokens that were fed.
    fed: usize,
    /// The token to feed next, once the prompt is fed.
    next: u32,
    answer: Done,
    logits: Vec<Vec<f32>>,
    /// Whether the step in progress feeds any of its tokens.
    in_step: bool,
}

impl<D: Decoder> Slots<D> {
    /// Create slots for `count` sequences at a time. With `keeps`, a prompt continues from what a
    /// free slot holds of an earlier sequence with the same beginning.
    pub fn new(decoder: D, count: usize, keeps: bool) -> Self {
        Self {
            decoder,
            slots: (0..count).map(|_| None).collect(),
            waiting: VecDeque::new(),
            keeps,
            held: vec![Vec::new(); count],
            prompts: VecDeque::new(),
            wanted: Vec::with_capacity(count),
        }
    }

    /// Queue `work`, which starts as soon as a slot is free.
    pub fn admit(&mut self, work: Work) {
        self.waiting.push_back(work);
    }

    /// Whether there is nothing to do.
    pub fn idle(&self) -> bool {
        self.waiting.is_empty() && self.slots.iter().all(Option::is_none)
    }

    /// Run one step of all sequences, or do nothing if there is no work.
    pub fn step(&mut self) {
        self.assign_slots();
        self.compose();
        if self.wanted.is_empty() && self.slots.iter().flatten().all(|s| !s.in_step) {
            return;
        }
        if let Err(error) = self.decoder.step().and_then(|()| self.collect()) {
            self.fail(&error);
        }
        self.release();
    }

    /// Move waiting work into free slots, in order of arrival.
    fn assign_slots(&mut self) {
        while let Some(work) = self.waiting.front() {
            let Some((slot, kept)) = self.place_for(work) else {
                return;
            };
            let Some(work) = self.waiting.pop_front() else {
                return;
            };
            let mut sequence = Sequence::new(work);
            sequence.fed = self.clear(slot, kept);
            self.slots[slot] = Some(sequence);
            self.prompts.push_back(slot);
        }
    }

    /// Return the free slot that holds the longest common beginning with the tokens to be fed (the
    /// first of equals), and the length of that beginning.
    fn place_for(&self, work: &Work) -> Option<(usize, usize)> {
        let free = (0..self.slots.len()).filter(|&slot| self.slots[slot].is_none());
        let held = free.map(|slot| (slot, work.reusable_positions(&self.held[slot])));
        held.reduce(|best, other| if other.1 > best.1 { other } else { best })
    }

    /// Discard what a free slot holds except its first `kept` positions; return how many are left.
    fn clear(&mut self, slot: usize, kept: usize) -> usize {
        let held = std::mem::take(&mut self.held[slot]);
        if held.len() <= kept || kept > 0 && self.decoder.keep(slot, kept) {
            return kept;
        }
        self.decoder.forget(slot);
        0
    }

    /// Feed the tokens of the next step.
    fn compose(&mut self) {
        let room = self.decoder.tokens_max();
        let mut index = 0;
        let mut batch = 0;
        self.wanted.clear();
        for (slot, sequence) in self.slots.iter_mut().enumerate() {
            let Some(sequence) = sequence else { continue };
            sequence.in_step = sequence.fed >= sequence.work.prompt().len();
            if sequence.in_step {
                self.decoder.feed(slot, sequence.fed, sequence.next, true);
                sequence.fed += 1;
                self.wanted.push((index, slot));
                index += 1;
                batch += 1;
            }
        }
        while index < room {
            let Some(&slot) = self.prompts.front() else {
                break;
            };
            let Some(sequence) = &mut self.slots[slot] else {
                self.prompts.pop_front();
                continue;
            };
            // The sequence's work begins here, even if it reuses cached positions.
            if sequence.answer.started_ns == 0 {
                sequence.answer.started_ns = now_ns();
            }
            let prompt = sequence.work.prompt();
            let end = prompt.len().min(sequence.fed + room - index);
            for (position, &token) in prompt.iter().enumerate().take(end).skip(sequence.fed) {
                let last = position + 1 == prompt.len();
                self.decoder.feed(slot, position, token, last);
                if last {
                    self.wanted.push((index, slot));
                }
                index += 1;
            }
            if end == prompt.len() {
                self.prompts.pop_front();
            }
            sequence.fed = end;
            sequence.in_step = true;
            batch += 1;
        }
        for sequence in self.slots.iter_mut().flatten().filter(|s| s.in_step) {
            sequence.answer.batch = sequence.answer.batch.max(batch);
        }
    }

    /// Choose a token for each sequence whose logits were computed.
    fn collect(&mut self) -> Result<(), EngineError> {
        for &(index, slot) in &self.wanted {
            let logits = self.decoder.logits(index)?;
            if let Some(sequence) = &mut self.slots[slot] {
                sequence.take(logits);
            }
        }
        Ok(())
    }

    /// Fail the sequences that were in the step; the others may go on.
    fn fail(&mut self, error: &EngineError) {
        for (slot, place) in self.slots.iter_mut().enumerate() {
            if let Some(sequence) = place.take_if(|sequence| sequence.in_step) {
                self.decoder.forget(slot);
                self.prompts.retain(|&prompt| prompt != slot);
                sequence.fail(error.clone());
            }
        }
    }

    /// Remove the finished sequences and answer them.
    fn release(&mut self) {
        for (slot, place) in self.slots.iter_mut().enumerate() {
            if let Some(sequence) = place.take_if(|sequence| sequence.finished()) {
                match self.keeps && sequence.is_chosen() {
                    true => self.held[slot] = sequence.held(),
                    false => self.decoder.forget(slot),
                }
                sequence.finish();
            }
        }
    }
}

impl Work {
    fn prompt(&self) -> &[u32] {
        match self {
            Self::Generate(job) => job.prompt_ids(),
            Self::Force(forced) => &forced.prompt,
        }
    }

    /// Return how many positions of `held` the work may reuse: its prompt except the last token,
    /// whose logits are wanted. Forced work reuses nothing, because the gate asks about whole
    /// sequences.
    fn reusable_positions(&self, held: &[u32]) -> usize {
        match self {
            Self::Generate(job) => {
                let prompt = job.prompt_ids();
                let alike = prompt.iter().zip(held).take_while(|(a, b)| a == b).count();
                alike.min(prompt.len().saturating_sub(1))
            }
            Self::Force(_) => 0,
        }
    }
}

impl Sequence {
    fn new(work: Work) -> Self {
        // Allocated in advance, so that no step allocates.
        let tokens = match &work {
            Work::Generate(job) => job.new_tokens() as usize,
            Work::Force(_) => 0,
        };
        Self {
            work,
            fed: 0,
            next: 0,
            answer: Done {
                token_ns: Vec::with_capacity(tokens),
                output_ids: Vec::with_capacity(tokens),
                ..Done::default()
            },
            logits: Vec::new(),
            in_step: false,
        }
    }

    fn take(&mut self, logits: &[f32]) {
        match &self.work {
            Work::Generate(job) => {
                self.next = argmax(logits);
                let index = self.answer.output_ids.len();
                let token_ns = job.commits().token(index, self.next);
                self.answer.token_ns.push(token_ns);
                self.answer.output_ids.push(self.next);
            }
            Work::Force(forced) => {
                let given = forced.forced.get(self.logits.len());
                self.next = given.copied().unwrap_or(0);
                self.logits.push(logits.to_vec());
            }
        }
    }

    fn finished(&self) -> bool {
        match &self.work {
            Work::Generate(job) => self.answer.output_ids.len() == job.new_tokens() as usize,
            Work::Force(forced) => self.logits.len() > forced.forced.len(),
        }
    }

    /// Whether the sequence's tokens are chosen, not forced.
    fn is_chosen(&self) -> bool {
        matches!(self.work, Work::Generate(_))
    }

    /// Return the tokens that were fed: all except the last one that was chosen.
    fn held(&self) -> Vec<u32> {
        let all = self.work.prompt().iter().chain(&self.answer.output_ids);
        all.take(self.fed).copied().collect()
    }

    fn finish(self) {
        match self.work {
            Work::Generate(job) => job.done(self.answer),
            // The thread that asked is waiting for it, or has ended with the process.
            Work::Force(forced) => drop(forced.reply.send(Ok(self.logits))),
        }
    }

    fn fail(self, error: EngineError) {
        match self.work {
            Work::Generate(job) => job.failed(error),
            Work::Force(forced) => drop(forced.reply.send(Err(error))),
        }
    }
}

#[cfg(test)]
mod tests;
