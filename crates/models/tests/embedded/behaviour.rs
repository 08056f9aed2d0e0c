//! The embedded models must behave like models: spread logits, no repetition, small divergence
//! under quantisation and a large one under every mistake the parity gate has to catch.
//!
//! The stories of the shipped `tiny-stories` must end, and most must be ones that the grammar could
//! have told; it must predict other stories, and stay close to itself when quantised.

use models::measure::{divergence, greedy, greedy_to_end, perplexity, spread};
use models::quant::GgmlType;
use models::reference::{Cache, Layer, Reference, frequencies};
use models::stories::follows;
use models::tokenizer::{tokenizer_json, vocabulary};
use models::training::{Split, Windows, opening};
use models::{Architecture, ModelFile, ModelSpec, Origin, Trained, generate};
use std::collections::HashSet;
use std::path::Path;

const SCORED: usize = 24;

/// Token ids of a story, as the harness would send them.
fn story(spec: &ModelSpec, seed: u64, count: usize) -> Vec<u32> {
    let bpe = vocabulary(spec).unwrap();
    let tokenizer = tokenizers::Tokenizer::from_bytes(tokenizer_json(&bpe)).unwrap();
    let text = models::text::text(seed, 8 * count);
    let ids = tokenizer.encode(text, true).unwrap();
    ids.get_ids()[..count].to_vec()
}

/// Logits for the last [`SCORED`] ids, which stand `shift` positions too far.
fn run(model: &Reference, ids: &[u32], shift: usize) -> Vec<f32> {
    let prompt = ids.len() - SCORED;
    let position = |p| if p < prompt { p } else { p + shift };
    let positions: Vec<usize> = (0..ids.len()).map(position).collect();
    model.forward(ids, &positions, &mut Cache::default(), SCORED)
}

fn mean_divergence(spec: &ModelSpec, truth: &[f32], other: &[f32]) -> f64 {
    let rows = truth.chunks_exact(spec.vocab_size);
    let count = rows.len() as f64;
    let pairs = rows.zip(other.chunks_exact(spec.vocab_size));
    pairs.map(|(a, b)| divergence(a, b)).sum::<f64>() / count
}

/// Returns the mistakes as changes to a correct model. Position errors and stale keys are made in
/// the input.
fn mutants(exact: &Reference) -> Vec<(&'static str, Reference)> {
    let spec = &exact.spec;
    let with_base = |factor| {
        let rope_theta = spec.rope_theta * factor;
        let other = ModelSpec {
            rope_theta,
            ..spec.clone()
        };
        Reference {
            frequencies: frequencies(&other),
            ..exact.clone()
        }
    };
    let mut swapped = exact.clone();
    let width = spec.num_heads * spec.head_dim;
    for layer in &mut swapped.layers {
        for row in layer.o_proj.chunks_exact_mut(width) {
            row.rotate_left(spec.head_dim);
        }
    }
    let mut zeroed = exact.clone();
    let last = zeroed.layers.last_mut().unwrap();
    last.o_proj.fill(0.0);
    last.down_proj.fill(0.0);
    let mut mutants = vec![
        ("rope base x10", with_base(10.0)),
        ("rope base /10", with_base(0.1)),
        ("heads rotated", swapped),
        ("last layer zeroed", zeroed),
    ];
    if exact.output.is_some() {
        let mut tied = exact.clone();
        tied.output = None;
        mutants.push(("embeddings as the output matrix", tied));
    }
    if exact.layers[0].q_norm.is_some() {
        let mut plain = exact.clone();
        for layer in &mut plain.layers {
            (layer.q_norm, layer.k_norm) = (None, None);
        }
        mutants.push(("no norm of heads", plain));
        let mut unweighted = exact.clone();
        for layer in &mut unweighted.layers {
            layer.q_norm = Some(vec![1.0; spec.head_dim]);
        }
        mutants.push(("a norm of heads without weights", unweighted));
    }
    mutants
}

