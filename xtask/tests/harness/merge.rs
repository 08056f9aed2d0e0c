//! Tests of `--shard` and `cargo xtask merge`: the parts make the whole, the inputs stay unchanged,
//! and parts that don't fit are refused with both sides named.

use crate::checkout::{Checkout, PROFILE, ended, says, text};
use crate::compare::{runs, xtask};
use crate::synthetic::{Synthetic, fact, hash, reseeded};
use fixtures::{CASE, SCENARIO};
use runs::results::Results;
use schema::budget::Budget;
use schema::key::CellKey;
use schema::record::Status;
use schema::run::{Run, RunHeader};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

const TARGETS: [&str; 2] = ["x.cpu.f32", "y.cpu.f32"];

/// Return every file of a directory with its bytes.
fn snapshot(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir(dir).expect("it can be listed").flatten() {
        let path = entry.path();
        match path.is_dir() {
            true => all.extend(snapshot(&path)),
            false => {
                let bytes = std::fs::read(&path).expect("it can be read");
                all.insert(path, bytes);
            }
        }
    }
    all
}

/// Return (target, scenario, invocation, case, timed prompts) of everything measured.
fn measured(run: &Run) -> BTreeSet<(String, String, u32, String, Vec<u64>)> {
    let mut all = BTreeSet::new();
    for log in &run.launches {
        for end in &log.case_ends {
            let timed = log
                .requests
                .iter()
                .filter(|r| r.case == end.case && !r.warmup);
            let mut prompts: Vec<u64> = timed.map(|r| r.prompt).collect();
            prompts.sort_unstable();
            let launch = &log.launch;
            let is_new = all.insert((
                launch.target.clone(),
                launch.scenario.clone(),
                launch.invocation,
                end.case.clone(),
                prompts,
            ));
            assert!(is_new, "{} is doubled", log.file.display());
        }
    }
    all
}

#[test]
fn two_shards_merged_are_the_whole_plan() {
    let checkout = Checkout::with(&["slow"]);
    let results = checkout.path("runs");
    let bench = |arguments: &[&str]| {
        let asked = [&["bench", "--profile", "test"], arguments].concat();
        let said = checkout.ended(&asked, &[], 0);
        (checkout.latest().expect("a run was recorded"), said)
    };
    let (whole, _) = bench(&[]);
    let (one, said) = bench(&["--shard", "1/2"]);
    let seed = one.header.plan.prompt_seed;
    assert!(seed.is_some() && seed != whole.header.plan.prompt_seed);
    let seed = seed.map(|seed| seed.to_string()).unwrap_or_default();
    let option = format!("--prompt-seed {seed}\n");
    says(&said, &["This is shard 1/2", &option]);
    let apart = checkout.xtask(&["bench", "--profile", "test", "--shard", "2/2"], &[]);
    let seedless = "give it the --prompt-seed that shard 1/2 prints";
    says(&text(&apart), &[seedless]);
    let (two, _) = bench(&["--shard", "2/2", "--prompt-seed", &seed]);
    let plan = reseeded(&whole.header.plan, one.header.plan.prompt_seed);
    assert_eq!(one.header.plan, plan);
    assert_eq!(one.header.plan_sha256, hash(&plan));
    let blocks = |run: &Run| -> BTreeSet<u32> {
        let launches = run.launches.iter();
        launches.map(|log| log.launch.invocation).collect()
    };
    assert_eq!(blocks(&one), BTreeSet::from([0]));
    assert_eq!(blocks(&two), BTreeSet::from([1]));

    let before = snapshot(&results);
    let merge = |runs: &[&str]| checkout.xtask(&[&["merge"], runs].concat(), &[]);
    let (one_id, two_id) = (one.header.id.as_str(), two.header.id.as_str());
    let output = merge(&[two_id, one_id]);
    assert!(output.status.success(), "{}", text(&output));
    let merged = checkout.latest().expect("it was made");
    assert_eq!(measured(&merged), measured(&whole));
    assert_eq!(merged.header.plan_sha256, hash(&plan));
    let sources = merged.header.origin.sources.iter();
    let sources: Vec<_> = sources
        .map(|part| (part.id.as_str(), part.blocks.clone()))
        .collect();
    assert_eq!(sources, [(one_id, vec![0]), (two_id, vec![1])]);
    checkout.all_ok(&merged, 12);
    let mut after = snapshot(&results);
    after.retain(|path, _| !path.starts_with(results.join(&merged.header.id)));
    assert_eq!(after, before, "an input was changed");

    let again = merge(&[one_id, two_id]);
    says(&ended(&again, 1), &["these runs have been merged"]);
    let resumed = checkout.xtask(&["bench", "--resume", "latest"], &[]);
    says(&text(&resumed), &["is merged from"]);
    let too_many = checkout.xtask(&["bench", "--profile", "test", "--shard", "1/3"], &[]);
    says(&text(&too_many), &["has 2 blocks"]);
    checkout.ended(&["bench", "--shard", "3/2"], &[], 2);
}

