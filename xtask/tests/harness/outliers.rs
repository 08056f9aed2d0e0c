//! Tests that the targets of a run are asked about the model with outliers too, here any other
//! model: whoever answers wrongly only there isn't timed.

use crate::checkout::{Checkout, embedded};
use schema::golden::Golden;
use schema::record::Status;

/// The model that stands for the one with outliers.
const BESIDE: &str = "tiny-llama3";

#[test]
fn who_answers_wrongly_only_on_the_model_with_outliers_is_not_timed() {
    let checkout = Checkout::with(&[]);
    let limits = checkout.read("data/parity.toml");
    let limits = format!("outliers = \"{BESIDE}\"\n{limits}");
    checkout.write("data/parity.toml", &limits);
    checkout.link_model(&embedded(BESIDE));
    let bless = ["--engines", "fake.cpu.f32", "--profile", "test", "--bless"];
    let bless = [&["verify", "--model", BESIDE], &bless[..]].concat();
    checkout.ended(&bless, &[], 0);

    let run = checkout.measured(&[]);
    let record = &run.verify["fake.cpu.f32"];
    let asked = record.outliers.as_ref().expect("it was asked");
    assert_eq!(asked.model, BESIDE);
    let kl_nats = asked.kl_nats.expect("it gives log-probabilities");
    assert!(kl_nats < 1e-12, "{kl_nats}");
    assert!(
        run.header
            .provenance
            .facts
            .contains_key("golden_sha256_outliers")
    );

    // The same engine is wrong by a golden in which every first choice is less likely.
    let name = format!("data/golden/{BESIDE}.json");
    let mut golden = Golden::load(&checkout.path(&name)).expect("it was blessed");
    let positions = golden
        .prompts
        .iter_mut()
        .flat_map(|prompt| &mut prompt.top_logprobs);
    positions.for_each(|likely| likely[0] -= 0.1);
    checkout.write(&name, &golden.to_json());
    let (_, run) = checkout.bench(&[]);
    let record = &run.verify["fake.cpu.f32"];
    assert_eq!(record.status, Status::WrongOutput);
    let why = format!("on {BESIDE}, where shortcuts show");
    assert!(record.reason.contains(&why), "{}", record.reason);
    assert!(run.launches.is_empty());
}
