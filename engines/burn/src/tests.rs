//! Tests of the whole engine with tiny models: against a plain reference, alone and in batches,
//! with every layout of files, and with everything that must be refused.

mod fixture;
mod reference;

use crate::backend::WITH_LIBTORCH;
use crate::engine::Burn;
use fixture::{HIDDEN, LAYERS, Tiny, VOCABULARY};
use protocol::engine::testing::{generate, request};
use protocol::engine::{Engine, EngineError};
use protocol::wire::{FailureKind, Load, Loaded};
use safetensors::Dtype;
use serde_json::{Value, json};
use std::path::Path;

/// The backends of this build that compute on a CPU.
fn backends() -> &'static [&'static str] {
    if WITH_LIBTORCH {
        &["tch"]
    } else if cfg!(all(feature = "flex", feature = "ndarray")) {
        &["flex", "ndarray"]
    } else if cfg!(feature = "ndarray") {
        &["ndarray"]
    } else {
        &["flex"]
    }
}

fn load(dir: &Path, change: impl FnOnce(&mut Load)) -> Result<(Burn, Loaded), EngineError> {
    let mut request = Load {
        backend: backends()[0].to_string(),
        threads: 2,
        max_context: 48,
        max_batch: 3,
        ..request(dir, "model.safetensors", "f32")
    };
    change(&mut request);
    Burn::load(&request)
}

fn refusal(dir: &Path, change: impl FnOnce(&mut Load)) -> EngineError {
    let Err(err) = load(dir, change) else {
        panic!("it loaded")
    };
    assert!(!err.message.contains('\n'), "{err}");
    err
}

const IDS: [u32; 9] = [1, 90, 3, 17, 64, 8, 127, 0, 5];

/// Return the logits after every position, from one prefill of `first` ids, then the others one by
/// one.
fn incremental(engine: &mut Burn, first: usize) -> Vec<Vec<f32>> {
    engine.prefill(&[&IDS[..first]]).unwrap();
    let mut all = vec![engine.logits(0).unwrap()];
    for id in &IDS[first..] {
        engine.decode(&[*id]).unwrap();
        all.push(engine.logits(0).unwrap());
    }
    all
}

fn assert_close(got: &[f32], expected: &[f64], what: &str) {
    assert_eq!(got.len(), VOCABULARY);
    let pairs = got.iter().zip(expected);
    let worst = pairs
        .map(|(g, e)| (f64::from(*g) - e).abs())
        .fold(0.0, f64::max);
    assert!(worst < 1e-3, "{what}: {worst}");
}

fn llama3() -> Value {
    json!({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
        "high_freq_factor": 4.0, "original_max_position_embeddings": 32})
}

#[test]
fn every_position_is_the_references() {
    for (what, config) in [
        ("plain", json!({})),
        ("untied", json!({"tie_word_embeddings": false})),
        ("biases", json!({"attention_bias": true, "mlp_bias": true})),
        ("llama 3", json!({"rope_scaling": llama3()})),
        ("qwen3", json!({"model_type": "qwen3"})),
    ] {
        let tiny = Tiny::new(config);
        let dir = tiny.write();
        for backend in backends() {
            let (mut engine, _) =
                load(dir.path(), |load| load.backend = backend.to_string()).unwrap();
            for first in [1, 5] {
                for (i, got) in incremental(&mut engine, first).iter().enumerate() {
                    let ids = &IDS[..first + i];
                    let expected = reference::logits(&tiny, ids);
                    assert_close(got, &expected, &format!("{what}, {backend}, {ids:?}"));
                }
            }
        }
    }
}

#[test]
fn rows_see_neither_each_other_nor_the_last_batch() {
    let dir = Tiny::new(json!({})).write();
    // Together they are more rows than flex multiplies one by one; alone they are fewer.
    let prompts: [&[u32]; 3] = [&IDS[..6], &IDS[3..], &[7; 6]];
    for backend in backends() {
        let (mut engine, _) = load(dir.path(), |load| load.backend = backend.to_string()).unwrap();
        let together = generate(&mut engine, &prompts, 6);
        let apart = prompts.map(|prompt| generate(&mut engine, &[prompt], 6).remove(0));
        assert_eq!(together, apart, "{backend}");
    }
}

