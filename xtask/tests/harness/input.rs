//! Bad input: one clear error that names the file, the line or the thing, and
//! what there is instead.

use crate::checkout::{Checkout, PROFILE, text};
use schema::record::Status;

#[test]
fn bad_input_is_one_clear_error() {
    let checkout = Checkout::with(&[]);
    let fails = |arguments: &[&str], words: &[&str]| {
        let output = checkout.xtask(arguments, &[]);
        let said = text(&output);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        for word in words {
            assert!(
                said.contains(word),
                "{arguments:?} does not say {word:?}: {said}"
            );
        }
        assert!(!said.contains("panicked"), "{said}");
    };
    let bench = ["bench", "--profile", "test"];

    checkout.profile(&PROFILE.replace("requests = 6", "requests = six"));
    fails(&bench, &["data/profiles/test.toml:18"]);
    checkout.profile(&PROFILE.replace("seed = 1", "sede = 1"));
    fails(&bench, &["data/profiles/test.toml", "sede"]);
    checkout.profile(&PROFILE.replace("publishable = false", "publishable = true"));
    fails(&bench, &["data/profiles/test.toml", "100-sample floor"]);
    checkout.profile(&PROFILE.replace("[scenarios.concurrent]", "[scenarios.concurent]"));
    fails(&bench, &["\"concurent\"", "there are concurrent,"]);
    checkout.profile(&PROFILE.replace("\"tiny-llama\"", "\"tiny-lama\""));
    fails(&bench, &["tiny-lama", "data/models.toml"]);
    checkout.profile(PROFILE);
    fails(
        &["bench", "--profile", "test", "--scenarios", "memory"],
        &["gives scenario \"memory\" no size"],
    );
    fails(&["export", "latest"], &["there is no latest run"]);

    checkout.write("data/scenarios/odd.toml", "id = \"other\"\n");
    fails(&bench, &["data/scenarios/odd.toml"]);
    std::fs::remove_file(checkout.path("data/scenarios/odd.toml")).expect("it was written");
    let golden = checkout.path("data/golden/tiny-llama.json");
    let whole = std::fs::read_to_string(&golden).expect("it was blessed");
    std::fs::write(&golden, &whole[..whole.len() / 2]).expect("it is ours");
    fails(&bench, &["data/golden/tiny-llama.json"]);
}

#[test]
fn a_corrupt_record_is_named_by_file_and_line() {
    let checkout = Checkout::with(&[]);
    let (output, run) = checkout.bench(&[]);
    assert!(
        output.status.success(),
        "{}",
        crate::checkout::text(&output)
    );
    let file = checkout
        .path("runs")
        .join(&run.header.id)
        .join(&run.launches[0].file);
    let text = std::fs::read_to_string(&file).expect("it was recorded");
    let mut lines: Vec<&str> = text.lines().collect();
    lines[2] = "{\"ev\":\"request\",\"case\":7}";
    std::fs::write(&file, lines.join("\n") + "\n").expect("it is ours");
    let output = checkout.xtask(&["export", "latest"], &[]);
    assert_eq!(output.status.code(), Some(1));
    let said = crate::checkout::text(&output);
    assert!(said.contains(".jsonl:3:"), "{said}");
}

#[test]
fn without_python_a_python_engine_is_unavailable_and_the_rest_is_measured() {
    let checkout = Checkout::with(&[]);
    let registry = std::fs::read_to_string(checkout.path("engines/engines.toml")).expect("written");
    let python = "[[engine]]\nid = \"snake\"\nname = \"snake\"\nabout = \"\"\nhomepage = \"\"\n\
        build = { kind = \"python\", script = \"engines/snake.py\", requirements = \"engines/snake.lock\" }\n\
        [[engine.target]]\nbackend = \"cpu\"\nprecision = \"f32\"\nweights = \"model.safetensors\"\n";
    checkout.write("engines/engines.toml", &format!("{registry}{python}"));
    checkout.write("engines/snake.py", "");
    checkout.write("engines/snake.lock", "torch==2.9.0\n");
    let (output, run) = checkout.bench(&[("BENCH_PYTHON", "/nonexistent/python3")]);
    assert!(output.status.success(), "{}", text(&output));
    for (target, cell, status, reason, _) in checkout.cells(&run) {
        if target == "snake.cpu.f32" {
            assert_eq!(status, Status::Unavailable, "{cell}: {reason}");
            assert!(
                reason.contains("/nonexistent/python3 can't be started"),
                "{reason}"
            );
        } else {
            assert_eq!(status, Status::Ok, "{target} {cell}: {reason}");
        }
    }
}
