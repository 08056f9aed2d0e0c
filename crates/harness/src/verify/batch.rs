//! Checks requests in a batch: what a target generates alone must be what the reference generates
//! and what its own scores say, and what it generates in a batch must be what it generates alone.
//!
//! A batch is judged against the target's own single outputs, not against the golden: the tie width
//! of a coarse precision is so wide that a wrong mask could pass for a tie. Between the target's
//! own outputs only the order of summation differs, and its own log-probabilities say how near two
//! ids are.
//!
//! A target that gives no log-probabilities must meet two other conditions. Its output in a batch
//! may differ from its output alone only by leaving the reference where its own single output may,
//! at a tie; and at each batch size the outputs must agree for [`JUDGED_MIN`] tokens on average,
//! half of those generated. Occasional ties pass, a mask that is wrong for every row does not.

use super::gate::JUDGED_MIN;
use super::output::{self, Output};
use super::setup::GateSetup;
use crate::engine::EngineFailure;
use crate::engine::session::Session;
use schema::golden::GoldenPrompt;
use std::collections::BTreeMap;
use tokenizers::Tokenizer;

/// Output tokens that are checked per request: enough for a wrong mask to show.
pub(super) const NEW_TOKENS: u32 = 16;

/// Generate alone and at every batch size of `setup`; returns a description of the first
/// failure. Beyond `verified_positions` outputs aren't compared with the golden, only with each
/// other.
pub fn check(
    session: &mut Session,
    setup: &GateSetup,
    tokenizer: &Tokenizer,
    verified_positions: u32,
) -> Result<Option<String>, EngineFailure> {
    let rows = equal_length_prompts(&setup.golden.prompts);
    let judge = |prompt: &GoldenPrompt, output: &Output| {
        let golden = output::head(prompt, NEW_TOKENS as usize);
        output::judge(&golden, output, setup.limit.tie_width_nats, tokenizer)
    };
    let mut alone = Vec::new();
    for prompt in &rows {
        let (done, ..) = session.generate(prompt.prompt_ids.clone(), NEW_TOKENS)?;
        let output = Output::from(done);
        let within = prompt.prompt_ids.len() as u32 + NEW_TOKENS <= verified_positions;
        if let (true, Err(reason)) = (within, judge(prompt, &output)) {
            return Ok(Some(format!("alone: {reason}")));
        }
        if let (true, Output::Ids(ids)) = (session.hello.capabilities.score, &output)
            && let Some(reason) = unlike_scores(session, setup, prompt, ids)?
        {
            return Ok(Some(format!("alone: {reason}")));
        }
        alone.push(output);
    }
    for &batch in setup.batches.iter().filter(|&&batch| batch > 1) {
        let outputs = generate(session, &rows, batch)?;
        let reason = if session.hello.capabilities.score {
            differ_scored(session, setup, &rows, &outputs, &alone)?
        } else {
            differ_unscored(&outputs, &alone, |row, output| judge(rows[row], output))
        };
        if let Some(reason) = reason {
            return Ok(Some(format!("with {batch} in flight: {reason}")));
        }
    }
    Ok(None)
}

/// Say how `outputs`, each as (row, output), that were generated in a batch or after other prompts
/// differ from the outputs `alone` of the rows; `None` where they may. `session` scores how near
/// two tokens are. An output may depart from the one alone only at a tie, and each of its tokens
/// must be the best by the target's own scores, or within a tie of it.
pub(super) fn differ_scored(
    session: &mut Session,
    setup: &GateSetup,
    rows: &[&GoldenPrompt],
    outputs: &[(usize, Output)],
    alone: &[Output],
) -> Result<Option<String>, EngineFailure> {
    for (row, output) in outputs {
        let (Output::Ids(alone), Output::Ids(output)) = (&alone[*row], output) else {
            return Err(EngineFailure::protocol(
                "its hello says that it scores, but it answers with text and no ids",
            ));
        };
        if output == alone {
            continue; // its tokens have been scored before
        }
        if let Some(reason) = differs(session, setup, rows[*row], alone, output)? {
            return Ok(Some(reason));
        }
        if let Some(reason) = unlike_scores(session, setup, rows[*row], output)? {
            return Ok(Some(reason));
        }
    }
    Ok(None)
}

/// The same as [`differ_scored`], judged by outputs alone, for a target that does not score.
pub(super) fn differ_unscored(
    outputs: &[(usize, Output)],
    alone: &[Output],
    judge: impl Fn(usize, &Output) -> Result<output::Agreement, String>,
) -> Option<String> {
    let mut agreed = 0;
    for (row, output) in outputs {
        agreed += if *output == alone[*row] {
            NEW_TOKENS as usize
        } else {
            match judge(*row, output) {
                Ok(agreement) => agreement.judged,
                Err(reason) => return Some(reason),
            }
        };
    }
    let mean = agreed as f64 / outputs.len().max(1) as f64;
    (mean < JUDGED_MIN as f64).then(|| {
        format!("outputs differ from those of single requests after {mean:.1} tokens on average, always at ties; a wrong mask or cache would look the same")
    })
}

