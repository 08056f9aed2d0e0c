//! Checks prompts asked twice: a target that is told to keep nothing has to compute them twice.
//!
//! A table of answers, or an unrequested cache of prompts, answers without the work that is timed.
//! The shortest of the usual prompts that takes long enough to be timed, with all tokens but the
//! first rotated by some places, gives new prompts of one length. Each is asked for one token, and
//! again after another one, and both are timed by the harness's own clock; the median over three
//! prompts counts. Three rounds must show it before a target fails: a busy machine seldom slows the
//! first requests alone, several times in a row.
//!
//! Only targets that score are checked: an endpoint's server may keep prompts whatever it is told.

use super::setup::GateSetup;
use crate::engine::EngineFailure;
use crate::engine::session::Session;
use schema::golden::GoldenPrompt;

/// Number of prompts in a round.
const PROMPTS: usize = 3;
/// Number of rounds that must all fail before a target fails.
const ROUNDS: usize = 3;
/// Minimum length of a prompt that takes long enough to be timed (tokens).
const TOKENS_MIN: usize = 128;
/// The minimum ratio of the second time to the first, if a prompt is computed again.
const SHARE_MIN: f64 = 0.5;

/// Time that prompts take when asked again, relative to the first time; `None` for a target that
/// isn't checked, or isn't verified for a prompt that is long enough.
pub(super) fn ratio(
    session: &mut Session,
    setup: &GateSetup,
    verified_positions: u32,
) -> Result<Option<f64>, EngineFailure> {
    if !session.hello.capabilities.score {
        return Ok(None);
    }
    let is_asked = |prompt: &&GoldenPrompt| {
        let tokens = prompt.prompt_ids.len();
        tokens >= TOKENS_MIN && prompt.context_tokens() <= verified_positions && !prompt.is_long()
    };
    let asked = setup.golden.prompts.iter().filter(is_asked);
    let Some(shortest) = asked.min_by_key(|prompt| prompt.prompt_ids.len()) else {
        return Ok(None);
    };
    let mut found = None;
    for round in 0..ROUNDS {
        let places = (1..=PROMPTS).map(|prompt| round * PROMPTS + prompt);
        let prompts = places.map(|places| turned(&shortest.prompt_ids, places));
        let ratio = ask_twice(session, &prompts.collect::<Vec<_>>())?;
        found = Some(ratio);
        if failure(ratio).is_none() {
            break;
        }
    }
    Ok(found)
}

/// Why a ratio fails the target; `None` where it doesn't.
pub(super) fn failure(ratio: f64) -> Option<String> {
    (ratio < SHARE_MIN).then(|| {
        format!(
            "asked again, long prompts are answered in {:.1} % of the time that they took at first: the engine keeps answers or prompts, which it must not",
            100.0 * ratio
        )
    })
}

/// Ask each prompt, and again after the next one: returns the median ratio of the second time to
/// the first.
fn ask_twice(session: &mut Session, prompts: &[Vec<u32>]) -> Result<f64, EngineFailure> {
    let (mut first_ns, mut again_ns) = (Vec::new(), Vec::new());
    for (index, prompt) in prompts.iter().enumerate() {
        first_ns.push(answer_ns(session, prompt)?);
        if index > 0 {
            again_ns.push(answer_ns(session, &prompts[index - 1])?);
        }
    }
    if let Some(last) = prompts.last() {
        again_ns.push(answer_ns(session, last)?);
    }
    Ok(median_ratio(&first_ns, &again_ns))
}

/// Time from sending a prompt to its answer of one token (ns).
fn answer_ns(session: &mut Session, prompt: &[u32]) -> Result<u64, EngineFailure> {
    let (_, sent_ns, answered_ns) = session.generate(prompt.to_vec(), 1)?;
    Ok(answered_ns.saturating_sub(sent_ns))
}

/// The median ratio of each second time to its first.
fn median_ratio(first_ns: &[u64], again_ns: &[u64]) -> f64 {
    let pairs = first_ns.iter().zip(again_ns);
    let ratios = pairs.map(|(first, again)| *again as f64 / (*first).max(1) as f64);
    let ratios: Vec<f64> = ratios.collect();
    stats::describe::median(&ratios).expect("a round has a prompt")
}

/// The same first token, and the others rotated by `places`.
fn turned(ids: &[u32], places: usize) -> Vec<u32> {
    let mut ids = ids.to_vec();
    if let Some((_, others)) = ids.split_first_mut()
        && !others.is_empty()
    {
        let places = places % others.len();
        others.rotate_left(places);
    }
    ids
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_as_long_again_is_computed_again() {
        // One slow first request, in which something is compiled, doesn't move the median.
        let ratio = median_ratio(&[900, 100, 102], &[100, 99, 103]);
        assert!((ratio - 0.99).abs() < 1e-9, "{ratio}");
        assert_eq!(failure(ratio), None);
        let kept = median_ratio(&[100, 100, 100], &[2, 3, 100]);
        let why = failure(kept).unwrap();
        assert!(why.contains("in 3.0 % of the time"), "{why}");
    }

    #[test]
    fn turned_prompts_are_of_one_length_and_begin_alike_in_one_token() {
        assert_eq!(turned(&[1, 5, 6, 7], 1), [1, 6, 7, 5]);
        assert_eq!(turned(&[1, 5, 6, 7], 5), [1, 7, 5, 6]);
        assert_eq!(turned(&[1], 1), [1]);
        assert!(turned(&[], 1).is_empty());
    }
}
