//! Tests of `cargo xtask reproduce`: the record's plan is replayed and compared, and changes that
//! would make it another experiment are refused. No test asserts a verdict that depends on the
//! clock of the testing machine.

use crate::checkout::{Checkout, says, text};
use crate::resume::measured;
use schema::pins::Pin;
use schema::run::{Run, RunHeader};
use std::path::PathBuf;

/// Write a run's header, changed, to a file outside the runs; return its path.
fn copied(checkout: &Checkout, run: &Run, change: impl FnOnce(&mut RunHeader)) -> PathBuf {
    let mut header = run.header.clone();
    change(&mut header);
    let json = serde_json::to_string(&header).expect("it is JSON");
    checkout.write("copy.json", &json);
    checkout.path("copy.json")
}

#[test]
fn the_plan_is_replayed_and_every_cell_judged() {
    let (checkout, then) = measured();
    let output = checkout.xtask(&["reproduce", "latest"], &[]);
    let said = text(&output);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{said}");
    let again = checkout.latest().expect("it was recorded");
    assert_ne!(again.header.id, then.header.id);
    assert_eq!(again.header.plan, then.header.plan);
    assert_eq!(again.header.plan_sha256, then.header.plan_sha256);
    let named = again.header.origin.reproduces.as_ref();
    assert_eq!(named.expect("it names the run").id, then.header.id);
    // The same prompts, the same work.
    assert_eq!(outputs(&again), outputs(&then));
    assert!(!said.contains("can't be compared"), "{said}");
    says(&said, &["eproduced: "]);
}

/// What was answered to each timed prompt, by record.
fn outputs(run: &Run) -> Vec<(PathBuf, u64, Vec<u32>)> {
    let mut all = Vec::new();
    for log in &run.launches {
        for request in log.requests.iter().filter(|request| !request.warmup) {
            let answer = request.output_ids.clone();
            all.push((log.file.clone(), request.prompt, answer));
        }
    }
    all.sort();
    all
}

#[test]
fn another_model_or_plan_is_refused_and_says_which() {
    let (checkout, run) = measured();
    let refused = |path: PathBuf, more: &[&str], words: &[&str]| {
        let path = path.display().to_string();
        let said = checkout.ended(&[&["reproduce", &path], more].concat(), &[], 2);
        says(&said, words);
    };
    let file = "tiny-llama/model.safetensors";
    let now = run.header.provenance.model_files[file].clone();
    let model = copied(&checkout, &run, |header| {
        let files = &mut header.provenance.model_files;
        files.insert(file.into(), "0123456789abcdef".into());
    });
    let difference = format!("{file}: 0123456789ab → {}", &now[..12]);
    let words = [&*difference, "another model or other prompts"];
    refused(model, &["--anyway"], &words);
    let prompts = copied(&checkout, &run, |header| {
        let facts = &mut header.provenance.facts;
        facts.insert("prompts_sha256".into(), "0123456789abcdef".into());
    });
    refused(prompts, &[], &["prompts_sha256: 0123456789ab →"]);
    let tampered = copied(&checkout, &run, |header| header.plan.seed += 1);
    refused(tampered, &[], &["copy.json: the plan in it is not the one"]);
    let shard = copied(&checkout, &run, |header| {
        header.origin.shard = Some("1/2".parse().expect("it is one"));
    });
    refused(shard, &[], &["is shard 1/2, no whole run"]);
    let revision = copied(&checkout, &run, |header| {
        header.provenance.git_revision = Some("0123abcd".into());
    });
    let words = [
        "git revision: 0123abcd → absent",
        "git checkout 0123abcd",
        "--anyway",
    ];
    refused(revision, &[], &words);
    refused("nowhere".into(), &[], &["no run \"nowhere\""]);
    let same = || copied(&checkout, &run, |_| ());
    let words = ["\"cnadle\" in that run", "there are fake."];
    refused(same(), &["--engines", "cnadle"], &words);
    let words = ["\"x\" in that run", "there are concurrent, single_request."];
    refused(same(), &["--scenarios", "x"], &words);
    checkout.write("copy.json", "{");
    refused(checkout.path("copy.json"), &[], &["copy.json:1"]);
}

#[test]
fn a_header_alone_is_replayed_in_part_and_other_locks_are_said() {
    let (checkout, run) = measured();
    let path = copied(&checkout, &run, |header| {
        let locks = &mut header.provenance.lockfiles;
        locks.insert("data/models.lock".into(), "0123456789abcdef".into());
        header.provenance.pins.nix_shell = Some("theirs".into());
        header.provenance.pins.libtorch = Some(Pin {
            from: "/nix/store/x".into(),
            ..Pin::default()
        });
    });
    let path = path.display().to_string();
    let narrowed = ["reproduce", &path, "--scenarios", "single_request"];
    let said = checkout.ended(&narrowed, &[], 2);
    says(&said, &["lockfile data/models.lock: 0123456789ab →"]);
    let here = [("LIBTORCH", "/nowhere")];
    let said = checkout.ended(&[&narrowed[..], &["--anyway"]].concat(), &here, 0);
    let words = [
        "differs: lockfile data/models.lock",
        "differs: nix shell: theirs → ",
        "differs: libtorch: from /nix/store/x → from LIBTORCH",
        "environment, run `nix develop .#theirs`",
        "Nothing could be judged",
    ];
    says(&said, &words);
    let again = checkout.latest().expect("it was recorded");
    let scenarios = again.header.plan.scenarios.iter();
    let scenarios: Vec<&str> = scenarios.map(|s| s.id.as_str()).collect();
    assert_eq!(scenarios, ["single_request"]);
    let order = |run: &Run| {
        let mut launches = run.header.plan.launches.clone();
        launches.retain(|launch| launch.scenario == "single_request");
        launches
    };
    assert_eq!(order(&again), order(&run));
    assert!(again.launches.iter().all(|log| log.end.is_some()));
}