/// Generate with `batch` requests that are sent at once; returns (row, output) of each.
fn generate(
    session: &mut Session,
    rows: &[&GoldenPrompt],
    batch: u32,
) -> Result<Vec<(usize, Output)>, EngineFailure> {
    let mut row_of = BTreeMap::new();
    for index in 0..batch as usize {
        let row = index % rows.len();
        let (id, _) = session.send_one_of(batch, rows[row].prompt_ids.clone(), NEW_TOKENS)?;
        row_of.insert(id, row);
    }
    let mut outputs = Vec::new();
    while session.in_flight() > 0 {
        let (done, _) = session.next_done()?;
        if let Some(&row) = row_of.get(&done.id) {
            outputs.push((row, Output::from(done)));
        }
    }
    Ok(outputs)
}

/// The first token of an output that isn't the best by the target's own scores, nor within a tie of
/// it. Only scores are compared with the reference position by position, and an engine may generate
/// by another path than it scores, for example with a smaller cache.
fn unlike_scores(
    session: &mut Session,
    setup: &GateSetup,
    prompt: &GoldenPrompt,
    output: &[u32],
) -> Result<Option<String>, EngineFailure> {
    let Some((_, fed)) = output.split_last() else {
        return Ok(None);
    };
    let ids = [&prompt.prompt_ids, fed].concat();
    let said: Vec<Vec<u32>> = output.iter().map(|id| vec![*id]).collect();
    let best = session.score(ids.clone(), said, 0, false)?.argmax;
    if best == output {
        return Ok(None);
    }
    let both = output
        .iter()
        .zip(&best)
        .map(|(said, best)| vec![*said, *best]);
    let scored = session.score(ids, both.collect(), 0, false)?;
    let behind: Vec<f64> = scored.logprobs.iter().map(|of| of[1] - of[0]).collect();
    let wrong = first_beyond(&behind, setup.limit.batch_tie_nats);
    Ok(wrong.map(|position| {
        format!(
            "prompt {:?}: output token {position} is {}, its own scores say {} by {:.2} nats",
            prompt.name, output[position], best[position], behind[position]
        )
    }))
}

/// The first position whose token is behind the best by more than a tie, or by NaN.
fn first_beyond(behind_nats: &[f64], tie_nats: f64) -> Option<usize> {
    let is_tie = |behind: &f64| *behind <= tie_nats;
    behind_nats.iter().position(|behind| !is_tie(behind))
}

/// The first token of an output that differs from what the target generated alone, unless the two
/// tokens are within a tie by the target's own scores.
fn differs(
    session: &mut Session,
    setup: &GateSetup,
    prompt: &GoldenPrompt,
    alone: &[u32],
    output: &[u32],
) -> Result<Option<String>, EngineFailure> {
    let Some(position) = alone.iter().zip(output).position(|(a, b)| a != b) else {
        return Ok(None);
    };
    let mut ids = prompt.prompt_ids.clone();
    ids.extend_from_slice(&alone[..position]);
    let asked = vec![alone[position], output[position]];
    let scored = session.score(ids, vec![asked], 0, false)?;
    let behind = scored.logprobs[0][0] - scored.logprobs[0][1];
    if behind.abs() <= setup.limit.batch_tie_nats {
        return Ok(None);
    }
    Ok(Some(format!(
        "prompt {:?}: output token {position} is {}, alone it says {} by {behind:.2} nats",
        prompt.name, output[position], alone[position]
    )))
}

/// The largest group of goldens with prompts of one length, which can share a batch.
pub(super) fn equal_length_prompts(prompts: &[GoldenPrompt]) -> Vec<&GoldenPrompt> {
    let mut groups: BTreeMap<usize, Vec<&GoldenPrompt>> = BTreeMap::new();
    for prompt in prompts {
        let group = groups.entry(prompt.prompt_ids.len()).or_default();
        group.push(prompt);
    }
    let largest = groups.into_values().max_by_key(Vec::len);
    largest.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify::output::Agreement;

    #[test]
    fn an_answer_is_what_its_own_scores_say() {
        assert_eq!(first_beyond(&[0.0, 0.1, 0.0], 0.1), None);
        assert_eq!(first_beyond(&[0.0, 0.05, 1.5, 2.0], 0.1), Some(2));
        assert_eq!(first_beyond(&[f64::NAN], 0.1), Some(0));
    }

    #[test]
    fn without_scores_a_tie_passes_and_many_do_not() {
        let alone = [Output::Ids(vec![1]), Output::Ids(vec![2])];
        let other = Output::Ids(vec![9]);
        let judged = |judged| {
            move |_: usize, _: &Output| {
                Ok(Agreement {
                    judged,
                    ..Agreement::default()
                })
            }
        };
        let same = [(0, alone[0].clone()), (1, alone[1].clone())];
        assert_eq!(differ_unscored(&same, &alone, judged(0)), None);
        let one = [(0, alone[0].clone()), (1, other.clone())];
        assert_eq!(differ_unscored(&one, &alone, judged(0)), None);
        let both = [(0, other.clone()), (1, other.clone())];
        assert_eq!(differ_unscored(&both, &alone, judged(8)), None);
        let reason = differ_unscored(&both, &alone, judged(7)).unwrap();
        assert!(reason.contains("after 7.0 tokens"), "{reason}");
        let wrong = |_: usize, _: &Output| Err("by 2 nats".to_owned());
        assert_eq!(
            differ_unscored(&one, &alone, wrong).as_deref(),
            Some("by 2 nats")
        );
    }
}
