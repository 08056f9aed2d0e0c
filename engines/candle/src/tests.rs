//! Tests of Candle's models with tiny random weights, of every architecture: that both formats
//! give the same model, that rows of a batch do not see each other, and that what `hello` declares
//! is true. Whether a model's output is right is checked by the parity gate, not here.

mod fixture;
#[allow(dead_code)] // its `main`
#[path = "../examples/small_program.rs"]
mod small_program;

use crate::engine::Candle;
use fixture::{ALL, configure, model, spec, write};
use models::ModelSpec;
use models::tensors::{TensorDef, tensors};
use protocol::engine::testing::{generate, request};
use protocol::engine::{Engine, EngineError};
use protocol::wire::{Batching, Capabilities, FailureKind, Loaded};
use std::path::Path;

fn load(dir: &Path, weights: &str, precision: &str) -> Result<(Candle, Loaded), EngineError> {
    Candle::load(&request(dir, weights, precision))
}

fn declared(dir: &Path, weights: &str, precision: &str) -> Capabilities {
    Candle::hello(&request(dir, weights, precision)).capabilities
}

/// Return the error of a load that must fail.
fn refusal(dir: &Path, weights: &str, precision: &str) -> EngineError {
    let error = load(dir, weights, precision).err();
    error.unwrap_or_else(|| panic!("{weights} loaded"))
}

const PROMPTS: [&[u32]; 3] = [&[1, 2, 3, 4, 5], &[90, 3, 17, 64, 8], &[7, 7, 7, 7, 7]];

/// Generate six greedy tokens per row; return them, and row 0's logits after the last.
fn run(engine: &mut Candle, prompts: &[&[u32]]) -> (Vec<Vec<u32>>, Vec<f32>) {
    (generate(engine, prompts, 6), engine.logits(0).unwrap())
}

/// Generate the same tokens one row after another; return them, and row 0's logits.
fn run_alone(engine: &mut Candle) -> (Vec<Vec<u32>>, Vec<f32>) {
    let mut rows: Vec<_> = PROMPTS.iter().map(|p| run(engine, &[p])).collect();
    let logits = std::mem::take(&mut rows[0].1);
    (rows.into_iter().flat_map(|(row, _)| row).collect(), logits)
}

#[test]
fn safetensors_and_gguf_are_one_model() {
    for kind in ALL {
        let dir = model(kind);
        let (mut plain, from_plain) = load(dir.path(), "model.safetensors", "f32").unwrap();
        let (mut gguf, from_gguf) = load(dir.path(), "model-f32.gguf", "f32").unwrap();
        assert_eq!(from_plain.weight_bytes, from_gguf.weight_bytes, "{kind}");
        assert_eq!(from_plain.kv_bytes_per_token, from_gguf.kv_bytes_per_token);
        let ((tokens, logits), (gguf_tokens, gguf_logits)) =
            (run_alone(&mut plain), run_alone(&mut gguf));
        assert_eq!(tokens, gguf_tokens, "{kind}");
        assert_eq!(logits.len(), spec(kind).vocab_size);
        let pairs = logits.iter().zip(&gguf_logits);
        let worst = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(worst < 1e-3, "{kind}: {worst}");
    }
}

#[test]
fn shards_are_the_model_they_were_cut_from() {
    for kind in ["llama", "qwen3"] {
        let dir = model(kind);
        let (mut engine, whole) = load(dir.path(), "model.safetensors", "f32").unwrap();
        let expected = run_alone(&mut engine);
        let dir = write(&ModelSpec {
            shards: 2,
            ..spec(kind)
        });
        let (mut engine, cut) = load(dir.path(), "model.safetensors", "f32").unwrap();
        assert_eq!(run_alone(&mut engine), expected, "{kind}");
        assert_eq!(whole.weight_bytes, cut.weight_bytes);
    }
}

