//! Asks the reference once about every distinct output of a run.
//!
//! Questions are sent ahead of the answers, in the order in which they were put: an engine that
//! scores several in one pass then finds several waiting, and those of one case, which are put one
//! after the other, have one length. All outputs of one prompt are sent together, so that it can be
//! computed once for them. Deliberately forms no batches: the engine decides which questions share
//! a pass.

use super::Judge;
use crate::engine::EngineFailure;
use crate::engine::load::load_for_cases;
use crate::engine::session::{Session, Timeouts};
use crate::prompts;
use crate::run::positions;
use crate::verify::golden::continuation;
use crate::verify::output::{self, Output};
use anyhow::Result;
use protocol::wire::{Load, Scored};
use schema::golden::GoldenPrompt;
use schema::run::Run;
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;
use tokenizers::Tokenizer;
use watch::Control;

/// By how much the reference prefers another token (nats), the largest over an output's tokens; 0
/// where every token is its own best.
pub type Gap = f64;

/// The gap of a text that differs from the reference's own.
const OTHER_TEXT: Gap = f64::MAX;

/// The maximum number of tokens in flight. It is large enough that some questions wait while others
/// are scored, and small enough that their lines fit the pipe of an engine that doesn't read.
const TOKENS_IN_FLIGHT: usize = 8192;
/// The maximum where the next question has the same prompt as the last one: the lines fit 1 MiB,
/// the largest pipe.
const TOKENS_ALIKE: usize = 8 * TOKENS_IN_FLIGHT;

/// A prompt and the output that was generated after it, both as token ids.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Question {
    prompt: Vec<u32>,
    output: Vec<u32>,
}

impl Question {
    fn tokens(&self) -> usize {
        self.prompt.len() + self.output.len()
    }
}

/// A timed output that was put to the reference.
pub enum Put {
    /// An output of ids: the number of its question.
    Ids(usize),
    /// An output of text.
    Text {
        prompt: Vec<u32>,
        text: String,
        /// The number of tokens that were generated.
        new_tokens: usize,
        /// The number of the question about the ids that it encodes to, if they are as many.
        ids: Option<usize>,
    },
}

/// A session with the reference, and the questions that it was asked.
pub struct Asker {
    /// The id of the reference's target, and the weights that it has where they aren't the model's.
    pub name: String,
    session: Session,
    tokenizer: Tokenizer,
    numbers: BTreeMap<Rc<Question>, usize>,
    /// The questions by number.
    questions: Vec<Rc<Question>>,
    /// The gaps by question number; `None` until the answer is there.
    gaps: Vec<Option<Gap>>,
    /// The number of questions that were sent; they are sent in order.
    sent: usize,
    /// Request id → question number.
    in_flight: BTreeMap<u64, usize>,
    tokens_in_flight: usize,
    /// Outputs that the reference generated itself, with which texts are compared.
    own: BTreeMap<(Vec<u32>, usize), GoldenPrompt>,
}

impl Asker {
    /// Start the judge of `run` with the model in `model_dir`; `name` is what it is called.
    pub fn open(
        run: &Run,
        judge: &Judge,
        name: String,
        model_dir: &Path,
        control: &Control,
    ) -> Result<Self> {
        let plan = &run.header.plan;
        // No target was timed beyond the positions that it is verified for.
        let targets = plan.targets.iter();
        let reached = targets
            .map(|target| positions(&run.verify, &target.id))
            .max();
        let reached = reached.unwrap_or(0);
        let cases = plan.scenarios.iter().flat_map(|scenario| &scenario.cases);
        let cases = cases.filter(|case| case.prompt_tokens + case.new_tokens <= reached);
        // The judge generates one output at a time, and scores need no place in a batch.
        let load = Load {
            max_batch: 1,
            ..load_for_cases(judge.target, model_dir, plan.threads, cases)
        };
        let timeouts = Timeouts::new(plan, control);
        let session = Session::open(judge.program, &load, &timeouts).map_err(|failure| {
            let (id, tail) = (&judge.target.id, &failure.stderr_tail);
            anyhow::anyhow!("{id} can't judge the outputs: {failure}\n{tail}")
        })?;
        let tokenizer = prompts::tokenizer(model_dir)?;
        Ok(Self::new(name, session, tokenizer))
    }

    fn new(name: String, session: Session, tokenizer: Tokenizer) -> Self {
        Self {
            name,
            session,
            tokenizer,
            numbers: BTreeMap::new(),
            questions: Vec::new(),
            gaps: Vec::new(),
            sent: 0,
            in_flight: BTreeMap::new(),
            tokens_in_flight: 0,
            own: BTreeMap::new(),
        }
    }

    /// The number of distinct questions that were put.
    pub fn distinct(&self) -> usize {
        self.questions.len()
    }

    /// The number of questions that were answered.
    pub fn answered(&self) -> usize {
        self.sent - self.in_flight.len()
    }

    /// Put an output to the reference, which is asked in the order of these calls; its answers come
    /// through [`Asker::gap`].
    pub fn put(&mut self, prompt: &[u32], output: Output, new_tokens: usize) -> Put {
        match output {
            Output::Ids(ids) => Put::Ids(self.number(prompt, ids)),
            Output::Text(text) => {
                let ids = self.ids_of(&text, new_tokens);
                Put::Text {
                    prompt: prompt.to_vec(),
                    ids: ids.map(|ids| self.number(prompt, ids)),
                    text,
                    new_tokens,
                }
            }
        }
    }