pub fn shard(id: &str, which: &str) -> Synthetic {
    Synthetic::new(id, &TARGETS).shard(which)
}

/// Merge these parts, expecting an error with these words.
pub fn refused(parts: &[Synthetic], words: &[&str]) {
    let dir = runs();
    let dirs: Vec<String> = parts
        .iter()
        .map(|part| part.write(dir.path()).display().to_string())
        .collect();
    let before = snapshot(dir.path());
    let mut arguments = vec!["merge"];
    arguments.extend(dirs.iter().map(String::as_str));
    let said = ended(&xtask(dir.path(), &arguments), 1);
    says(&said, words);
    assert_eq!(snapshot(dir.path()), before, "something was written");
}

/// Expect a refusal of the first half with a second half whose header is changed.
fn refused_with(change: impl FnOnce(&mut RunHeader), words: &[&str]) {
    let parts = [shard("r-one", "1/2"), shard("r-two", "2/2").with(change)];
    refused(&parts, &[words, &["r-one and r-two"]].concat());
}

#[test]
fn what_is_no_part_of_one_run_is_refused_with_both_sides_named() {
    refused_with(
        |header| {
            header.plan.seed = 2;
            header.plan_sha256 = hash(&header.plan);
        },
        &["different plans", "seed: 1 → 2"],
    );
    let file = "tiny-llama/model.safetensors";
    refused_with(
        |header| {
            let files = &mut header.provenance.model_files;
            files.insert(file.into(), "n".into());
        },
        &["tiny-llama/model.safetensors: m → n"],
    );
    refused_with(fact("prompts_sha256", "q"), &["prompts_sha256: p → q"]);
    refused_with(
        fact("cpu_model", "another CPU"),
        &[
            "cpu_model: a CPU → another CPU",
            "cargo xtask compare r-one r-two",
        ],
    );
    refused_with(fact("gpu", "a GPU"), &["gpu: absent → a GPU"]);
    refused_with(
        |header| header.provenance.git_revision = Some("4567".into()),
        &["git revision: 0123abcd → 4567"],
    );
    refused_with(
        |header| {
            let files = &mut header.provenance.lockfiles;
            files.insert("Cargo.lock".into(), "k".into());
        },
        &["lockfile Cargo.lock: l → k"],
    );
    let torch = |header: &mut RunHeader| header.provenance.pins.libtorch = Some(Default::default());
    refused_with(torch, &["libtorch: absent → from "]);
    let mut newer = shard("r-two", "2/2");
    for ready in newer.run.launches.iter_mut().flat_map(|l| &mut l.ready) {
        ready.version = "2".into();
    }
    refused(
        &[shard("r-one", "1/2"), newer],
        &["r-one and r-two", "x.cpu.f32 version: 1 → 2"],
    );
}

fn other_programs(header: &mut RunHeader) {
    for hash in header.provenance.binaries.values_mut() {
        *hash = "c".into();
    }
}