#[test]
fn rows_do_not_see_each_other_nor_the_last_batch() {
    for kind in ALL {
        let dir = model(kind);
        for weights in ["model.safetensors", "model-f32.gguf"] {
            if declared(dir.path(), weights, "f32").batching == Batching::None {
                assert_eq!((kind, weights), ("qwen3", "model-f32.gguf"));
                continue;
            }
            let (mut engine, _) = load(dir.path(), weights, "f32").unwrap();
            let (together, _) = run(&mut engine, &PROMPTS);
            assert_eq!(together, run_alone(&mut engine).0, "{kind} {weights}");
        }
    }
}

#[test]
fn a_prompt_at_once_or_token_by_token_is_the_same() {
    for kind in ALL {
        let dir = model(kind);
        for weights in ["model.safetensors", "model-f32.gguf"] {
            let (mut engine, _) = load(dir.path(), weights, "f32").unwrap();
            engine.prefill(&PROMPTS[1..2]).unwrap();
            let at_once = engine.logits(0).unwrap();
            engine.prefill(&[&PROMPTS[1][..1]]).unwrap();
            for id in &PROMPTS[1][1..] {
                engine.decode(&[*id]).unwrap();
            }
            let pairs = at_once.into_iter().zip(engine.logits(0).unwrap());
            let worst = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(worst < 1e-3, "{kind} {weights}: {worst}");
        }
    }
}

#[test]
fn quantised_rows_cannot_be_prefilled_together_as_declared() {
    for kind in ["mistral", "phi3"] {
        let dir = model(kind);
        let batching = declared(dir.path(), "model-q8_0.gguf", "q8_0").batching;
        assert_eq!(batching, Batching::None, "{kind}");
        let (mut engine, _) = load(dir.path(), "model-q8_0.gguf", "q8_0").unwrap();
        assert!(engine.prefill(&PROMPTS).is_err(), "{kind}");
        run(&mut engine, &PROMPTS[..1]);
    }
    let dir = model("llama");
    let batching = declared(dir.path(), "model-q8_0.gguf", "q8_0").batching;
    assert_eq!(batching, Batching::None);
    let (mut engine, loaded) = load(dir.path(), "model-q8_0.gguf", "q8_0").unwrap();
    // If this succeeds one day, `Header::reason_not_to_batch` must be updated.
    let refused = engine.prefill(&PROMPTS).unwrap_err();
    assert!(refused.message.contains("contiguous"), "{refused}");
    run(&mut engine, &PROMPTS[..1]);
    let spec = spec("llama");
    let weights: usize = tensors(&spec).iter().map(TensorDef::len).sum();
    let norms = (2 * spec.num_layers + 1) * spec.hidden_size;
    assert_eq!(
        loaded.weight_bytes,
        ((weights - norms) / 32 * 34 + norms * 4) as u64
    );
}

#[test]
fn rows_in_f16_run_one_after_another_on_a_processor() {
    let dir = model("llama");
    let batching = |precision| declared(dir.path(), "model.safetensors", precision).batching;
    assert_eq!(batching("f16"), Batching::None);
    assert_eq!(batching("f32"), Batching::StaticEqualLength);
}

#[test]
fn what_costs_time_on_a_processor_or_a_gpu_is_declared() {
    let dir = model("llama");
    let mut load = request(dir.path(), "model.safetensors", "f32");
    for (backend, one_thread, events) in [
        ("cpu", !cfg!(feature = "mkl"), false),
        ("cuda", false, true),
    ] {
        load.backend = backend.to_string();
        let notes = Candle::hello(&load).capabilities.notes.join(" ");
        assert_eq!(notes.contains("one thread"), one_thread, "{notes}");
        assert_eq!(notes.contains("event tracking"), events, "{notes}");
    }
}

#[test]
fn ignored_rope_factors_are_declared() {
    let gap = |kind| declared(model(kind).path(), "model-q8_0.gguf", "q8_0").position_gap;
    assert!(gap("llama3").is_some_and(|gap| gap.contains("rope_freqs")));
    assert!(gap("llama").is_none());
}

