//! Tests of scripts that run shards, with made-up schedulers.
//!
//! `examples/fleet`: the shell scripts with a scheduler's variables, and with a made-up Slurm,
//! whose array makes a whole run.
//!
//! `.github/judge.sh`, which the benchmark's workflow runs: it merges shards and compares the
//! result with the newest published run of such a machine. The runs have made-up times.

use crate::checkout::{Checkout, says, text};
use crate::synthetic::{Synthetic, fact};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn fleet() -> PathBuf {
    Checkout::real_repo().root.join("examples/fleet")
}

/// Run one of the examples' scripts in `dir` with these variables.
fn run(name: &str, dir: &Path, environment: &[(&str, &str)]) -> Output {
    Command::new("sh")
        .arg(fleet().join(name))
        .current_dir(dir)
        .envs(environment.iter().copied())
        .output()
        .expect("sh can be started")
}

#[test]
fn a_slurm_array_makes_a_whole_run() {
    let checkout = Checkout::with(&[]);
    let dir = checkout.path("");
    let bench = format!("{} bench", env!("CARGO_BIN_EXE_xtask"));
    // A made-up scheduler that only notes which tasks are to be started again.
    let scontrol = "#!/bin/sh\necho \"$@\" >> requeued\n";
    checkout.script("bin/scontrol", scontrol);
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}", checkout.path("bin").display());
    let fleet = fleet().display().to_string();
    let own = checkout.environment();
    let own = own.each_ref().map(|(name, path)| (*name, path.as_str()));
    let requeued = || std::fs::read_to_string(dir.join("requeued")).unwrap_or_default();
    for task in ["3", "4"] {
        for go in 1.. {
            let before = requeued();
            let slurm = [
                ("SLURM_ARRAY_JOB_ID", "77"),
                ("SLURM_ARRAY_TASK_ID", task),
                ("SLURM_ARRAY_TASK_MIN", "3"),
                ("SLURM_ARRAY_TASK_COUNT", "2"),
                ("SLURM_SUBMIT_DIR", "."),
                ("FLEET", fleet.as_str()),
                ("PATH", path.as_str()),
                ("BENCH", bench.as_str()),
                ("PROFILE", "test"),
                ("MINUTES", "0"),
            ];
            let output = run("slurm.sbatch", &dir, &[&own[..], &slurm].concat());
            assert!(output.status.success(), "{}", text(&output));
            assert!(go < 50, "it never ends: {}", text(&output));
            if requeued() == before {
                assert!(go > 2, "nothing was stopped: {}", text(&output));
                break;
            }
            assert!(requeued().ends_with(&format!("requeue 77_{task}\n")));
        }
    }
    let runs: Vec<PathBuf> = ["1-of-2", "2-of-2"]
        .iter()
        .map(|shard| {
            let shard = dir.join("shards").join(shard);
            let mut runs = std::fs::read_dir(&shard).expect("it was made").flatten();
            let run = runs.next().expect("a run is in it").path();
            assert!(runs.next().is_none(), "a shard was begun twice");
            run
        })
        .collect();
    let runs: Vec<&str> = runs.iter().filter_map(|run| run.to_str()).collect();
    let merge = [&["merge"], runs.as_slice()].concat();
    let (_, run) = checkout.records(&merge, &[], 0);
    checkout.all_ok(&run, 12);
}

