//! The reference, asked about every distinct output of a run once.
//!
//! Questions go out ahead of the answers, in the order they were put: an engine that
//! scores several in one pass then finds several waiting, and those of one case, which
//! are put one after the other, are of one length. All outputs of one prompt go out together,
//! so that it can be computed once for them. It deliberately forms no batches: what shares
//! a pass is the engine's business.

use super::Judge;
use crate::engine::EngineFailure;
use crate::engine::session::{Patience, Session};
use crate::prompts;
use crate::run::positions;
use crate::verify::output::{self, Output};
use crate::verify::question::load_for_cases;
use anyhow::Result;
use protocol::wire::{Load, Scored};
use schema::golden::{GoldenPrompt, TOP};
use schema::run::Run;
use std::collections::BTreeMap;
use std::rc::Rc;
use tokenizers::Tokenizer;
use watch::Control;

/// By how much (nats) the reference prefers another token, at worst; 0 where
/// every token is its own best.
pub type Gap = f64;

/// A gap that stands for "another text".
const OTHER_TEXT: Gap = f64::MAX;

/// Tokens of the questions in flight: enough that some wait while others are scored, and
/// so few that their lines fit the pipe of an engine that doesn't read.
const TOKENS_IN_FLIGHT: usize = 8192;
/// And with further outputs of a prompt that is in flight: lines of at most 1 MiB, the largest pipe.
const TOKENS_ALIKE: usize = 8 * TOKENS_IN_FLIGHT;

/// A prompt, and what was generated after it.
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
    /// As ids: the number of its question.
    Ids(usize),
    /// As text.
    Text {
        /// What came before it.
        prompt: Vec<u32>,
        /// The text itself.
        text: String,
        /// How many tokens it stands for.
        new_tokens: usize,
        /// The number of the question about the ids that it encodes to.
        ids: Option<usize>,
    },
}

/// The reference and what it has been asked.
pub struct Asker {
    /// Its target's id.
    pub name: String,
    session: Session,
    tokenizer: Tokenizer,
    numbers: BTreeMap<Rc<Question>, usize>,
    /// By number.
    questions: Vec<Rc<Question>>,
    /// By number: what has been answered.
    gaps: Vec<Option<Gap>>,
    /// How many questions have been sent, from the first on.
    sent: usize,
    /// By the id of the request: the number of the question.
    in_flight: BTreeMap<u64, usize>,
    tokens_in_flight: usize,
    /// The reference's own output, where texts are held against it.
    own: BTreeMap<(Vec<u32>, usize), GoldenPrompt>,
}

impl Asker {
    /// Load the judge of `run`.
    pub fn open(run: &Run, judge: &Judge, control: &Control) -> Result<Self> {
        let plan = &run.header.plan;
        // No target was timed beyond the positions that it is verified for.
        let targets = plan.targets.iter();
        let reached = targets
            .map(|target| positions(&run.verify, &target.id))
            .max();
        let reached = reached.unwrap_or(0);
        let cases = plan.scenarios.iter().flat_map(|scenario| &scenario.cases);
        let cases = cases.filter(|case| case.prompt_tokens + case.new_tokens <= reached);
        // What it generates itself it generates alone, and scores take no place in a batch.
        let load = Load {
            max_batch: 1,
            ..load_for_cases(judge.target, judge.model_dir, plan.threads, cases)
        };
        let patience = Patience::new(plan, control);
        let session =
            Session::open(judge.program, &load, &patience).map_err(|(failure, tail)| {
                anyhow::anyhow!(
                    "{} can't judge the outputs: {failure}\n{tail}",
                    judge.target.id
                )
            })?;
        let tokenizer = prompts::tokenizer(judge.model_dir)?;
        Ok(Self::new(judge.target.id.clone(), session, tokenizer))
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

    /// How many distinct questions have been put.
    pub fn distinct(&self) -> usize {
        self.questions.len()
    }

    /// How many of them have been answered.
    pub fn answered(&self) -> usize {
        self.sent - self.in_flight.len()
    }

    /// Put an output to the reference, which is asked in the order of these calls and
    /// answers through [`Asker::gap`].
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

    /// What the reference says of an output; `None` of a text that can't be judged to
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

    /// Ask it to exit.
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

    /// Send what there is room for, but one question at least.
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

    /// The ids that a text stands for, if it stands for that many.
    fn ids_of(&self, text: &str, new_tokens: usize) -> Option<Vec<u32>> {
        let encoding = self.tokenizer.encode(text, false).ok()?;
        let ids = encoding.get_ids();
        let again = self.tokenizer.decode(ids, true).ok()?;
        (ids.len() == new_tokens && again == text).then(|| ids.to_vec())
    }

    /// What the reference itself generates, as a golden of one prompt.
    fn own(&mut self, prompt: &[u32], new_tokens: usize) -> Result<GoldenPrompt, EngineFailure> {
        let key = (prompt.to_vec(), new_tokens);
        if let Some(own) = self.own.get(&key) {
            return Ok(own.clone());
        }
        while !self.in_flight.is_empty() {
            self.receive()?;
        }
        self.session
            .send_generate(prompt.to_vec(), new_tokens as u32)?;
        let (done, _) = self.session.next_done()?;
        let mut own = GoldenPrompt {
            name: "timed".into(),
            prompt_ids: prompt.to_vec(),
            output_ids: done.output_ids,
            top_ids: Vec::new(),
            top_logprobs: Vec::new(),
        };
        let nothing = vec![Vec::new(); new_tokens];
        let parallel = self.session.hello.capabilities.parallel_score;
        let scored = self
            .session
            .score(own.forced_ids(), nothing, TOP as u32, parallel)?;
        own.top_ids = scored.top_ids;
        own.top_logprobs = scored.top_logprobs;
        self.own.insert(key, own.clone());
        Ok(own)
    }
}

fn gap_of(output: &[u32], scored: &Scored) -> Gap {
    let mut gap: Gap = 0.0;
    for (position, &id) in output.iter().enumerate() {
        if scored.argmax[position] != id {
            let behind = scored.top_logprobs[position][0] - scored.logprobs[position][0];
            // An exact tie that the reference breaks the other way still isn't its own output.
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