#[test]
fn what_is_wrong_at_far_positions_alone_is_declared() {
    for (kind, weights, precision, word) in [
        ("phi3", "model.safetensors", "f16", "RoPE angles in f16"),
        ("phi3", "model.safetensors", "f32", "no sliding window"),
        ("mistral", "model.safetensors", "f32", "prompts alone"),
        ("mistral", "model-q8_0.gguf", "q8_0", "not at all"),
    ] {
        let dir = model(kind);
        configure(dir.path(), serde_json::json!({"sliding_window": 16}));
        let gap = declared(dir.path(), weights, precision).position_gap;
        let gap = gap.unwrap_or_else(|| panic!("{kind} {weights} declares nothing"));
        assert!(gap.contains(word), "{gap}");
    }
    for kind in ALL {
        let dir = model(kind);
        for (weights, precision) in [("model.safetensors", "f32"), ("model-q8_0.gguf", "q8_0")] {
            let gap = declared(dir.path(), weights, precision).position_gap;
            assert_eq!(gap, None, "{kind} {weights}");
        }
    }
}

#[test]
fn another_architecture_is_unsupported_by_name() {
    let dir = model("llama");
    configure(dir.path(), serde_json::json!({"model_type": "gemma"}));
    let err = refusal(dir.path(), "model.safetensors", "f32");
    assert_eq!(err.kind, FailureKind::Unsupported);
    assert!(err.message.contains("gemma"), "{err}");
}

#[test]
fn beyond_the_rope_table_is_unsupported() {
    let dir = model("llama");
    let (mut engine, _) = load(dir.path(), "model.safetensors", "f32").unwrap();
    engine.prefill(&[&[1; 32]]).unwrap();
    assert_eq!(
        engine.decode(&[1]).unwrap_err().kind,
        FailureKind::Unsupported
    );
}

#[test]
fn a_bad_file_is_named() {
    let dir = model("llama");
    let put = |name: &str, bytes: &[u8]| std::fs::write(dir.path().join(name), bytes).unwrap();
    for name in ["model.safetensors", "model-q8_0.gguf"] {
        let mut bytes = std::fs::read(dir.path().join(name)).unwrap();
        put(&format!("half-{name}"), &bytes[..bytes.len() / 2]);
        bytes[..64].fill(0xff);
        put(&format!("bad-{name}"), &bytes);
    }
    put("notes.txt", &[]);
    for (weights, precision) in [
        ("missing.safetensors", "f32"),
        ("missing.gguf", "q8_0"),
        ("half-model.safetensors", "f32"),
        ("half-model-q8_0.gguf", "q8_0"),
        ("bad-model.safetensors", "f32"),
        ("bad-model-q8_0.gguf", "q8_0"),
        ("model-q8_0.gguf", "q4_k_m"),
        ("notes.txt", "f32"),
    ] {
        let err = refusal(dir.path(), weights, precision);
        assert!(err.message.contains(weights), "{err}");
        assert!(!err.message.contains('\n'), "{err}");
    }
    for precision in ["bf16", "q8_0"] {
        let err = refusal(dir.path(), "model.safetensors", precision);
        assert_eq!(err.kind, FailureKind::Unsupported);
    }
    std::fs::remove_file(dir.path().join("config.json")).unwrap();
    let err = refusal(dir.path(), "model.safetensors", "f32");
    assert!(err.message.contains("config.json"));
}

#[test]
fn the_small_program_says_what_the_adapter_says() {
    let dir = model("llama");
    let (mut engine, _) = load(dir.path(), "model.safetensors", "f32").unwrap();
    let (rows, _) = run(&mut engine, &PROMPTS[..1]);
    let said = small_program::generate(dir.path(), PROMPTS[0], rows[0].len());
    assert_eq!(said.unwrap(), rows[0]);
}
