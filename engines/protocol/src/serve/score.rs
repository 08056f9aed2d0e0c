//! Teacher-forced scoring for the parity gate, made of the same steps that are timed. It
//! deliberately has no fast path: if `score` ran other code than `generate`, the gate would verify
//! other code.

use crate::engine::{Engine, EngineError};
use crate::ids::check_ids;
use crate::scheduler::Scheduler;
use crate::wire::{Score, Scored};

/// How far below the highest logit the engine's own choice may lie, relative to that logit: if an
/// engine computes `logits` separately from its choice, the last bits may differ. A larger
/// difference means that `generate` and `score` don't compute the same model.
const CHOICE_SLACK: f32 = 1e-4;

/// Answer `request` through an [`Engine`]; its bounds have been checked.
pub fn run(engine: &mut impl Engine, request: &Score) -> Result<Scored, EngineError> {
    let (prompt, forced) = split(request);
    let mut answer = Answer::to(request);
    let mut choice = engine.prefill(&[prompt])?;
    for position in 0..request.ask.len() {
        if position > 0 {
            choice = engine.decode(&[forced[position - 1]])?;
        }
        let logits = engine.logits(0)?;
        answer
            .take(position, &logits)?
            .check_choice(position, &choice)?;
    }
    Ok(answer.scored)
}

/// Answer `request` through a [`Scheduler`]; its bounds have been checked.
pub fn run_forced(engine: &mut impl Scheduler, request: &Score) -> Result<Scored, EngineError> {
    let (prompt, forced) = split(request);
    let mut answer = Answer::to(request);
    let all = engine.forced_logits(prompt, forced)?;
    if all.len() != request.ask.len() {
        return Err(EngineError::internal(format!(
            "the engine gave logits of {} positions, not of {}",
            all.len(),
            request.ask.len()
        )));
    }
    for (position, logits) in all.iter().enumerate() {
        answer.take(position, logits)?;
    }
    Ok(answer.scored)
}

/// Split the ids into those that are prefilled, and those that are then forced, one per step.
fn split(request: &Score) -> (&[u32], &[u32]) {
    request
        .ids
        .split_at(request.ids.len() - request.ask.len() + 1)
}

/// An answer that grows position by position.
struct Answer<'a> {
    request: &'a Score,
    scored: Scored,
}

impl<'a> Answer<'a> {
    fn to(request: &'a Score) -> Self {
        let scored = Scored {
            id: request.id,
            argmax: Vec::with_capacity(request.ask.len()),
            logprobs: Vec::with_capacity(request.ask.len()),
            top_ids: Vec::new(),
            top_logprobs: Vec::new(),
        };
        Self { request, scored }
    }

    fn take<'l>(&mut self, position: usize, logits: &'l [f32]) -> Result<View<'l>, EngineError> {
        let view = View::new(logits)
            .ok_or_else(|| EngineError::internal(format!("logits {position} are not finite")))?;
        let logprobs = |ids: &[u32]| -> Result<Vec<f64>, EngineError> {
            ids.iter().map(|&id| view.logprob(id)).collect()
        };
        self.scored.argmax.push(view.argmax);
        self.scored
            .logprobs
            .push(logprobs(&self.request.ask[position])?);
        if self.request.top > 0 {
            let ids = view.top(self.request.top as usize);
            self.scored.top_logprobs.push(logprobs(&ids)?);
            self.scored.top_ids.push(ids);
        }
        Ok(view)
    }
}

/// The logits of one position, with their argmax and normalisation.
struct View<'a> {
    logits: &'a [f32],
    argmax: u32,
    /// ln Σ exp(logit), in f64: over a hundred thousand terms, f32 loses digits that the f32 limit
    /// of the gate needs.
    log_sum: f64,
}

impl<'a> View<'a> {
    /// Create a view; `None` if there are no logits or one is not finite.
    fn new(logits: &'a [f32]) -> Option<Self> {
        let mut argmax = 0;
        for (id, &logit) in logits.iter().enumerate() {
            if !logit.is_finite() {
                return None;
            }
            // Strictly greater, so the lowest id wins a tie.
            if logit > logits[argmax] {
                argmax = id;
            }
        }
        let max = f64::from(*logits.get(argmax)?);
        let sum: f64 = logits
            .iter()
            .map(|&logit| (f64::from(logit) - max).exp())
            .sum();
        Some(Self {
            logits,
            argmax: argmax as u32,
            log_sum: max + sum.ln(),
        })
    }

    fn logprob(&self, id: u32) -> Result<f64, EngineError> {
        check_ids(&[id], self.logits.len())?;
        Ok(f64::from(self.logits[id as usize]) - self.log_sum)
    }

    /// Return the `count` most likely ids, most likely first, lowest id first on a tie.
    fn top(&self, count: usize) -> Vec<u32> {
        let mut ids: Vec<u32> = (0..self.logits.len() as u32).collect();
        ids.sort_by(|&a, &b| self.logits[b as usize].total_cmp(&self.logits[a as usize]));
        ids.truncate(count);
        ids
    }

    fn check_choice(&self, position: usize, choice: &[u32]) -> Result<(), EngineError> {
        let max = self.logits[self.argmax as usize];
        let chosen = choice.first().and_then(|&id| self.logits.get(id as usize));
        let slack = CHOICE_SLACK * max.abs().max(1.0);
        if chosen.is_some_and(|&logit| max - logit <= slack) {
            return Ok(());
        }
        Err(EngineError::internal(format!(
            "at position {position} the engine chose {choice:?}, but its logits say {}",
            self.argmax
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::FailureKind;

    #[test]
    fn logprobs_are_normalised_and_the_lowest_id_wins_a_tie() {
        // The softmax of ln 1, ln 2, ln 2, ln 3 has parts of 8; an added constant changes nothing.
        let logits: Vec<f32> = [1.0f32, 2.0, 2.0, 3.0]
            .iter()
            .map(|x| x.ln() + 100.0)
            .collect();
        let view = View::new(&logits).unwrap();
        assert_eq!(view.argmax, 3);
        for (id, parts) in [(0, 1.0), (1, 2.0), (3, 3.0f64)] {
            assert!((view.logprob(id).unwrap().exp() - parts / 8.0).abs() < 1e-6);
        }
        assert_eq!(view.top(3), [3, 1, 2]);
        assert_eq!(View::new(&[5.0, 7.0, 7.0]).unwrap().argmax, 1);
    }

    #[test]
    fn what_is_not_a_distribution_is_an_error() {
        assert!(View::new(&[1.0, f32::NAN]).is_none());
        assert!(View::new(&[]).is_none());
        let view = View::new(&[1.0, 2.0]).unwrap();
        assert_eq!(view.logprob(2).unwrap_err().kind, FailureKind::BadRequest);
    }

    #[test]
    fn a_choice_that_contradicts_the_logits_is_an_error() {
        let view = View::new(&[1.0, 2.0]).unwrap();
        assert!(view.check_choice(0, &[1]).is_ok());
        assert!(view.check_choice(0, &[0]).is_err());
        assert!(view.check_choice(0, &[9]).is_err());
    }
}
