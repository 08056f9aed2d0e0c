//! Requests in company: what a target generates alone must be what the reference
//! generates, and what it generates in a batch must be what it generates alone.
//!
//! A batch is judged against the target's own single outputs, not against the
//! golden: the tie width of a coarse precision is so wide that a wrong mask could
//! pass for a tie. Against itself only the order of summation differs, and how
//! near two ids are is asked of the target's own log-probabilities.

use super::gate;
use super::question::Question;
use crate::engine::EngineFailure;
use crate::engine::session::Session;
use schema::golden::GoldenPrompt;
use std::collections::BTreeMap;

/// Output tokens checked per request: enough for a wrong mask to show.
const NEW_TOKENS: u32 = 16;

/// Generate alone and at every batch size asked for; the first failure, in words.
/// Beyond `verified_positions` the golden is no measure, but consistency is.
pub fn check(
    session: &mut Session,
    question: &Question,
    verified_positions: u32,
) -> Result<Option<String>, EngineFailure> {
    let rows = equal_length_prompts(&question.golden.prompts);
    let mut alone = Vec::new();
    for prompt in &rows {
        session.send_generate(prompt.prompt_ids.clone(), NEW_TOKENS)?;
        let (done, _) = session.next_done()?;
        let within = prompt.prompt_ids.len() as u32 + NEW_TOKENS <= verified_positions;
        let judged = gate::judge_output(prompt, &done.output_ids, question.limit);
        if let (true, Err(reason)) = (within, judged) {
            return Ok(Some(format!("alone: {reason}")));
        }
        alone.push(done.output_ids);
    }
    for &batch in question.batches.iter().filter(|&&batch| batch > 1) {
        for (row, output) in generate(session, question, &rows, batch)? {
            if let Some(reason) = differs(session, question, rows[row], &alone[row], &output)? {
                return Ok(Some(format!("with {batch} in flight: {reason}")));
            }
        }
    }
    Ok(None)
}

/// Generate with `batch` requests in flight: (row, output) of each.
///
/// A request of another shape goes first, so that the rest are all queued when
/// the engine next looks: that is what makes a batching engine form the full batch.
fn generate(
    session: &mut Session,
    question: &Question,
    rows: &[&GoldenPrompt],
    batch: u32,
) -> Result<Vec<(usize, Vec<u32>)>, EngineFailure> {
    let length = rows[0].prompt_ids.len();
    let mut others = question.golden.prompts.iter();
    if let Some(other) = others.find(|prompt| prompt.prompt_ids.len() != length) {
        session.send_generate(other.prompt_ids.clone(), NEW_TOKENS)?;
    }
    let mut row_of = BTreeMap::new();
    for index in 0..batch as usize {
        let row = index % rows.len();
        let (id, _) = session.send_generate(rows[row].prompt_ids.clone(), NEW_TOKENS)?;
        row_of.insert(id, row);
    }
    let mut outputs = Vec::new();
    while session.in_flight() > 0 {
        let (done, _) = session.next_done()?;
        if let Some(&row) = row_of.get(&done.id) {
            outputs.push((row, done.output_ids));
        }
    }
    Ok(outputs)
}

/// Where an output leaves what the target generated alone, unless the target
/// itself holds the two ids for equal there.
fn differs(
    session: &mut Session,
    question: &Question,
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
    if behind.abs() <= question.limit.batch_tie_nats {
        return Ok(None);
    }
    Ok(Some(format!(
        "prompt {:?}: output token {position} is {}, alone it says {} by {behind:.2} nats",
        prompt.name, output[position], alone[position]
    )))
}

/// The largest group of goldens with prompts of one length: what can share a batch.
fn equal_length_prompts(prompts: &[GoldenPrompt]) -> Vec<&GoldenPrompt> {
    let mut groups: BTreeMap<usize, Vec<&GoldenPrompt>> = BTreeMap::new();
    for prompt in prompts {
        let group = groups.entry(prompt.prompt_ids.len()).or_default();
        group.push(prompt);
    }
    let largest = groups.into_values().max_by_key(Vec::len);
    largest.unwrap_or_default()
}
