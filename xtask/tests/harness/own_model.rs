//! Tests of models that the user brings: from a checkout that doesn't know the model to a site that
//! shows it under its name; and of bad models, each refused in one line with exit status 2 and
//! nothing kept. The engine is `fake`, so the golden that is made is fake's.

use crate::checkout::{Checkout, NO_PYTHON, says, text, words};
use crate::hub::FakeHub;
use models::{Architecture, ModelFile, ModelSpec, Origin};
use schema::model::Source;
use schema::record::Status;
use std::path::Path;

/// Write a small model as a user might have, its safetensors in this number of shards.
pub fn write_model(dir: &Path, shards: usize) {
    write_model_of(dir, shards, Architecture::Llama);
}

fn write_model_of(dir: &Path, shards: usize, architecture: Architecture) {
    let spec = ModelSpec {
        architecture,
        num_layers: 1,
        shards,
        files: vec![ModelFile::Safetensors],
        ..ModelSpec::tiny_stories()
    };
    models::generate(&spec, Origin::Seed, dir, &mut |_, _| true).expect("it can be written");
}

/// The first page of a checkout's site.
const INDEX: &str = "target/site/index.html";

#[test]
fn a_directory_is_measured_and_shown_under_its_name() {
    let checkout = Checkout::with(&[]);
    write_model(&checkout.path("mine/My Model"), 2);
    let models = checkout.path("models");
    let environment = [("FAKE_PREFILL_TOKEN_US", "1")];
    let asked = ["bench-all", "--profile", "test", "--model", "mine/My Model"];
    let dry_run = [&asked[..], &["--dry-run"]].concat();
    let said = checkout.ended(&dry_run, &environment, 0);
    says(&said, &["Model my-model-", ": to be copied, about "]);
    let kept = std::fs::read_dir(&models).expect("it is there");
    assert_eq!(kept.count(), 1, "a dry run keeps nothing beside tiny-llama");
    let (_, run) = checkout.records(&asked, &environment, 0);

    let header = &run.header;
    let model = header.provenance.model.as_ref();
    let model = model.expect("it says what it is");
    assert_eq!(model.name, "My Model");
    assert_eq!(model.id, header.plan.model);
    assert!(matches!(model.source, Source::Directory { .. }));
    let hashed: Vec<&String> = header.provenance.model_files.keys().collect();
    let shards = hashed
        .iter()
        .filter(|name| name.ends_with("-of-00002.safetensors"));
    assert_eq!(shards.count(), 2, "a hash a shard: {hashed:?}");
    assert!(header.provenance.facts["golden_origin"].starts_with("made here by fake"));
    assert!(models.join(&model.id).join("golden.json").is_file());
    let record = serde_json::to_string(&header.provenance).expect("it is JSON");
    assert!(
        !record.contains("mine/My"),
        "where it lay is nobody's business"
    );

    // No file of this checkout was changed for the model, and a checkout without it shows it too.
    assert!(!checkout.read("data/models.lock").contains(&model.id));
    std::fs::remove_dir_all(&models).expect("it is ours");
    checkout.ended(&["site", "latest"], &environment, 0);
    says(&checkout.read(INDEX), &["My Model"]);

    // To repeat the run, the model must be brought again, and is the same model.
    let again = checkout.ended(&["reproduce", "latest"], &environment, 2);
    says(&again, &["was copied from a directory"]);
    let fetched = checkout.xtask(&["fetch", "mine/My Model"], &environment);
    assert!(text(&fetched).contains(&model.id), "{}", text(&fetched));
}

#[test]
fn a_repository_of_a_hub_is_measured_by_engines_that_list_its_architecture() {
    let checkout = Checkout::with(&[]);
    let original = checkout.path("original");
    write_model_of(&original, 2, Architecture::Qwen3);
    let names = [
        "config.json",
        "tokenizer.json",
        "model.safetensors.index.json",
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
    ];
    let hub = FakeHub::serving(&original, &names);
    let home = checkout.path("hf");
    let environment = [
        ("HF_HOME", home.to_str().expect("it is text")),
        ("HF_ENDPOINT", hub.url.as_str()),
        ("FAKE_PREFILL_TOKEN_US", "1"),
    ];
    let asked = ["bench-all", "--profile", "test", "--model", "hf:owner/repo"];
    let list = |architecture: &str| {
        let line = format!("architectures = [\"{architecture}\"]\nenv = [");
        checkout.registry(|text| {
            let end = text.find("env = [").expect("the engine names variables");
            let start = text.find("architectures = [").unwrap_or(end);
            format!("{}{line}{}", &text[..start], &text[end + "env = [".len()..])
        });
    };
    list("qwen3");
    let (_, run) = checkout.records(&asked, &environment, 0);
    let brought = run.header.provenance.model.as_ref();
    let model = brought.expect("it says what it is");
    assert_eq!(model.name, "owner/repo");
    says(&checkout.read(INDEX), &["owner/repo"]);

    list("llama");
    let output = checkout.xtask(&asked, &environment);
    let run = checkout.latest().expect("a run was recorded");
    let judged = &run.verify["fake.cpu.f32"];
    assert_eq!(judged.status, Status::Unsupported, "{}", text(&output));
    assert!(judged.reason.contains("qwen3"), "{}", judged.reason);
}

#[test]
fn a_bad_model_is_one_line_and_status_2() {
    let bare = Checkout::bare();
    write_model(&bare.path("half"), 2);
    let second = bare.path("half/model-00002-of-00002.safetensors");
    std::fs::remove_file(second).expect("it was written");
    write_model(&bare.path("other"), 1);
    bare.replace("other/config.json", "\"llama\"", "\"mamba\"");
    let refused = |line: &str, word: &str| {
        let said = bare.ended(&words(line), &[NO_PYTHON], 2);
        says(&said, &[word]);
        assert!(!bare.path("models").exists(), "{line} kept something");
        said
    };
    for (name, word) in [
        ("./half", "lacks model-00002-of-00002.safetensors"),
        ("./other", "architecture \"mamba\" is not known"),
        ("./nowhere", "no such directory"),
        ("hf:nobody", "hf:org/repo"),
    ] {
        let said = refused(&format!("fetch {name}"), word);
        assert_eq!(said.trim_end().lines().count(), 1, "{said}");
    }
    for verb in ["bench-all", "verify"] {
        let line = format!("{verb} --profile smoke --model ./half");
        refused(&line, "lacks model-00002");
    }
}