#[test]
fn tiny_llama_tells_mistakes_from_quantisation() {
    tells_mistakes_from_quantisation(&ModelSpec::tiny_llama());
}

#[test]
fn tiny_phi3_tells_mistakes_from_quantisation() {
    tells_mistakes_from_quantisation(&ModelSpec::tiny_phi3());
}

#[test]
fn tiny_qwen3_tells_mistakes_from_quantisation() {
    tells_mistakes_from_quantisation(&ModelSpec::tiny_qwen3());
}

fn tells_mistakes_from_quantisation(spec: &ModelSpec) {
    let ids = story(spec, 1, 90 + SCORED);
    let exact = Reference::new(spec, ModelFile::Safetensors);
    let truth = run(&exact, &ids, 0);

    let spreads: Vec<(f64, f64)> = truth.chunks_exact(spec.vocab_size).map(spread).collect();
    // Divergences grow with the square of the logits.
    let (logit_std, mistake_min, ratio_min) = match spec.architecture {
        Architecture::Llama => (2.0..4.0, 0.25, 3.0),
        _ => (1.6..2.4, 0.16, 2.5),
    };
    for (std, _) in &spreads {
        assert!(logit_std.contains(std), "logit standard deviation {std}");
    }
    let clear = spreads.iter().filter(|(_, margin)| *margin > 0.3).count();
    assert!(
        clear * 2 > SCORED,
        "margin above 0.3 in {clear} of {SCORED}"
    );

    let of = |model: &Reference, ids: &[u32], shift| {
        mean_divergence(spec, &truth, &run(model, ids, shift))
    };
    let f16 = of(&Reference::new(spec, ModelFile::GgufF16), &ids, 0);
    let q8_0 = of(&Reference::new(spec, ModelFile::GgufQ8_0), &ids, 0);
    let q4_k_m = of(&Reference::new(spec, ModelFile::GgufQ4KM), &ids, 0);
    assert!(f16 < 1e-6, "f16: {f16}");
    assert!(q8_0 < 4e-3, "q8_0: {q8_0}");
    assert!(q4_k_m < 0.09, "q4_k_m: {q4_k_m}");

    let mut stale = ids.clone();
    stale[..45].reverse();
    let mut found = vec![
        ("decode one position off", of(&exact, &ids, 1)),
        ("stale keys", of(&exact, &stale, 0)),
    ];
    found.extend(
        mutants(&exact)
            .iter()
            .map(|(name, m)| (*name, of(m, &ids, 0))),
    );
    for (name, kl) in found {
        assert!(
            kl > mistake_min && kl > ratio_min * q4_k_m,
            "{name}: {kl}, q4_k_m {q4_k_m}"
        );
    }
}

#[test]
fn tiny_llama3_shows_a_dropped_rope_scaling_at_long_positions() {
    let spec = ModelSpec::tiny_llama3();
    let ids = story(&spec, 2, 400 + SCORED);
    let exact = Reference::new(&spec, ModelFile::Safetensors);
    let dropped = Reference {
        frequencies: spec.rope_frequencies(),
        ..exact.clone()
    };
    let truth = run(&exact, &ids, 0);
    let kl = mean_divergence(&spec, &truth, &run(&dropped, &ids, 0));
    assert!(kl > 0.25, "{kl}");
    let quantised = Reference::new(&spec, ModelFile::GgufQ8_0);
    let q8_0 = mean_divergence(&spec, &truth, &run(&quantised, &ids, 0));
    assert!(q8_0 < 4e-3, "{q8_0}");
}