    fn number(&mut self, prompt: &[u32], output: Vec<u32>) -> usize {
        let prompt = prompt.to_vec();
        let question = Rc::new(Question { prompt, output });
        let next = self.questions.len();
        let number = *self.numbers.entry(Rc::clone(&question)).or_insert(next);
        if number == next {
            self.questions.push(question);
            self.gaps.push(None);
        }
        number
    }

    /// Wait for the reference's judgement of an output; `None` for a text that can't be judged to
    /// its end.
    pub fn gap(&mut self, put: &Put, tie_width_nats: f64) -> Result<Option<Gap>, EngineFailure> {
        match put {
            Put::Ids(number) => self.answer(*number).map(Some),
            Put::Text {
                prompt,
                text,
                new_tokens,
                ids,
            } => {
                if let Some(number) = ids {
                    let gap = self.answer(*number)?;
                    if gap <= tie_width_nats {
                        return Ok(Some(gap));
                    }
                }
                let own = self.own(prompt, *new_tokens)?;
                let output = Output::Text(text.clone());
                Ok(
                    match output::judge(&own, &output, tie_width_nats, &self.tokenizer) {
                        Ok(agreement) if agreement.judged == *new_tokens => Some(0.0),
                        Ok(_) => None,
                        Err(_) => Some(OTHER_TEXT),
                    },
                )
            }
        }
    }

    /// Ask the reference's engine to exit.
    pub fn close(self) {
        let _ = self.session.close();
    }

    fn answer(&mut self, number: usize) -> Result<Gap, EngineFailure> {
        loop {
            if let Some(gap) = self.gaps[number] {
                return Ok(gap);
            }
            self.send_ahead()?;
            self.receive()?;
        }
    }

    /// Send the questions that there is room for, and at least one if none is in flight.
    fn send_ahead(&mut self) -> Result<(), EngineFailure> {
        while let Some(question) = self.questions.get(self.sent) {
            let tokens = self.tokens_in_flight + question.tokens();
            let last = self.sent.checked_sub(1).map(|last| &self.questions[last]);
            let begins_alike = last.is_some_and(|last| last.prompt == question.prompt);
            let most = match begins_alike {
                true => TOKENS_ALIKE,
                false => TOKENS_IN_FLIGHT,
            };
            if tokens > most && !self.in_flight.is_empty() {
                break;
            }
            let (_, forced) = question.output.split_last().expect("an output has a token");
            let ids = [question.prompt.as_slice(), forced].concat();
            let ask = question.output.iter().map(|&id| vec![id]).collect();
            let parallel = self.session.hello.capabilities.parallel_score;
            let id = self.session.send_score(ids, ask, 1, parallel)?;
            self.in_flight.insert(id, self.sent);
            self.tokens_in_flight = tokens;
            self.sent += 1;
        }
        Ok(())
    }

    fn receive(&mut self) -> Result<(), EngineFailure> {
        let scored = self.session.next_scored()?;
        let number = self.in_flight.remove(&scored.id);
        let number = number.expect("the session takes no answer to what wasn't asked");
        let question = &self.questions[number];
        self.tokens_in_flight -= question.tokens();
        self.gaps[number] = Some(gap_of(&question.output, &scored));
        Ok(())
    }

    /// The ids of a text, if they are `new_tokens` and decode to it again.
    fn ids_of(&self, text: &str, new_tokens: usize) -> Option<Vec<u32>> {
        let encoding = self.tokenizer.encode(text, false).ok()?;
        let ids = encoding.get_ids();
        let again = self.tokenizer.decode(ids, true).ok()?;
        (ids.len() == new_tokens && again == text).then(|| ids.to_vec())
    }

    /// The output that the reference itself generates, as a golden of one prompt.
    fn own(&mut self, prompt: &[u32], new_tokens: usize) -> Result<GoldenPrompt, EngineFailure> {
        let key = (prompt.to_vec(), new_tokens);
        if let Some(own) = self.own.get(&key) {
            return Ok(own.clone());
        }
        while !self.in_flight.is_empty() {
            self.receive()?;
        }
        let parallel = self.session.hello.capabilities.parallel_score;
        let prompt = prompt.to_vec();
        let own = continuation(&mut self.session, "timed", prompt, new_tokens, parallel)?;
        self.own.insert(key, own.clone());
        Ok(own)
    }
}

fn gap_of(output: &[u32], scored: &Scored) -> Gap {
    let mut gap: Gap = 0.0;
    for (position, &id) in output.iter().enumerate() {
        if scored.argmax[position] != id {
            let behind = scored.top_logprobs[position][0] - scored.logprobs[position][0];
            // At an exact tie the reference's own token is another, so the gap must not be 0.
            gap = gap.max(if behind.is_finite() {
                behind.max(f64::MIN_POSITIVE)
            } else {
                f64::MAX
            });
        }
    }
    gap
}

#[cfg(test)]
mod tests;