#[test]
fn other_bytes_of_the_same_source_are_said_and_of_unknown_source_refused() {
    refused_with(
        |header| {
            other_programs(header);
            header.provenance.git_dirty = Some(true);
        },
        &["program of x.cpu.f32: b → c"],
    );
    let dir = runs();
    shard("r-one", "1/2").write(dir.path());
    shard("r-two", "2/2")
        .with(other_programs)
        .with(fact("kernel", "6.2"))
        .write(dir.path());
    let said = ended(&xtask(dir.path(), &["merge", "r-one", "r-two"]), 0);
    let differ = "note: r-one and r-two differ in program of y.cpu.f32: b → c";
    says(&said, &[differ, "differ in kernel: 6.1 → 6.2"]);
    let run = Run::load(&merged(dir.path())).expect("it is valid");
    // Programs hold of no part but their own.
    let provenance = &run.header.provenance;
    assert!(provenance.binaries.is_empty());
    assert!(!provenance.facts.contains_key("kernel"));
    assert_eq!(provenance.facts["cpu_model"], "a CPU");
    let sources = run.header.origin.sources.iter();
    let kernels = sources.map(|s| s.provenance.facts["kernel"].as_str());
    assert_eq!(kernels.collect::<Vec<_>>(), ["6.1", "6.2"]);
    let checks: Vec<u64> = run.checks.values().map(|check| check.equal).collect();
    assert_eq!(checks, [98, 98], "both parts' outputs");
}

#[test]
fn every_block_must_be_there_once() {
    refused(
        &[shard("r-one", "1/2")],
        &["r-one", "block 2, 4 of 5 is missing"],
    );
    refused(
        &[shard("r-one", "1/2"), shard("r-two", "1/2")],
        &["both r-one and r-two hold block 1"],
    );
    refused(
        &[
            Synthetic::new("r-one", &TARGETS),
            Synthetic::new("r-two", &TARGETS),
        ],
        &["both r-one and r-two hold block 1", "cargo xtask compare"],
    );
    refused(
        &[shard("r-one", "1/2").with(|header| header.plan.seed = 2)],
        &["run.json: the plan in it is not the one"],
    );
    let dir = runs();
    shard("r-one", "1/2").write(dir.path());
    let output = xtask(dir.path(), &["merge", "r-one", "r-one"]);
    says(&text(&output), &["r-one is named twice"]);
    let output = xtask(dir.path(), &["merge", "r-one", "r-three"]);
    says(&text(&output), &["no run \"r-three\""]);
    let output = xtask(dir.path(), &["merge"]);
    assert_eq!(output.status.code(), Some(2));
    // A record of a block that belongs to the other shard.
    let two = shard("r-two", "2/2").write(dir.path());
    let record = "x.cpu.f32/single_request.i0.jsonl";
    let of_one = dir.path().join("r-one").join(record);
    std::fs::copy(of_one, two.join(record)).expect("it is ours");
    let output = xtask(dir.path(), &["merge", "r-one", "r-two"]);
    says(&text(&output), &["is of block 1, which is not in r-two"]);
}

#[test]
fn a_cell_counts_where_every_shard_kept_it_and_nothing_measured_is_lost() {
    let dir = runs();
    shard("r-one", "1/2").write(dir.path());
    let two = shard("r-two", "2/2").write(dir.path());
    let why = "about 9 s by the pilot";
    let budget = Budget {
        budget_s: 60.0,
        over: vec![fixtures::over("x.cpu.f32", SCENARIO, CASE, why)],
        ..Budget::default()
    };
    let text_of = serde_json::to_string(&budget).expect("it is JSON");
    std::fs::write(two.join("budget.json"), text_of).expect("it is ours");
    std::fs::write(two.join("notes.bin"), b"\xff").expect("it is ours");
    let said = ended(&xtask(dir.path(), &["merge", "r-one", "r-two"]), 0);
    says(&said, &["over_budget 1: in r-two (1)"]);
    says(&said, &["Measured 1 of 2 cells"]);
    let merged = merged(dir.path());
    let decided = std::fs::read_to_string(merged.join("budget.json")).expect("it was merged");
    says(&decided, &["in r-two: about 9 s"]);
    for part in ["r-one", "r-two"] {
        let part_dir = dir.path().join(part);
        for (path, bytes) in snapshot(&part_dir) {
            let relative = path.strip_prefix(&part_dir).expect("it is in it");
            let places = [
                merged.join(relative),
                merged.join("sources").join(part).join(relative),
            ];
            let kept = places
                .iter()
                .any(|p| std::fs::read(p).is_ok_and(|b| b == bytes));
            assert!(kept, "{} is lost", path.display());
        }
    }
}