/// What a model with outliers is for: shortcuts that cost other models less than 8-bit weights do.
#[test]
fn tiny_outliers_shows_shortcuts_that_other_models_hide() {
    let outliers = ModelSpec::tiny_outliers();
    let plain = ModelSpec {
        outliers: false,
        ..outliers.clone()
    };
    let of = |spec: &ModelSpec| {
        let ids = story(spec, 6, 90 + SCORED);
        let exact = Reference::new(spec, ModelFile::Safetensors);
        let truth = run(&exact, &ids, 0);
        let kl = |logits: &[f32]| mean_divergence(spec, &truth, logits);
        let of_file = |file| kl(&run(&Reference::new(spec, file), &ids, 0));
        // The numbers are kept as exactly as without outliers.
        let [f16, q8_0] = [ModelFile::GgufF16, ModelFile::GgufQ8_0].map(of_file);
        assert!(f16 < 1e-6 && q8_0 < 4e-3, "{}: {f16} {q8_0}", spec.id);
        let mut wrong_epsilon = exact.clone();
        wrong_epsilon.spec.rms_norm_eps *= 10.0;
        let mut sparse = exact.clone();
        for layer in &mut sparse.layers {
            drop_the_smallest(spec, layer);
        }
        [
            kl(&run(&wrong_epsilon, &ids, 0)),
            kl(&with_keys_in_8_bits(&exact, &ids)),
            kl(&run(&sparse, &ids, 0)),
        ]
    };
    let (shown, hidden) = (of(&outliers), of(&plain));
    assert!(shown.iter().all(|kl| *kl > 0.05), "{shown:?}");
    // Which neurons are dropped differs from token to token, which the third doesn't imitate.
    assert!(hidden[..2].iter().all(|kl| *kl < 1e-3), "{hidden:?}");
}

/// Sets the 30 % of an MLP's neurons to zero whose activations are smallest on average.
fn drop_the_smallest(spec: &ModelSpec, layer: &mut Layer) {
    let mut rows: Vec<&mut [f32]> = layer.up_proj.chunks_exact_mut(spec.hidden_size).collect();
    let size = |row: &[f32]| row.iter().map(|x| x * x).sum::<f32>();
    rows.sort_by(|a, b| size(a).total_cmp(&size(b)));
    let count = rows.len() * 3 / 10;
    rows.iter_mut().take(count).for_each(|row| row.fill(0.0));
}

/// The same as [`run`] with the keys of each block of 32 rounded to 8 bits, once they are in the
/// cache.
fn with_keys_in_8_bits(model: &Reference, ids: &[u32]) -> Vec<f32> {
    let mut cache = Cache::default();
    let mut all = Vec::new();
    for (position, id) in ids.iter().enumerate() {
        all.extend(model.forward(&[*id], &[position], &mut cache, 1));
        for (keys, _) in &mut cache.layers {
            let width = model.spec.num_kv_heads * model.spec.head_dim;
            let at = position * width;
            let mut bytes = Vec::new();
            GgmlType::Q8_0.encode(&keys[at..], &mut bytes);
            let rounded = GgmlType::Q8_0.decode(&bytes);
            keys[at..].copy_from_slice(&rounded);
        }
    }
    all.split_off(all.len() - SCORED * model.spec.vocab_size)
}

#[test]
fn greedy_output_of_tiny_llama_does_not_fall_into_a_cycle() {
    does_not_fall_into_a_cycle(&ModelSpec::tiny_llama());
}

#[test]
fn greedy_output_of_tiny_llama3_does_not_fall_into_a_cycle() {
    does_not_fall_into_a_cycle(&ModelSpec::tiny_llama3());
}

#[test]
fn greedy_output_of_tiny_qwen3_does_not_fall_into_a_cycle() {
    does_not_fall_into_a_cycle(&ModelSpec::tiny_qwen3());
}

fn does_not_fall_into_a_cycle(spec: &ModelSpec) {
    let exact = Reference::new(spec, ModelFile::Safetensors);
    for (seed, prompt) in [(3, 10), (4, 50)] {
        let ids = story(spec, seed, prompt);
        let output = greedy(&exact, &ids, 128);
        let distinct: HashSet<_> = output.iter().collect();
        assert!(
            distinct.len() > 90,
            "{} after {prompt}: {} distinct ids of 128",
            spec.id,
            distinct.len()
        );
    }
}