#[test]
fn every_scheduler_names_the_shard_in_its_own_way() {
    let checkout = Checkout::empty();
    let dir = checkout.path("");
    let bench = checkout.script("bench", "#!/bin/sh\necho \"$@\"\nexit ${STATUS:-0}\n");
    let bench = bench.as_str();
    let said = |environment: &[(&str, &str)]| {
        let all = [&[("BENCH", bench)][..], environment].concat();
        let output = run("shard.sh", &dir, &all);
        let words = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        (words, output.status.code())
    };
    let pod = [
        ("JOB_COMPLETION_INDEX", "2"),
        ("SHARDS", "5"),
        ("OUT", "records"),
        ("PROMPT_SEED", "7"),
    ];
    let (words, status) = said(&pod);
    assert_eq!(words, "--shard 3/5 --prompt-seed 7 --out records/3-of-5");
    assert_eq!(status, Some(0));
    let minutes = [pod.as_slice(), &[("MINUTES", "9"), ("PROFILE", "gpu")]].concat();
    let more = "--shard 3/5 --prompt-seed 7 --profile gpu --stop-after 9 --out records/3-of-5";
    assert_eq!(said(&minutes).0, more);
    // Without a given seed, all that share a disk have the one that the first of them drew.
    let seed_of = |index: &str| {
        let (words, status) = said(&[("JOB_COMPLETION_INDEX", index), pod[1], ("OUT", "drawn")]);
        assert_eq!(status, Some(0), "{words}");
        let after = words.split_once("--prompt-seed ").map(|(_, after)| after);
        let seed = after.and_then(|after| after.split(' ').next()?.parse::<u32>().ok());
        seed.unwrap_or_else(|| panic!("there is no seed: {words}"))
    };
    let first = seed_of("4");
    assert_eq!([seed_of("0"), seed_of("1"), seed_of("4")], [first; 3]);
    let left = std::fs::read_dir(dir.join("drawn")).expect("it was made");
    let left: Vec<_> = left.flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(left, ["prompt-seed"]);
    let plain = [("SHARD_INDEX", "1"), ("SHARDS", "2")];
    assert_eq!(said(&plain).0, "--shard 1/2 --out shards/1-of-2");
    // A run that has begun is resumed, whatever profile it has.
    checkout.write("records/3-of-5/a-run/run.json", "{}");
    let resumed = "--resume latest --stop-after 9 --out records/3-of-5";
    assert_eq!(said(&minutes).0, resumed);
    // A target's failure is in the record, so the job succeeds; a run that isn't complete or broke
    // fails.
    for (status, expected) in [("3", 0), ("4", 4), ("1", 1)] {
        let with = [pod.as_slice(), &[("STATUS", status)]].concat();
        assert_eq!(said(&with).1, Some(expected), "{status}");
    }
    let nobody = run("shard.sh", &dir, &[("BENCH", bench)]);
    assert!(!nobody.status.success());
    says(&text(&nobody), &["SHARD_INDEX"]);
}

#[test]
fn the_job_says_what_the_script_relies_on() {
    let file = fleet().join("kubernetes.yaml");
    let text = std::fs::read_to_string(file).expect("it is there");
    let job: serde_json::Value = serde_saphyr::from_str(&text).expect("it is YAML");
    let spec = &job["spec"];
    assert_eq!(job["kind"], "Job");
    assert_eq!(spec["completionMode"], "Indexed");
    let pod = &spec["template"]["spec"];
    let container = &pod["containers"][0];
    let variables = container["env"].as_array().expect("it has variables");
    let value = |name: &str| {
        let found = variables.iter().find(|v| v["name"] == name);
        found.and_then(|v| v["value"].as_str()).expect("it is set")
    };
    assert_eq!(value("SHARDS"), spec["completions"].to_string());
    assert_eq!(spec["parallelism"], spec["completions"]);
    let minutes: u32 = value("MINUTES").parse().expect("it is a number");
    assert!(minutes > 0);
    // Exit status "resume me" is no failure, and a pod that ends so is only replaced under
    // `restartPolicy: Never`.
    let rule = &spec["podFailurePolicy"]["rules"][0];
    assert_eq!(rule["action"], "Ignore");
    let status = u64::from(bench::job::TIME_IS_UP);
    assert_eq!(rule["onExitCodes"]["values"][0], status);
    assert_eq!(rule["onExitCodes"]["containerName"], container["name"]);
    assert_eq!(pod["restartPolicy"], "Never");
    assert!(value("OUT").starts_with(container["volumeMounts"][0]["mountPath"].as_str().unwrap()));
}

const TARGETS: [&str; 2] = ["x.cpu.f32", "y.cpu.f32"];

fn has_tools() -> bool {
    ["jq", "zstd"].iter().all(|tool| {
        let is_there = Command::new(tool).arg("--version").output().is_ok();
        let may_lack = std::env::var_os("CI").is_none();
        assert!(is_there || may_lack, "CI has no {tool}");
        is_there
    })
}

