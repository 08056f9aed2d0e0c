//! The shipped `tiny-stories`: its stories must end and mostly be ones that the grammar could have
//! told, and it must predict others and stay close to itself when quantised.

use std::path::Path;

use models::measure::{divergence, greedy_to_end, perplexity};
use models::reference::{Cache, Reference};
use models::stories::follow;
use models::training::{Split, Windows, opening};
use models::{ModelFile, ModelSpec, Origin, Trained, generate};

fn shipped() -> (ModelSpec, Trained) {
    let spec = ModelSpec::tiny_stories();
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/models/tiny-stories");
    let trained = Trained::load(&spec, &dir.join("model.safetensors")).unwrap();
    (spec, trained)
}

#[test]
fn it_tells_whole_stories() {
    let (spec, trained) = shipped();
    let model = Reference::of(&spec, Origin::Trained(&trained), ModelFile::Safetensors);
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
        whole += usize::from(follow(&text).whole);
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
        let model = Reference::of(&spec, Origin::Trained(&trained), file);
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
        let model = Reference::of(&spec, Origin::Trained(&trained), file);
        model.forward(&ids, &positions, &mut Cache::default(), ids.len())
    };
    let truth = logits(ModelFile::Safetensors);
    for (file, limit) in [
        (ModelFile::GgufF16, 1e-6),
        (ModelFile::GgufQ8_0, 1e-2),
        (ModelFile::GgufQ4KM, 1e-1),
    ] {
        let other = logits(file);
        let rows = truth.chunks_exact(spec.vocab_size);
        let pairs = rows.zip(other.chunks_exact(spec.vocab_size));
        let kl = pairs.map(|(a, b)| divergence(a, b)).sum::<f64>() / ids.len() as f64;
        assert!(kl < limit, "{}: {kl}", file.name());
    }
}

#[test]
fn all_of_its_files_have_eight_megabytes() {
    let (spec, trained) = shipped();
    let dir = tempfile::tempdir().unwrap();
    generate(&spec, Origin::Trained(&trained), dir.path(), &mut |_, _| ()).unwrap();
    let files = std::fs::read_dir(dir.path()).unwrap();
    let bytes: u64 = files.map(|f| f.unwrap().metadata().unwrap().len()).sum();
    assert!(bytes <= 8_000_000, "{bytes} bytes");
}
