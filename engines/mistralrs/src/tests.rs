//! The whole adapter over one tiny model: that what it forces, what it generates
//! alone and what it generates in company are one model's, and that what `hello`
//! declares is so. Not here: whether the model is right, which is the parity
//! gate's to say.

use crate::engine::MistralRs;
use models::{Llama3RopeScaling, ModelFile, ModelSpec, Storage};
use protocol::engine::EngineError;
use protocol::scheduler::{Job, Scheduler};
use protocol::wire::{Done, Event, FailureKind, Generate, Load, Loaded};
use std::path::Path;
use std::sync::mpsc::channel;

const HIDDEN: u64 = 64;
const LAYERS: u64 = 2;
const VOCABULARY: u64 = 320;

fn spec() -> ModelSpec {
    ModelSpec {
        id: "smallest".to_string(),
        vocab_size: VOCABULARY as usize,
        tokenizer_vocab: VOCABULARY as usize,
        hidden_size: HIDDEN as usize,
        intermediate_size: 96,
        num_layers: LAYERS as usize,
        num_heads: 4,
        num_kv_heads: 2,
        head_dim: 16,
        max_position: 64,
        storage: Storage::F32,
        files: vec![
            ModelFile::Safetensors,
            ModelFile::GgufF32,
            ModelFile::GgufQ8_0,
        ],
        ..ModelSpec::tiny_llama()
    }
}

fn model(spec: &ModelSpec) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    models::generate(spec, dir.path(), &mut |_, _| {}).unwrap();
    dir
}

fn request(dir: &Path, weights: &str, precision: &str) -> Load {
    Load {
        model_dir: dir.to_string_lossy().into_owned(),
        weights: weights.to_string(),
        precision: precision.to_string(),
        backend: "cpu".to_string(),
        variant: String::new(),
        device: 0,
        threads: 1,
        max_context: 64,
        max_batch: 8,
    }
}

fn load(dir: &Path, weights: &str, precision: &str) -> Result<(MistralRs, Loaded), EngineError> {
    MistralRs::load(&request(dir, weights, precision))
}

/// Of each length more than one, so that some share a step and some do not.
const PROMPTS: [&[u32]; 6] = [
    &[11, 12, 13, 14, 15],
    &[190, 13, 117, 164, 108],
    &[70, 71, 72],
    &[33; 9],
    &[70, 71, 73],
    &[250, 9, 40, 41, 42, 43, 44, 45, 46],
];

/// `new_tokens` of each prompt, all in flight together.
fn run(engine: &mut MistralRs, prompts: &[&[u32]], new_tokens: u32) -> Vec<Done> {
    let waiting: Vec<_> = (0u64..)
        .zip(prompts)
        .map(|(id, prompt)| {
            let generate = Generate {
                id,
                prompt_ids: prompt.to_vec(),
                new_tokens,
            };
            let (reply, answer) = channel();
            engine.submit(Job::new(generate, 1, move |event| {
                reply.send(event).unwrap();
            }));
            answer
        })
        .collect();
    let answers = waiting.into_iter().map(|answer| answer.recv().unwrap());
    answers
        .map(|event| match event {
            Event::Done(done) => done,
            other => panic!("{other:?}"),
        })
        .collect()
}

#[test]
fn forced_logits_are_those_that_generate_goes_by() {
    let dir = model(&spec());
    for (weights, precision) in [("model.safetensors", "f32"), ("model-q8_0.gguf", "q8_0")] {
        let (mut engine, _) = load(dir.path(), weights, precision).unwrap();
        let done = run(&mut engine, &PROMPTS[..1], 7).remove(0);
        assert_eq!((done.output_ids.len(), done.token_ns.len()), (7, 7));
        assert!(done.started_ns <= done.token_ns[0]);
        assert!(done.token_ns.is_sorted());
        assert_eq!(done.batch, 1);
        let rows = engine
            .forced_logits(PROMPTS[0], &done.output_ids[..6])
            .unwrap();
        let argmax = |row: &Vec<f32>| {
            assert_eq!(row.len(), VOCABULARY as usize);
            let best = row.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
            best.unwrap().0 as u32
        };
        let chosen: Vec<u32> = rows.iter().map(argmax).collect();
        assert_eq!(chosen, done.output_ids, "{weights}");
        let one = run(&mut engine, &PROMPTS[..1], 1).remove(0);
        assert_eq!(one.output_ids, done.output_ids[..1]);
        assert_eq!(engine.forced_logits(PROMPTS[0], &[]).unwrap(), rows[..1]);
        assert!(
            engine
                .forced_logits(PROMPTS[0], &[VOCABULARY as u32])
                .is_err()
        );
        // A refused step does not end the engine.
        assert_eq!(
            run(&mut engine, &PROMPTS[..1], 7)[0].output_ids,
            done.output_ids
        );
    }
}

