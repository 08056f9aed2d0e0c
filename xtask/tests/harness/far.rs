//! Goldens where none is committed, or where it doesn't reach as far as a plan; what is verified only
//! so far; and prompts of every length. The reference is the fake itself.

use crate::checkout::{Checkout, PROFILE, text};
use schema::golden::Golden;
use schema::record::Status;
use std::path::Path;

/// A plan with contexts of 1 106 and 1 506 tokens beside those of 16.
const LONG: &str = "
[scenarios.long_context]
prompt_tokens = [1100, 1500]
new_tokens = 6
concurrency = [1]
requests = 6
";

/// Run in a checkout with a models directory of its own: a golden that is made here lies in it.
fn bench(checkout: &Checkout, models: &Path) -> std::process::Output {
    let models = models.display().to_string();
    let environment = [
        ("BENCH_MODELS_DIR", models.as_str()),
        ("FAKE_PREFILL_TOKEN_US", "1"),
    ];
    checkout.xtask(&["bench", "--profile", "test"], &environment)
}

#[test]
fn contexts_beyond_the_committed_golden_are_verified_as_far_as_each_target_goes() {
    let checkout = Checkout::with(&["short", "wrong_far"]);
    let (_, models) = checkout.own_models();
    checkout.profile(&format!("{PROFILE}{LONG}"));
    let output = bench(&checkout, &models);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    let run = checkout.latest().expect("a run was recorded");
    for (target, cell, status, reason, _) in checkout.cells(&run) {
        let wanted = match (target.as_str(), cell.as_str()) {
            ("fake+short.cpu.f32", "long_context/p1500") => Status::Unverified,
            ("fake+wrong_far.cpu.f32", _) => Status::WrongOutput,
            _ => Status::Ok,
        };
        assert_eq!(status, wanted, "{target} {cell}: {reason}");
    }
    let short = &run.verify["fake+short.cpu.f32"];
    assert_eq!(short.verified_positions, Some(1106));
    let why = "verified to 1106 positions only: at 1506 positions unsupported";
    assert!(short.reason.contains(why), "{}", short.reason);
    let wrong = &run.verify["fake+wrong_far.cpu.f32"];
    assert!(wrong.reason.contains("context-1506"), "{}", wrong.reason);

    // What was made is kept, and the record says so.
    let facts = &run.header.provenance.facts;
    assert_eq!(facts["golden_positions"], "1506");
    let origin = &facts["golden_origin"];
    assert!(
        origin.starts_with("committed, and for contexts of 1106 and 1506 tokens made here by fake"),
        "{origin}"
    );
    let kept = models.join("tiny-llama/golden.json");
    let golden = Golden::load(&kept).expect("it was written whole");
    let contexts: Vec<u32> = golden.prompts.iter().map(|p| p.context_tokens()).collect();
    assert_eq!(contexts, [1106, 1506]);
    let again = bench(&checkout, &models);
    assert!(
        !text(&again).contains("is made to reach"),
        "{}",
        text(&again)
    );
}

#[test]
fn a_golden_is_made_where_none_is_committed_and_kept_beside_the_model() {
    let checkout = Checkout::with(&[]);
    let (_, models) = checkout.own_models();
    std::fs::remove_file(checkout.path("data/golden/tiny-llama.json")).expect("it was blessed");
    let output = bench(&checkout, &models);
    assert!(output.status.success(), "{}", text(&output));
    let run = checkout.latest().expect("a run was recorded");
    let first = run.header.provenance.facts.clone();
    assert!(first["golden_origin"].starts_with("made here by fake.cpu.f32"));
    let kept = models.join("tiny-llama/golden.json");
    let golden = std::fs::read_to_string(&kept).expect("it was kept");
    assert_eq!(
        first["golden_sha256"],
        schema::hash::sha256_hex(golden.as_bytes())
    );

    // Of other weights it is none, and is made anew; half of one is none either.
    let weights = Golden::load(&kept).expect("it is whole").weights_sha256;
    let others = golden.replace(&weights, &"0".repeat(64));
    for spoilt in [others.as_str(), &golden[..golden.len() / 2]] {
        std::fs::write(&kept, spoilt).expect("it is ours");
        let output = bench(&checkout, &models);
        assert!(output.status.success(), "{}", text(&output));
        assert_eq!(
            std::fs::read_to_string(&kept).expect("it was made anew"),
            golden
        );
    }
    let run = checkout.latest().expect("a run was recorded");
    let facts = &run.header.provenance.facts;
    assert_eq!(facts["golden_sha256"], first["golden_sha256"]);
}

#[test]
fn where_the_reference_and_its_check_disagree_there_is_no_golden_and_nothing_is_measured() {
    let checkout = Checkout::with(&["wrong"]);
    let (_, models) = checkout.own_models();
    std::fs::remove_file(checkout.path("data/golden/tiny-llama.json")).expect("it was blessed");
    checkout.registry(|text| {
        text.replace(
            "cross_check = \"fake.cpu.f32\"",
            "cross_check = \"fake+wrong.cpu.f32\"",
        )
    });
    let output = bench(&checkout, &models);
    let said = text(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("disagree on tiny-llama"), "{said}");
    assert!(said.contains("no golden of it is committed"), "{said}");
    assert!(!models.join("tiny-llama/golden.json").exists());
    assert!(!checkout.path("runs").exists(), "nothing was begun");
}

#[test]
fn an_engine_that_is_wrong_after_prompts_of_some_lengths_is_not_timed() {
    let checkout = Checkout::with(&["wrong_after_4n", "wrong_after_37"]);
    let (output, run) = checkout.bench(&[]);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    assert_eq!(run.verify["fake.cpu.f32"].status, Status::Ok);
    for (variant, words) in [
        ("wrong_after_4n", ""),
        // No prompt of the golden has a length like that.
        ("wrong_after_37", "after a prompt of 37 tokens"),
    ] {
        let record = &run.verify[&format!("fake+{variant}.cpu.f32")];
        assert_eq!(record.status, Status::WrongOutput, "{variant}");
        assert!(record.reason.contains(words), "{}", record.reason);
        assert_eq!(record.verified_positions, None);
    }
    let timed = run.launches.iter().map(|log| log.launch.target.as_str());
    assert!(timed.clone().count() > 0);
    assert!(timed.into_iter().all(|target| target == "fake.cpu.f32"));
}
