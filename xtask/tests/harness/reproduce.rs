//! Tests of `cargo xtask reproduce`: the record's plan is replayed and compared, and changes that
//! would make it another experiment are refused. No test asserts a verdict that depends on the
//! clock of the testing machine.

use crate::checkout::{Checkout, says, text};
use schema::pins::Pin;
use schema::run::{Run, RunHeader};
use std::path::PathBuf;

/// Make a checkout with a run in it.
fn measured() -> (Checkout, Run) {
    let checkout = Checkout::with(&[]);
    let run = checkout.measured(&[]);
    (checkout, run)
}

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
    let named = again
        .header
        .origin
        .reproduces
        .as_ref()
        .expect("it names the run");
    assert_eq!(named.id, then.header.id);
    let outputs = |run: &Run| {
        let mut all: Vec<_> = run
            .launches
            .iter()
            .flat_map(|log| {
                log.requests
                    .iter()
                    .filter(|r| !r.warmup)
                    .map(move |r| (log.file.clone(), r.prompt, r.output_ids.clone()))
            })
            .collect();
        all.sort();
        all
    };
    assert_eq!(
        outputs(&again),
        outputs(&then),
        "the same prompts, the same work"
    );
    assert!(!said.contains("can't be compared"), "{said}");
    assert!(said.contains("eproduced: "), "{said}");
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
    refused(
        model,
        &["--anyway"],
        &[&difference, "another model or other prompts"],
    );
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
    refused(
        revision,
        &[],
        &[
            "git revision: 0123abcd → absent",
            "git checkout 0123abcd",
            "--anyway",
        ],
    );
    refused("nowhere".into(), &[], &["no run \"nowhere\""]);
    let same = || copied(&checkout, &run, |_| ());
    refused(
        same(),
        &["--engines", "cnadle"],
        &["\"cnadle\" in that run", "there are fake."],
    );
    refused(
        same(),
        &["--scenarios", "x"],
        &["\"x\" in that run", "there are concurrent, single_request."],
    );
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
    for differs in [
        "differs: lockfile data/models.lock",
        "differs: nix shell: theirs → ",
        "differs: libtorch: from /nix/store/x → from LIBTORCH",
        "environment, run `nix develop .#theirs`",
    ] {
        assert!(said.contains(differs), "{differs}: {said}");
    }
    assert!(said.contains("Nothing could be judged"), "{said}");
    let again = checkout.latest().expect("it was recorded");
    let scenarios: Vec<&str> = again
        .header
        .plan
        .scenarios
        .iter()
        .map(|s| s.id.as_str())
        .collect();
    assert_eq!(scenarios, ["single_request"]);
    let order = |run: &Run| -> Vec<_> {
        let launches = run.header.plan.launches.clone();
        launches
            .into_iter()
            .filter(|l| l.scenario == "single_request")
            .collect()
    };
    assert_eq!(order(&again), order(&run));
    assert!(again.launches.iter().all(|log| log.end.is_some()));
}
