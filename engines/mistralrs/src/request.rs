//! Makes requests for mistral.rs, and the logits processors that observe their tokens. Requests
//! are greedy, without penalties, and run to their last token.
//!
//! Ids and times come from a processor and not from the stream, because the stream holds text
//! only, and holds back a token that ends in the middle of a character.

use candle_core::{CpuStorage, Device, Storage, Tensor};
use mistralrs::{
    Constraint, CustomLogitsProcessor, NormalRequest, Request, RequestMessage, Response,
    SamplingParams,
};
use protocol::engine::EngineError;
use protocol::witness::Commits;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::mpsc::{Receiver, channel};

/// Create a request for `new_tokens` greedy tokens, and the stream that answers it.
pub fn request(
    prompt: &[u32],
    new_tokens: usize,
    processor: Arc<dyn CustomLogitsProcessor>,
) -> (Request, Receiver<Response>) {
    // Room for every token, so that the engine never waits for the receiver.
    let (response, stream) = channel(new_tokens + 1);
    let request = NormalRequest {
        messages: RequestMessage::CompletionTokens(prompt.to_vec()),
        sampling_params: SamplingParams {
            // `None` would mean 1 to mistral.rs.
            temperature: Some(0.0),
            max_len: Some(new_tokens),
            ..SamplingParams::neutral()
        },
        response,
        return_logprobs: false,
        is_streaming: true,
        id: 0,
        constraint: Constraint::None,
        suffix: None,
        tools: None,
        tool_choice: None,
        logits_processors: Some(vec![processor]),
        return_raw_logits: false,
        web_search_options: None,
        model_id: None,
        truncate_sequence: false,
    };
    (Request::Normal(Box::new(request)), stream)
}

/// Wait until the stream ends; return an error if one came through it.
pub async fn finished(mut stream: Receiver<Response>) -> Result<(), EngineError> {
    while let Some(response) = stream.recv().await {
        match response {
            Response::InternalError(err) | Response::ValidationError(err) => {
                return Err(EngineError::of_library(err));
            }
            Response::CompletionModelError(message, _) | Response::ModelError(message, _) => {
                return Err(EngineError::of_library(message));
            }
            _ => {}
        }
    }
    Ok(())
}

/// A logits processor that records each token and when it was known, and changes nothing. It stops
/// at the number of tokens asked for, because mistral.rs computes one more if the prefill gave the
/// last one.
pub struct Recorder {
    new_tokens: usize,
    commits: Commits,
    recorded: Mutex<Recorded>,
}

/// The tokens that a [`Recorder`] saw.
#[derive(Clone, Default)]
pub struct Recorded {
    /// The ids of the tokens.
    pub ids: Vec<u32>,
    /// When each was known, on [`protocol::clock`] (ns).
    pub token_ns: Vec<u64>,
    /// Index of a token that differs from the one that mistral.rs went on with.
    contradicted: Option<usize>,
}

impl Recorder {
    /// Create a recorder with room for `new_tokens`, so that nothing is allocated in the timed
    /// region.
    pub fn new(new_tokens: usize, commits: Commits) -> Self {
        Self {
            new_tokens,
            commits,
            recorded: Mutex::new(Recorded {
                ids: Vec::with_capacity(new_tokens),
                token_ns: Vec::with_capacity(new_tokens),
                contradicted: None,
            }),
        }
    }

    /// Return the tokens, or an error if they are not all that were asked for.
    pub fn take(&self) -> Result<Recorded, EngineError> {
        let recorded = std::mem::take(&mut *lock(&self.recorded));
        if let Some(index) = recorded.contradicted {
            return Err(EngineError::internal(format!(
                "mistral.rs went on with another token {index} than its logits say"
            )));
        }
        if recorded.ids.len() != self.new_tokens {
            return Err(EngineError::internal(format!(
                "mistral.rs ended after {} of {} tokens",
                recorded.ids.len(),
                self.new_tokens
            )));
        }
        Ok(recorded)
    }
}

impl CustomLogitsProcessor for Recorder {
    fn apply(&self, logits: &Tensor, context: &[u32]) -> candle_core::Result<Tensor> {
        let id = greedy(logits)?;
        let mut recorded = lock(&self.recorded);
        if recorded.ids.len() == self.new_tokens {
            return Ok(logits.clone());
        }
        let token_ns = self.commits.token(recorded.ids.len(), id);
        let before = recorded.ids.last();
        if before.is_some_and(|id| context.last() != Some(id)) {
            let index = recorded.ids.len() - 1;
            recorded.contradicted.get_or_insert(index);
        }
        recorded.ids.push(id);
        recorded.token_ns.push(token_ns);
        Ok(logits.clone())
    }
}