#[test]
fn a_shard_decides_as_another_did_where_it_is_told_to() {
    let checkout = Checkout::with(&[]);
    let profile = PROFILE.replace("seed = 1", "seed = 1\nbudget_s = 600");
    checkout.profile(&profile);
    let bench = |arguments: &[&str]| {
        let output = checkout.xtask(&[&["bench", "--profile", "test"], arguments].concat(), &[]);
        (checkout.latest(), text(&output))
    };
    let (one, said) = bench(&["--shard", "1/2"]);
    says(&said, &["Pilot: fake.cpu.f32"]);
    let one = one.expect("it was recorded");
    let seed = one.header.plan.prompt_seed.map(|seed| seed.to_string());
    let seed = seed.expect("it was drawn");
    let second = ["--shard", "2/2", "--prompt-seed", &seed];
    let (two, said) = bench(&[&second[..], &["--budget-from", &one.header.id]].concat());
    let two = two.expect("it was recorded");
    assert!(!said.contains("Pilot:"), "{said}");
    assert_eq!(two.header.origin.budget_from, Some(one.header.id.clone()));
    assert_eq!(two.budget, one.budget);
    let narrower = ["--scenarios", "concurrent", "--budget-from", &one.header.id];
    let (_, said) = bench(&narrower);
    says(&said, &["it has another plan"]);
}

/// Replace a text in a file of a run.
fn edit(file: &Path, from: &str, to: &str) {
    let text = std::fs::read_to_string(file).expect("it was written");
    assert!(text.contains(from), "{} has no {from}", file.display());
    std::fs::write(file, text.replacen(from, to, 1)).expect("it is ours");
}

#[test]
fn what_one_shard_did_not_pass_or_have_judged_is_not_passed_or_judged() {
    let dir = runs();
    shard("r-one", "1/2").write(dir.path());
    let two = shard("r-two", "2/2").write(dir.path());
    edit(
        &two.join("verify.jsonl"),
        r#""status":"ok","reason":"""#,
        r#""status":"wrong_output","reason":"its argmax differs""#,
    );
    std::fs::remove_file(two.join("check.jsonl")).expect("it was written");
    let merge = || xtask(dir.path(), &["merge", "r-one", "r-two"]);
    let output = merge();
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    let merged = merged(dir.path());
    let run = Run::load(&merged).expect("it is valid");
    let x = &run.verify["x.cpu.f32"];
    assert_eq!(x.status, Status::WrongOutput);
    assert_eq!(x.reason, "in r-two: its argmax differs");
    assert_eq!(run.verify["y.cpu.f32"].status, Status::Ok);
    let check = &run.checks[&CellKey::new("y.cpu.f32", "single_request", "p10")];
    // Two blocks of 20 requests had no judge.
    assert_eq!((check.equal, check.unchecked), (59, 40));

    // Once a part is judged, the same parts can be merged again.
    let check = two.join("check.jsonl");
    std::fs::copy(dir.path().join("r-one/check.jsonl"), &check).expect("ours");
    let said = text(&merge());
    let ids = Results::at(dir.path()).places().into_keys();
    assert_eq!(ids.filter(|id| id.contains("merged")).count(), 2, "{said}");
    let (from, to) = (r#""tie_width_nats":0.5"#, r#""tie_width_nats":0.7"#);
    edit(&check, from, to);
    let differ =
        "r-one and r-two judged its outputs by different limits: a tie width of 0.5 and 0.7";
    says(&text(&merge()), &[differ]);
}

/// Return the directory of the merged run.
fn merged(results: &Path) -> PathBuf {
    let mut places = Results::at(results).places().into_iter();
    let found = places.find(|(id, _)| id.contains("merged"));
    found.expect("it was made").1
}