/// If a backend can't record, the step's code runs again; the positions that a kernel reads from a
/// buffer, and the separate cache, are tested all the same.
#[test]
fn a_recorded_step_is_the_plain_one() {
    let dir = Tiny::new(json!({"rope_scaling": llama3()})).write();
    let prompts: [&[u32]; 2] = [&IDS[..6], &[7; 6]];
    for backend in backends() {
        let of = |variant: &str| {
            let change = |load: &mut Load| {
                load.backend = backend.to_string();
                load.variant = variant.to_string();
                load.max_context = 200;
            };
            load(dir.path(), change).unwrap().0
        };
        let (mut plain, mut graph) = (of(""), of("graph"));
        // One row, then a batch, then a prompt shorter than what the cache still holds.
        for (prompts, tokens) in [(&prompts[..1], 140), (&prompts[..], 4), (&prompts[1..], 70)] {
            let mut next = plain.prefill(prompts).unwrap();
            assert_eq!(graph.prefill(prompts).unwrap(), next);
            for at in 0..tokens {
                let choice = graph.decode(&next).unwrap();
                next = plain.decode(&next).unwrap();
                assert_eq!(choice, next, "{backend}, {} rows, {at}", prompts.len());
            }
            let (logits, wanted) = (graph.logits(0).unwrap(), plain.logits(0).unwrap());
            let wanted: Vec<f64> = wanted.into_iter().map(f64::from).collect();
            assert_close(&logits, &wanted, backend);
        }
    }
    let err = refusal(dir.path(), |load| load.variant = "other".to_string());
    assert_eq!(err.kind, FailureKind::Unsupported);
}

#[test]
fn fused_sharded_and_rounded_files_are_the_same_model() {
    let tiny = Tiny::new(json!({})).rounded();
    let dir = tiny.write();
    let mut plain = load(dir.path(), |_| ()).unwrap().0;
    let expected = incremental(&mut plain, 4);

    let fused = Tiny::new(json!({"model_type": "phi3"})).rounded().write();
    let mut fused = load(fused.path(), |_| ()).unwrap().0;
    assert_eq!(incremental(&mut fused, 4), expected);

    let first = |name: &str| name.contains(".0.");
    tiny.write_tensors(&dir.path().join("a.safetensors"), Dtype::BF16, first);
    tiny.write_tensors(&dir.path().join("b.safetensors"), Dtype::F32, |name| {
        !first(name)
    });
    let file = |name: &String| {
        let shard = if first(name) { "a" } else { "b" };
        (name.clone(), json!(format!("{shard}.safetensors")))
    };
    let map: serde_json::Map<_, _> = tiny.tensors.keys().map(file).collect();
    let index = "model.safetensors.index.json";
    std::fs::write(
        dir.path().join(index),
        json!({ "weight_map": map }).to_string(),
    )
    .unwrap();
    let mut sharded = load(dir.path(), |load| load.weights = index.to_string())
        .unwrap()
        .0;
    assert_eq!(incremental(&mut sharded, 4), expected);
    std::fs::remove_file(dir.path().join("model.safetensors")).unwrap();
    let mut sharded = load(dir.path(), |_| ()).unwrap().0;
    assert_eq!(incremental(&mut sharded, 4), expected);
}

#[test]
fn the_weights_of_a_step_are_counted() {
    for (config, unread) in [
        (json!({"attention_bias": true, "mlp_bias": true}), 0),
        (json!({"tie_word_embeddings": false}), VOCABULARY * HIDDEN),
        (json!({"model_type": "qwen3"}), 0),
    ] {
        let tiny = Tiny::new(config);
        let all: usize = tiny.tensors.values().map(|(_, values)| values.len()).sum();
        let (_, loaded) = load(tiny.write().path(), |_| ()).unwrap();
        assert_eq!(loaded.weight_bytes, 4 * (all - unread) as u64);
        assert_eq!(loaded.kv_bytes_per_token, (4 * 2 * LAYERS * 2 * 24) as u64);
    }
}

