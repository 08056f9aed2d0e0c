//! Tests that `--dry-run` describes a run and leaves every file and directory as it was; and tests
//! of `list`.

use crate::checkout::{Checkout, NO_PYTHON, says, text, words};
use crate::synthetic::Synthetic;
use serde_json::Value;

/// Return what a dry run prints to stdout; it must succeed and change nothing.
fn dry_run(bare: &Checkout, arguments: &[&str]) -> String {
    let output = bare.unchanged_by(arguments, &[NO_PYTHON], 0);
    let said = String::from_utf8(output.stdout).expect("it is text");
    says(&said, &["nothing was built, fetched"]);
    said
}

#[test]
fn a_dry_run_says_what_would_be_built_fetched_and_measured() {
    let bare = Checkout::bare();
    bare.write("target/programs/lmrs/lmrs-bench", "");
    let said = dry_run(&bare, &["bench-all", "--profile", "cpu", "--dry-run"]);
    let words = [
        "Profile cpu: 13 targets × 5 scenarios",
        "Not available here:\n",
        "  pytorch: /nonexistent/python3 can't be started",
        "  mistralrs-wheel: /nonexistent/python3 can't be started",
        "  openvino: /nonexistent/python3 can't be started",
        "Built before: lmrs\n",
        "To be built, about ",
        "To be downloaded meanwhile, some GB: what gigatoken-micro, mistralrs-wheel, openvino, pytorch and pytorch-micro need\n",
        "Model tiny-llama: to be made here, about 117 MB\n",
        "To be measured: 179 cells (",
        " launches in 5 blocks, plus second launches of the two targets that run twice\n",
        " requests or more, 160 or more of each cell\n",
        "All of profile cpu measures for about 33 min, at most 50 min",
        "Micro suites (sdpa, tokenizer): ",
        ", the report into target/site\n",
    ];
    says(&said, &words);
}

#[test]
fn what_is_chosen_and_what_is_here_changes_what_it_says() {
    let bare = Checkout::bare();
    for file in [
        "config.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "model.safetensors",
        "model-q8_0.gguf",
    ] {
        bare.write(&format!("models/tiny-llama/{file}"), "");
    }
    let narrowed = "bench --dry-run --profile cpu --engines lmrs --scenarios single_request";
    let narrowed = format!("{narrowed} --shard 1/2");
    let said = dry_run(&bare, &words(&narrowed));
    let missing = "model-f32.gguf, model-f16.gguf, model-q4_k_m.gguf\n";
    says(&said, &["These are the blocks of one shard", missing]);
    assert!(!said.contains("pytorch"), "it isn't asked for: {said}");
    assert!(!said.contains("Micro suites"), "nor are they: {said}");
    assert!(!said.contains("the report into"), "nor is it: {said}");
    let larger = words("bench --dry-run --model llama-3.2-1b-shape --profile cpu");
    let lacks = "  llamacpp.cpu.f16: llama-3.2-1b-shape has no model-f16.gguf\n";
    says(&dry_run(&bare, &larger), &[lacks]);
    let asked = words("bench --dry-run --model phi-3-mini");
    let refused = bare.unchanged_by(&asked, &[NO_PYTHON], 2);
    let why =
        "no golden of phi-3-mini is committed, and pytorch.cpu.f32, which is needed to make one";
    says(&text(&refused), &[why]);
}

#[test]
fn a_gpu_s_profile_names_every_check_and_finds_nothing_that_refuses() {
    let bare = Checkout::bare();
    let home = bare.path("hub").display().to_string();
    let asked = ["bench-all", "--profile", "gpu", "--dry-run"];
    let said = bare.unchanged_by(&asked, &[("HF_HOME", &home)], 0);
    let words = [
        "  lengths: contexts of up to 8256 tokens, llama-3.2-1b has 131072 positions\n",
        "  disk: about 3.8 GB of llama-3.2-1b to download or make; free in ",
        "  access: no token is lacking\n",
        "  golden: none is committed: ",
        " for contexts of 1088, 4160 and 8256 tokens; it counts if ",
        "  prompts of every length modulo 64\n",
        "  its outputs with 1, 4, 10, 16, 25, 32, 50, 64 and 100 in flight\n",
        "  the last 64 positions of contexts of 1088, 4160 and 8256 tokens",
        "and of every distinct timed output: that the reference accepts it\n",
    ];
    says(&text(&said), &words);
}

