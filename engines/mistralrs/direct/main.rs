//! mistral.rs driven directly, without the adapter, as its own `mistralrs bench` does it: with its
//! builder, one request of token ids at a time, timed from outside until the whole answer has
//! arrived. `cargo xtask bench-adapters` runs it beside `mistralrs-bench` to measure what the
//! adapter costs. It reads the same request by hand as `mistralrs-bench` and prints one JSON
//! object with `output_tok_per_s`.

use candle_core::{D, Tensor};
use mistralrs::core::MistralRsBuilder;
use mistralrs::model_builder_trait::build_gguf_pipeline;
use mistralrs::{
    Constraint, CustomLogitsProcessor, GgufModelBuilder, NormalRequest, Request, RequestMessage,
    Response, SamplingParams,
};
use serde_json::{Value, json};
use std::error::Error;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use tokio::sync::mpsc::{Sender, channel};

type Processors = Option<Vec<Arc<dyn CustomLogitsProcessor>>>;

fn main() -> Result<(), Box<dyn Error>> {
    let ask: Value = serde_json::from_reader(std::io::stdin())?;
    // SAFETY: nothing else runs yet.
    unsafe {
        std::env::set_var("RAYON_NUM_THREADS", ask["threads"].to_string());
        std::env::remove_var("CANDLE_NUM_THREADS");
    }
    // mistral.rs needs a multi-threaded runtime.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .build()?;
    runtime.block_on(run(&ask))
}

async fn run(ask: &Value) -> Result<(), Box<dyn Error>> {
    let number = |key: &str| ask[key].as_u64().ok_or(format!("no number {key:?}"));
    let dir = ask["model_path"].as_str().ok_or("no model_path")?;
    let weights = ask["weights"].as_str().ok_or("no weights")?;
    let prompt: Vec<u32> = serde_json::from_value(ask["prompt_ids"].clone())?;
    let (new_tokens, iterations) = (number("new_tokens")? as usize, number("iterations")?);
    let warmup = number("warmup")?;

    let builder = GgufModelBuilder::new(dir, vec![weights])
        .with_tok_model_id(dir)
        .with_force_cpu()
        .with_max_num_seqs(1);
    let (pipeline, scheduler, _) = build_gguf_pipeline(builder).await?;
    let mistralrs = MistralRsBuilder::new(pipeline, scheduler, false, None)
        .with_no_prefix_cache(true)
        .with_disable_eos_stop(true)
        .build()
        .await;
    let queue = mistralrs.get_sender(None)?;

    // Recording the tokens costs time, so an untimed request does it.
    let seen = Arc::new(Seen::default());
    request(&queue, &prompt, new_tokens, Some(vec![seen.clone()])).await?;
    for _ in 0..warmup {
        request(&queue, &prompt, new_tokens, None).await?;
    }
    let mut seconds = 0.0;
    for _ in 0..iterations {
        let start = Instant::now();
        request(&queue, &prompt, new_tokens, None).await?;
        seconds += start.elapsed().as_secs_f64();
    }
    let rate = (new_tokens as u64 * iterations) as f64 / seconds;
    let ids = seen.0.lock().expect("no thread panicked with it").clone();
    println!("{}", json!({ "output_tok_per_s": rate, "output_ids": ids }));
    Ok(())
}

/// Send one request and wait for its end.
async fn request(
    queue: &Sender<Request>,
    prompt: &[u32],
    new_tokens: usize,
    logits_processors: Processors,
) -> Result<(), Box<dyn Error>> {
    let (response, mut answers) = channel(100);
    let request = NormalRequest {
        messages: RequestMessage::CompletionTokens(prompt.to_vec()),
        sampling_params: SamplingParams {
            temperature: Some(0.0),
            max_len: Some(new_tokens),
            ..SamplingParams::neutral()
        },
        response,
        return_logprobs: false,
        is_streaming: false,
        id: 0,
        constraint: Constraint::None,
        suffix: None,
        tools: None,
        tool_choice: None,
        logits_processors,
        return_raw_logits: false,
        web_search_options: None,
        model_id: None,
        truncate_sequence: false,
    };
    queue.send(Request::Normal(Box::new(request))).await?;
    match answers.recv().await {
        Some(Response::CompletionDone(done)) if done.usage.completion_tokens == new_tokens => {
            Ok(())
        }
        Some(Response::CompletionDone(done)) => Err(format!(
            "{} tokens came instead of {new_tokens}",
            done.usage.completion_tokens
        )
        .into()),
        Some(Response::InternalError(err) | Response::ValidationError(err)) => {
            Err(err.to_string().into())
        }
        Some(Response::CompletionModelError(message, _)) => Err(message.into()),
        _ => Err("no completion came".into()),
    }
}

/// A logits processor that records the greedy tokens.
#[derive(Default)]
struct Seen(Mutex<Vec<u32>>);

impl CustomLogitsProcessor for Seen {
    fn apply(&self, logits: &Tensor, _context: &[u32]) -> candle_core::Result<Tensor> {
        let id = logits.argmax(D::Minus1)?.to_scalar()?;
        self.0.lock().expect("no thread panicked with it").push(id);
        Ok(logits.clone())
    }
}
