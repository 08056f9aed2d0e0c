//! Tests of a precision whose targets are held against the reference with the weights of their own
//! file. The reference is the fake itself, which reads no weights.

use crate::checkout::{Checkout, text};
use schema::record::Status;
use std::path::PathBuf;

const MODEL: &str = "tiny-llama";
const WEIGHTS: &str = "model-q4_k_m.gguf";
const TARGET: &str = "fake.cpu.q4_k_m";

/// A checkout with a target in q4_k_m beside the plain one.
fn checkout() -> Checkout {
    let checkout = Checkout::with(&[]);
    checkout.registry(|text| {
        text + &format!(
            "[[engine.target]]\nvariant = \"\"\nbackend = \"cpu\"\nprecision = \"q4_k_m\"\nweights = {WEIGHTS:?}\n"
        )
    });
    checkout
}

/// The directory for the weights in f32, and the golden with them; both removed where the real
/// checkout has them.
fn places(checkout: &Checkout) -> [PathBuf; 2] {
    let lock = checkout.repo().models_lock().expect("the lock is valid");
    let sha256 = &lock.models[MODEL][WEIGHTS];
    let dir = checkout.path("models").join(MODEL);
    let places = [
        dir.join(format!("{WEIGHTS}-{}.f32", &sha256[..8])),
        dir.join("golden.model-q4_k_m.json"),
    ];
    for place in &places {
        let _ = std::fs::remove_file(place); // a link
    }
    places
}

#[test]
fn a_target_of_few_bits_is_judged_with_its_own_weights_and_the_others_are_not() {
    let checkout = checkout();
    let [weights, golden] = places(&checkout);
    let run = checkout.measured(&[]);
    assert!(weights.join("model.safetensors").exists() && golden.exists());
    assert_eq!(run.verify[TARGET].status, Status::Ok);
    let facts = &run.header.provenance.facts;
    assert_eq!(facts["golden_origin"], "committed");
    let own = format!("golden_sha256_{WEIGHTS}");
    assert!(facts.contains_key(&own) && facts[&own] != facts["golden_sha256"]);
    assert_eq!(run.checks.len(), 4, "two targets, two cases");
    for check in run.checks.values() {
        let with_own = check
            .method
            .ends_with(&format!("with the weights of {WEIGHTS}"));
        assert_eq!(with_own, check.target == TARGET, "{}", check.method);
        assert!(check.equal > 0 && check.unchecked == 0, "{}", check.target);
    }
}

#[test]
fn where_the_reference_cannot_read_the_weights_their_targets_alone_are_left_out() {
    let checkout = checkout();
    let [weights, _] = places(&checkout);
    std::fs::write(&weights, "in the way").expect("nothing is there");
    let (output, run) = checkout.bench(&[]);
    let said = text(&output);
    assert!(said.contains("the reference can't read"), "{said}");
    assert_eq!(run.verify[TARGET].status, Status::Unverified, "{said}");
    checkout.cells_are(&run, |target, _| match target {
        TARGET => (Status::Unverified, "", 0),
        _ => (Status::Ok, "", 0),
    });
}