/// Run the job's script, and delete the shards. It must print these words, pass on the verdict, and
/// have published this many runs.
fn judge(
    dir: &Path,
    [runners, shards]: [&str; 2],
    words: &[&str],
    verdict: &str,
    published: usize,
) {
    let script = Checkout::real_repo().root.join(".github/judge.sh");
    let output = Command::new("bash")
        .arg(script)
        .current_dir(dir)
        .env("XTASK", env!("CARGO_BIN_EXE_xtask"))
        .env("RUNNERS", runners)
        .env("SHARDS", shards)
        .env("GITHUB_STEP_SUMMARY", dir.join("summary.md"))
        .env("GITHUB_OUTPUT", dir.join("output"))
        .output()
        .expect("bash can be started");
    assert!(output.status.success(), "{}", text(&output));
    let read = |name: &str| std::fs::read_to_string(dir.join(name)).expect("it was written");
    assert_eq!(read("summary.md"), read("verdict.md"));
    says(&read("verdict.md"), words);
    assert_eq!(read("output").trim(), format!("verdict={verdict}"));
    for name in ["summary.md", "output"] {
        std::fs::remove_file(dir.join(name)).expect("it is ours");
    }
    std::fs::remove_dir_all(dir.join("shards")).expect("it is ours");
    let runs = std::fs::read_dir(dir.join("data/results")).expect("it is there");
    assert_eq!(runs.flatten().count(), published);
}

#[test]
fn shards_are_put_together_and_held_against_the_last_published_run() {
    if !has_tools() {
        eprintln!("skipped: no jq or no zstd on this machine");
        return;
    }
    let temporary = tempfile::tempdir().expect("a temporary directory can be made");
    let dir = temporary.path();
    let fast = |id: &str| Synthetic::new(id, &TARGETS);
    // The first run of a machine has no earlier run to be compared with.
    fast("20260101-000000-test-a").write(&dir.join("shards/shard-big-1of1"));
    // Another machine's shard, which was not asked for, must not be merged with it.
    fast("20260101-000001-test-b").write(&dir.join("shards/shard-big-gpu-1of1"));
    let words = [
        "## big\n\nThe first run of such a machine",
        "## gone\n\nNothing was measured of shard 1/1.",
    ];
    judge(dir, [r#"["big", "gone"]"#, r#"["1/1"]"#], &words, "none", 1);

    // Two shards, one of them slower by a tenth, are merged, and the loss is reported.
    for (which, name) in [("1/2", "1of2"), ("2/2", "2of2")] {
        fast(&format!("20260102-000000-test-s{name}"))
            .shard(which)
            .slowed("y.cpu.f32", 1.1)
            .write(&dir.join(format!("shards/shard-big-{name}")));
    }
    let words = [
        "## big\n\n**B is slower in 1 of 2 cells.**\n\n- A: `20260101-000000-test-a ",
        "| `y.cpu.f32` |",
    ];
    let both = r#"["1/2", "2/2"]"#;
    judge(dir, [r#"["big"]"#, both], &words, "regression", 2);

    // A run of another machine is not compared.
    fast("20260103-000000-test-c")
        .with(fact("cpu_model", "another CPU"))
        .write(&dir.join("shards/shard-big-1of1"));
    let words = ["The first run of such a machine"];
    judge(dir, [r#"["big"]"#, r#"["1/1"]"#], &words, "none", 3);

    // A missing shard is named, and the others are judged all the same.
    fast("20260104-000000-test-d")
        .shard("1/2")
        .write(&dir.join("shards/shard-big-1of2"));
    for (which, name) in [("1/2", "1of2"), ("2/2", "2of2")] {
        fast(&format!("20260104-000001-test-s{name}"))
            .shard(which)
            .with(fact("cpu_model", "a third CPU"))
            .write(&dir.join(format!("shards/shard-whole-{name}")));
    }
    let words = [
        "## big\n\nNothing was measured of shard 2/2.\n\nThe other shards alone are no whole run",
        "## whole\n\nThe first run of such a machine",
    ];
    judge(dir, [r#"["big", "whole"]"#, both], &words, "none", 4);
}
