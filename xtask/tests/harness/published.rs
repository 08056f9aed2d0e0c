//! `.github/judge.sh`, which the benchmark's workflow runs: shards put together, and a
//! verdict against the newest published run of such a machine, on runs made up to the
//! nanosecond.

use crate::checkout::{Checkout, text};
use crate::synthetic::Synthetic;
use std::path::Path;
use std::process::Command;

const TARGETS: [&str; 2] = ["x.cpu.f32", "y.cpu.f32"];

fn has_tools() -> bool {
    ["jq", "zstd"].iter().all(|tool| {
        let is_there = Command::new(tool).arg("--version").output().is_ok();
        let may_lack = std::env::var_os("CI").is_none();
        assert!(is_there || may_lack, "CI has no {tool}");
        is_there
    })
}

/// What the job would say, and the verdict it hands on.
fn judge(dir: &Path, runners: &str, shards: &str) -> (String, String) {
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
    let verdict = read("output").trim().to_owned();
    std::fs::remove_file(dir.join("summary.md")).expect("it is ours");
    std::fs::remove_file(dir.join("output")).expect("it is ours");
    (read("verdict.md"), verdict)
}

fn published(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir.join("data/results")).expect("it is there");
    let names = entries
        .flatten()
        .map(|e| e.file_name().to_string_lossy().into_owned());
    names.collect()
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
    // The first run of a machine has nothing before it.
    fast("20260101-000000-test-a").write(&dir.join("shards/shard-big-1of1"));
    // Not taken for the other's, and nobody asked for it.
    fast("20260101-000001-test-b").write(&dir.join("shards/shard-big-gpu-1of1"));
    let (said, verdict) = judge(dir, r#"["big", "gone"]"#, r#"["1/1"]"#);
    assert!(
        said.contains("## big\n\nThe first run of such a machine"),
        "{said}"
    );
    let nothing = "## gone\n\nNothing was measured of shard 1/1.";
    assert!(said.contains(nothing), "{said}");
    assert_eq!(
        (verdict.as_str(), published(dir).len()),
        ("verdict=none", 1)
    );

    // Two shards, one of them slower by a tenth: merged, and the loss is said.
    std::fs::remove_dir_all(dir.join("shards")).expect("it is ours");
    for (which, name) in [("1/2", "1of2"), ("2/2", "2of2")] {
        fast(&format!("20260102-000000-test-s{name}"))
            .shard(which)
            .slowed("y.cpu.f32", 1.1)
            .write(&dir.join(format!("shards/shard-big-{name}")));
    }
    let (said, verdict) = judge(dir, r#"["big"]"#, r#"["1/2", "2/2"]"#);
    assert!(
        said.contains(
            "## big\n\n**B is slower in 1 of 2 cells.**\n\n- A: `20260101-000000-test-a "
        ),
        "{said}"
    );
    assert!(said.contains("| `y.cpu.f32` |"), "{said}");
    assert_eq!(
        (verdict.as_str(), published(dir).len()),
        ("verdict=regression", 2)
    );

    // Another machine's run is nothing to compare with.
    std::fs::remove_dir_all(dir.join("shards")).expect("it is ours");
    fast("20260103-000000-test-c")
        .with(|header| {
            header
                .provenance
                .facts
                .insert("cpu_model".into(), "another CPU".into());
        })
        .write(&dir.join("shards/shard-big-1of1"));
    let (said, verdict) = judge(dir, r#"["big"]"#, r#"["1/1"]"#);
    assert!(said.contains("The first run of such a machine"), "{said}");
    assert_eq!(
        (verdict.as_str(), published(dir).len()),
        ("verdict=none", 3)
    );
}