#[test]
fn what_is_not_computed_is_refused_by_name() {
    for (config, word) in [
        (json!({"model_type": "qwen2"}), "qwen2"),
        (
            json!({"model_type": "mistral", "sliding_window": 47}),
            "last 47 positions",
        ),
    ] {
        let err = refusal(Tiny::new(config).write().path(), |_| ());
        assert_eq!(err.kind, FailureKind::Unsupported, "{err}");
        assert!(err.message.contains(word), "{err}");
    }
    let dir = Tiny::new(json!({"model_type": "mistral", "sliding_window": 48})).write();
    assert!(load(dir.path(), |_| ()).is_ok());
    let unused = json!({"model_type": "qwen3", "sliding_window": 8, "use_sliding_window": false});
    assert!(load(Tiny::new(unused).write().path(), |_| ()).is_ok());
    for precision in ["q8_0", "q4_k_m"] {
        let err = refusal(dir.path(), |load| load.precision = precision.to_string());
        assert_eq!(err.kind, FailureKind::Unsupported);
    }
}

#[test]
fn half_precision_is_refused_where_burn_computes_in_rust() {
    if WITH_LIBTORCH {
        return;
    }
    let dir = Tiny::new(json!({})).write();
    for backend in backends() {
        let [f16, bf16] = ["f16", "bf16"].map(|precision| {
            let err = refusal(dir.path(), |load| {
                load.backend = backend.to_string();
                load.precision = precision.to_string();
            });
            assert_eq!(err.kind, FailureKind::Unsupported, "{err}");
            err.message
        });
        assert!(f16.ends_with("; use f32"), "{f16}");
        let same = f16.strip_prefix("f16") == bf16.strip_prefix("bf16");
        assert_eq!(same, *backend == "ndarray", "{f16} / {bf16}");
    }
}

#[test]
fn a_missing_device_is_unavailable() {
    let dir = Tiny::new(json!({})).write();
    let mut absent = vec!["metal"];
    if WITH_LIBTORCH {
        absent.push("flex");
    } else {
        absent.push("tch");
    }
    for backend in absent {
        let err = refusal(dir.path(), |load| load.backend = backend.to_string());
        assert_eq!(err.kind, FailureKind::Unavailable, "{err}");
        assert!(err.message.contains(backend), "{err}");
    }
    let err = refusal(dir.path(), |load| load.backend = "tpu".to_string());
    assert_eq!(err.kind, FailureKind::Unsupported);
}

#[test]
fn requests_beyond_what_was_loaded_are_refused() {
    let dir = Tiny::new(json!({})).write();
    let (mut engine, _) = load(dir.path(), |_| ()).unwrap();
    engine.prefill(&[&[1; 48]]).unwrap();
    assert_eq!(
        engine.decode(&[1]).unwrap_err().kind,
        FailureKind::Unsupported
    );
    let four: [&[u32]; 4] = [&[1]; 4];
    assert_eq!(
        engine.prefill(&four).unwrap_err().kind,
        FailureKind::Unsupported
    );
    let id = VOCABULARY as u32;
    assert_eq!(
        engine.prefill(&[&[id]]).unwrap_err().kind,
        FailureKind::BadRequest
    );
    engine.prefill(&[&[1, 2]]).unwrap();
}

#[test]
fn a_damaged_file_is_named() {
    let tiny = Tiny::new(json!({}));
    let dir = tiny.write();
    let path = |name: &str| dir.path().join(name);
    let bytes = std::fs::read(path("model.safetensors")).unwrap();
    std::fs::write(path("half.safetensors"), &bytes[..bytes.len() / 2]).unwrap();
    std::fs::write(path("noise.safetensors"), [0xff; 64]).unwrap();
    std::fs::write(path("empty.safetensors"), []).unwrap();
    std::fs::write(path("index.json"), "{}").unwrap();
    tiny.write_tensors(&path("lacking.safetensors"), Dtype::F32, |name| {
        !name.contains("down")
    });
    for weights in [
        "missing.safetensors",
        "half.safetensors",
        "noise.safetensors",
        "empty.safetensors",
        "lacking.safetensors",
        "index.json",
        "model.gguf",
    ] {
        let err = refusal(dir.path(), |load| load.weights = weights.to_string());
        assert!(err.message.contains(weights), "{err}");
    }
    let mut changed = Tiny::new(json!({}));
    changed.config["intermediate_size"] = json!(95);
    let err = refusal(changed.write().path(), |_| ());
    assert!(err.message.contains("model.layers.0.mlp"), "{err}");
    std::fs::remove_file(path("config.json")).unwrap();
    assert!(refusal(dir.path(), |_| ()).message.contains("config.json"));
}
