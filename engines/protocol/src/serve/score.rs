//! Teacher-forced scoring for the parity gate, out of the same `prefill` and
//! `decode` that are timed. It deliberately has no fast path: a `score` that
//! ran other code than `generate` would verify other code.

use crate::engine::{Engine, EngineError};
use crate::wire::{FailureKind, Score, Scored};

/// How far below the highest logit the engine's own choice may lie, relative to
/// it: where an engine computes `logits` apart from its choice, the last bits
/// may differ. More, and `generate` and `score` are not the same model.
const CHOICE_SLACK: f32 = 1e-4;

/// Answer `request`; its bounds have been checked.
pub fn run(engine: &mut impl Engine, request: &Score) -> Result<Scored, EngineError> {
    let positions = request.ask.len();
    let mut scored = Scored {
        id: request.id,
        argmax: Vec::with_capacity(positions),
        logprobs: Vec::with_capacity(positions),
        top_ids: Vec::new(),
        top_logprobs: Vec::new(),
    };
    let (prompt, forced) = request.ids.split_at(request.ids.len() - positions + 1);
    let mut choice = engine.prefill(&[prompt])?;
    for (position, ask) in request.ask.iter().enumerate() {
        if position > 0 {
            choice = engine.decode(&[forced[position - 1]])?;
        }
        let logits = engine.logits(0)?;
        let view = View::new(&logits)
            .ok_or_else(|| EngineError::internal(format!("logits {position} are not finite")))?;
        view.check_choice(position, &choice)?;
        scored.argmax.push(view.argmax);
        scored.logprobs.push(
            ask.iter()
                .map(|&id| view.logprob(id))
                .collect::<Result<_, _>>()?,
        );
        if request.top > 0 {
            let ids = view.top(request.top as usize);
            let logprobs = ids
                .iter()
                .map(|&id| view.logprob(id))
                .collect::<Result<_, _>>()?;
            scored.top_ids.push(ids);
            scored.top_logprobs.push(logprobs);
        }
    }
    Ok(scored)
}

/// One position's logits and what normalises them.
struct View<'a> {
    logits: &'a [f32],
    argmax: u32,
    /// ln Σ exp(logit), in f64: over a hundred thousand terms f32 loses digits
    /// that the f32 gate needs.
    log_sum: f64,
}

impl<'a> View<'a> {
    /// `None` for no logits, or where one is not finite.
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
        let logit = self.logits.get(id as usize).ok_or_else(|| {
            let message = format!("id {id} is outside the vocabulary of {}", self.logits.len());
            EngineError::new(FailureKind::BadRequest, message)
        })?;
        Ok(f64::from(*logit) - self.log_sum)
    }

    /// The `count` most likely ids, most likely first, lowest id first on a tie.
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

    #[test]
    fn logprobs_are_normalised_and_the_lowest_id_wins_a_tie() {
        // softmax of ln 1, ln 2, ln 2, ln 3 over 8; an added constant changes nothing
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