#[test]
fn one_token_at_a_time_gives_what_the_whole_sequence_gives() {
    let spec = ModelSpec::tiny_llama3();
    let exact = Reference::new(&spec, ModelFile::Safetensors);
    let ids = story(&spec, 5, SCORED);
    let whole = run(&exact, &ids, 0);
    let mut cache = Cache::default();
    for (p, row) in whole.chunks_exact(spec.vocab_size).enumerate() {
        let step = exact.forward(&ids[p..=p], &[p], &mut cache, 1);
        let worst = step
            .iter()
            .zip(row)
            .fold(0.0f32, |m, (a, b)| m.max((a - b).abs()));
        assert!(worst < 1e-4, "position {p}: {worst}");
    }
}

fn shipped() -> (ModelSpec, Trained) {
    let spec = ModelSpec::tiny_stories();
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/models/tiny-stories");
    let trained = Trained::load(&spec, &dir.join("model.safetensors")).unwrap();
    (spec, trained)
}

#[test]
fn it_tells_whole_stories() {
    let (spec, trained) = shipped();
    let model = Reference::with_origin(&spec, Origin::Trained(&trained), ModelFile::Safetensors);
    let windows = Windows::new(&spec, 512).unwrap();
    let mut whole = 0;
    for index in 0..24 {
        // Stories that training never saw.
        let story = Split::Validation.story(spec.seed, 1_000_000 + index);
        let prompt = opening(&story);
        let ids = windows.prompt(prompt).unwrap();
        let (output, ended) = greedy_to_end(&model, &ids, 250);
        let text = format!("{prompt}{}", windows.text(&output).unwrap());
        assert!(ended, "it goes on and on: {text}");
        whole += usize::from(follows(&text));
    }
    assert!(whole >= 12, "{whole} of 24 follow the grammar to their end");
}

#[test]
fn it_predicts_stories_that_it_never_saw() {
    let (spec, trained) = shipped();
    let windows = Windows::new(&spec, 512).unwrap();
    let held_out: Vec<Vec<u32>> = (0..8)
        .map(|i| windows.window(spec.seed, Split::Validation, i).unwrap())
        .collect();
    let of = |file| {
        let model = Reference::with_origin(&spec, Origin::Trained(&trained), file);
        perplexity(&model, &held_out)
    };
    let exact = of(ModelFile::Safetensors);
    assert!(exact < 1.4, "perplexity {exact}");
    assert!(of(ModelFile::GgufQ8_0) < 1.01 * exact);
}

#[test]
fn quantisation_stays_within_the_gate_s_limits() {
    let (spec, trained) = shipped();
    let windows = Windows::new(&spec, 256).unwrap();
    let ids = windows.window(spec.seed, Split::Validation, 99).unwrap();
    let positions: Vec<usize> = (0..ids.len()).collect();
    let logits = |file| {
        let model = Reference::with_origin(&spec, Origin::Trained(&trained), file);
        model.forward(&ids, &positions, &mut Cache::default(), ids.len())
    };
    let truth = logits(ModelFile::Safetensors);
    for (file, limit) in [
        (ModelFile::GgufF16, 1e-6),
        (ModelFile::GgufQ8_0, 1e-2),
        (ModelFile::GgufQ4KM, 1e-1),
    ] {
        let kl = mean_divergence(&spec, &truth, &logits(file));
        assert!(kl < limit, "{}: {kl}", file.name());
    }
}

#[test]
fn all_of_its_files_have_eight_megabytes() {
    let (spec, trained) = shipped();
    let dir = tempfile::tempdir().unwrap();
    generate(&spec, Origin::Trained(&trained), dir.path(), &mut |_, _| {
        true
    })
    .unwrap();
    let files = std::fs::read_dir(dir.path()).unwrap();
    let bytes: u64 = files.map(|f| f.unwrap().metadata().unwrap().len()).sum();
    assert!(bytes <= 8_000_000, "{bytes} bytes");
}