#[test]
fn a_plan_that_no_model_can_hold_is_refused_before_anything_is_done() {
    let bare = Checkout::bare();
    let profile = bare.read("data/profiles/smoke.toml");
    let (head, _) = profile.split_once("[scenarios.").expect("it has scenarios");
    let long = "[scenarios.long_context]\nprompt_tokens = [9000]\nnew_tokens = 8\nconcurrency = [1]\nrequests = 5\n";
    bare.write("data/profiles/smoke.toml", &format!("{head}{long}"));
    let smoke = ["bench", "--profile", "smoke", "--dry-run"];
    let why = "every case of profile smoke needs 9008 positions or more, and tiny-llama has 2048";
    let refused = bare.unchanged_by(&smoke, &[NO_PYTHON], 2);
    says(&text(&refused), &[why]);
    let some = long.replace("[9000]", "[64, 9000]");
    bare.write("data/profiles/smoke.toml", &format!("{head}{some}"));
    let unverified = "stay unverified and are not timed: long_context/p9000";
    says(&dry_run(&bare, &smoke), &[unverified]);
}

#[test]
fn a_dry_run_of_an_earlier_run_says_what_is_left_of_it() {
    let bare = Checkout::bare();
    let run = Synthetic::new("20260101-000000-cpu-1a2b", &["candle.cpu.f32"]);
    let dir = run.write(&bare.path("data/results"));
    let resumed = ["bench-all", "--resume", "latest", "--dry-run"];
    let said = dry_run(&bare, &resumed);
    says(&said, &["Run 20260101-000000-cpu-1a2b would be continued"]);
    says(&said, &["Launches left to be measured: 0\n"]);
    let record = dir.join("candle.cpu.f32/single_request.i3.jsonl");
    std::fs::remove_file(record).expect("it was written");
    let said = dry_run(&bare, &resumed);
    says(&said, &["Launches left to be measured: 1\n"]);
}

#[test]
fn lists_are_json_with_names_that_stay() {
    let bare = Checkout::bare();
    let run = Synthetic::new("20260101-000000-cpu-1a2b", &["candle.cpu.f32"]);
    run.write(&bare.path("data/results"));
    let list = |arguments: &[&str]| {
        let asked = [&["list", "--json"][..], arguments].concat();
        let output = bare.unchanged_by(&asked, &[NO_PYTHON], 0);
        serde_json::from_slice::<Value>(&output.stdout).expect("it is JSON alone")
    };
    let all = list(&[]);
    let kinds = all.as_object().expect("an object by kind");
    assert_eq!(kinds.len(), 7, "{:?}", kinds.keys());
    for kind_and_names in [
        "engines: id name about homepage architectures targets hidden",
        "targets: id engine variant backend precision weights kv devices profiles hidden",
        "scenarios: id version title question micro profiles",
        "profiles: id about publishable model measure_min budget_s invocations targets scenarios",
        "models: id name about parameters size_mb gated made_here present",
        "runs: id started profile model targets shard publishable",
        "metrics: id unit title better definition",
    ] {
        let (kind, names) = kind_and_names.split_once(": ").expect("it has both");
        assert_eq!(list(&[kind]), all[kind]);
        let item = all[kind][0].as_object().expect("an object");
        let mut wanted: Vec<&str> = names.split(' ').collect();
        wanted.sort_unstable();
        let mut have: Vec<&str> = item.keys().map(String::as_str).collect();
        have.sort_unstable();
        assert_eq!(have, wanted, "{kind}");
    }
    assert_eq!(all["runs"][0]["publishable"], true);
    assert_eq!(all["models"][0]["present"], false);
    let elsewhere = list(&["runs", "--out", "nowhere"]);
    assert_eq!(elsewhere, serde_json::json!([]));
    let candle = |target: &&Value| target["id"] == "candle.cuda.bf16";
    let targets = all["targets"].as_array().expect("an array");
    let candle = targets.iter().find(candle).expect("it is a target");
    assert_eq!(candle["devices"], serde_json::json!(["cuda_driver"]));
}