#[test]
fn company_changes_nothing() {
    let dir = model(&spec());
    for (weights, precision) in [("model.safetensors", "f32"), ("model-q8_0.gguf", "q8_0")] {
        let (mut engine, _) = load(dir.path(), weights, precision).unwrap();
        let alone: Vec<_> = PROMPTS
            .iter()
            .map(|prompt| run(&mut engine, &[prompt], 12).remove(0).output_ids)
            .collect();
        let together = run(&mut engine, &PROMPTS, 12);
        assert!(together.iter().all(|done| done.batch <= 6));
        assert!(together.iter().any(|done| done.batch > 1));
        let together: Vec<_> = together.into_iter().map(|done| done.output_ids).collect();
        assert_eq!(together, alone, "{weights}");
    }
}

#[test]
fn safetensors_and_gguf_are_one_model() {
    let dir = model(&spec());
    let (mut plain, from_plain) = load(dir.path(), "model.safetensors", "f32").unwrap();
    let (mut gguf, from_gguf) = load(dir.path(), "model-f32.gguf", "f32").unwrap();
    assert_eq!(from_plain.weight_bytes, from_gguf.weight_bytes);
    assert_eq!(from_plain.kv_bytes_per_token, 2 * LAYERS * 2 * 16 * 4);
    let tokens = |engine: &mut MistralRs| run(engine, &PROMPTS[..1], 8).remove(0).output_ids;
    assert_eq!(tokens(&mut plain), tokens(&mut gguf));
}

#[test]
fn what_is_quantised_in_place_is_smaller() {
    let dir = model(&spec());
    let (_, plain) = load(dir.path(), "model.safetensors", "f16").unwrap();
    let mut wanted = request(dir.path(), "model.safetensors", "q8_0");
    assert_eq!(
        MistralRs::load(&wanted).err().unwrap().kind,
        FailureKind::Unsupported
    );
    wanted.variant = "isq".to_string();
    let (mut engine, quantised) = MistralRs::load(&wanted).unwrap();
    assert!(quantised.weight_bytes < plain.weight_bytes);
    assert_eq!(run(&mut engine, &PROMPTS[..1], 3)[0].output_ids.len(), 3);
}

#[test]
fn a_file_that_is_not_what_it_is_called_is_refused() {
    let dir = model(&spec());
    let refused = |weights, precision| load(dir.path(), weights, precision).err().unwrap();
    assert_eq!(
        refused("model-q8_0.gguf", "q4_k_m").kind,
        FailureKind::Unsupported
    );
    assert_eq!(
        refused("model.safetensors", "q4_k_m").kind,
        FailureKind::Unsupported
    );
    assert!(
        refused("missing.gguf", "q8_0")
            .message
            .contains("missing.gguf")
    );
}

#[test]
fn rope_scaling_that_a_gguf_path_ignores_is_declared() {
    let scaled = ModelSpec {
        rope_scaling: Some(Llama3RopeScaling {
            factor: 32.0,
            low_freq_factor: 1.0,
            high_freq_factor: 4.0,
            original_max_position: 32,
        }),
        ..spec()
    };
    let gap = |dir: &Path, weights: &str| {
        MistralRs::hello(&request(dir, weights, "q8_0"))
            .capabilities
            .position_gap
    };
    let dir = model(&scaled);
    assert!(gap(dir.path(), "model-q8_0.gguf").is_some());
    assert!(gap(dir.path(), "model.safetensors").is_none());
    assert!(gap(model(&spec()).path(), "model-q8_0.gguf").is_none());
}