/// A logits processor that keeps each step's logits and makes the sampler choose the given tokens.
pub struct Forcer {
    forced: Vec<u32>,
    rows: Mutex<Vec<Vec<f32>>>,
}

impl Forcer {
    /// Create a forcer for the tokens `forced`, one per step.
    pub fn new(forced: &[u32]) -> Self {
        Self {
            forced: forced.to_vec(),
            rows: Mutex::default(),
        }
    }

    /// Return the logits after the prompt, and after each forced token.
    pub fn take(&self) -> Vec<Vec<f32>> {
        std::mem::take(&mut *lock(&self.rows))
    }
}

impl CustomLogitsProcessor for Forcer {
    fn apply(&self, logits: &Tensor, _context: &[u32]) -> candle_core::Result<Tensor> {
        let row: Vec<f32> = logits.to_vec1()?;
        let mut rows = lock(&self.rows);
        let mut wanted = vec![0f32; row.len()];
        // After the last row it doesn't matter what the sampler chooses.
        if let Some(&id) = self.forced.get(rows.len()) {
            let Some(logit) = wanted.get_mut(id as usize) else {
                let vocabulary = row.len();
                candle_core::bail!("id {id} is outside the vocabulary of {vocabulary}");
            };
            *logit = 1.0;
        }
        if rows.len() <= self.forced.len() {
            rows.push(row);
        }
        Tensor::from_vec(wanted, logits.shape(), &Device::Cpu)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Return the token that mistral.rs' sampler is about to choose: the highest logit, the last of
/// equals.
fn greedy(logits: &Tensor) -> candle_core::Result<u32> {
    let (storage, layout) = logits.storage_and_layout();
    // Read in place, without the copy that `to_vec1` makes, because this is timed.
    match (&*storage, layout.contiguous_offsets()) {
        (Storage::Cpu(CpuStorage::F32(values)), Some((start, end))) => {
            Ok(last_maximum(&values[start..end]))
        }
        _ => candle_core::bail!("the sampler's logits are not f32 on the host"),
    }
}

fn last_maximum(values: &[f32]) -> u32 {
    // Two passes, each of which compiles to vector instructions.
    let max = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let last = values.iter().rposition(|&value| value == max);
    last.unwrap_or_default() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(values: &[f32]) -> Tensor {
        Tensor::new(values, &Device::Cpu).unwrap()
    }

    #[test]
    fn the_last_of_equals_is_taken_as_by_the_sampler() {
        assert_eq!(last_maximum(&[1.0, 7.0, 7.0, 5.0]), 2);
        assert_eq!(last_maximum(&[-1.0]), 0);
        let both = tensor(&[9.0, 1.0, 2.0]);
        assert_eq!(greedy(&both.narrow(0, 1, 2).unwrap()).unwrap(), 1);
    }

    #[test]
    fn a_recorder_changes_nothing_and_stops_in_time() {
        let recorder = Recorder::new(2, Commits::default());
        let logits = tensor(&[0.0, 3.0, 1.0]);
        let out = recorder.apply(&logits, &[5]).unwrap();
        assert_eq!(
            out.to_vec1::<f32>().unwrap(),
            logits.to_vec1::<f32>().unwrap()
        );
        recorder.apply(&logits, &[5, 1]).unwrap();
        // This context doesn't contain the last choice; it is ignored since all tokens are
        // recorded.
        recorder.apply(&logits, &[5, 1]).unwrap();
        let recorded = recorder.take().unwrap();
        assert_eq!(recorded.ids, [1, 1]);
        assert!(recorded.token_ns[0] <= recorded.token_ns[1]);
    }

    #[test]
    fn a_recorder_notices_another_choice_and_an_early_end() {
        let recorder = Recorder::new(2, Commits::default());
        let logits = tensor(&[0.0, 3.0, 1.0]);
        recorder.apply(&logits, &[5]).unwrap();
        assert!(recorder.take().is_err());
        recorder.apply(&logits, &[5]).unwrap();
        recorder.apply(&logits, &[5, 2]).unwrap();
        assert!(recorder.take().is_err());
    }

    #[test]
    fn a_forcer_keeps_the_logits_and_has_its_way() {
        let forcer = Forcer::new(&[2, 9]);
        let logits = tensor(&[0.0, 3.0, 1.0]);
        let out = forcer.apply(&logits, &[5]).unwrap();
        assert_eq!(greedy(&out).unwrap(), 2);
        assert!(forcer.apply(&logits, &[5, 2]).is_err());
        assert_eq!(forcer.take(), [[0.0, 3.0, 1.0]]);

        let forcer = Forcer::new(&[]);
        forcer.apply(&logits, &[5]).unwrap();
        forcer.apply(&logits, &[5, 0]).unwrap();
        assert_eq!(forcer.take().len(), 1);
    }
}
