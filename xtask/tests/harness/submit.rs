//! Tests of `cargo xtask submit` on runs with made-up times, and of `.github/submitted.sh`, which
//! applies the same checks to what a pull request adds.

use crate::checkout::{Checkout, ended, says, text};
use crate::synthetic::Synthetic;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

/// Enough targets that five blocks have the launches that a band of the canary needs.
const TARGETS: [&str; 4] = ["w.cpu.f32", "x.cpu.f32", "y.cpu.f32", "z.cpu.f32"];
const BLIND: &str = "20260101-000000-cpu-blind";
const WATCHED: &str = "20260102-000000-cpu-watched";

/// Make a checkout with one run that may be published, and one without readings of the canary.
fn checkout() -> Checkout {
    let checkout = Checkout::with(&[]);
    let runs = checkout.path("runs");
    Synthetic::new(BLIND, &TARGETS).write(&runs);
    Synthetic::new(WATCHED, &TARGETS).watched().write(&runs);
    checkout
}

/// Submit, expecting an exit status; return what was printed.
fn submit(checkout: &Checkout, arguments: &[&str], status: i32) -> String {
    checkout.ended(&[&["submit"], arguments].concat(), &[], status)
}

#[test]
fn a_run_is_checked_packed_and_proposed() {
    let checkout = checkout();
    let said = submit(&checkout, &[BLIND], 3);
    let line = said.lines().find(|line| line.starts_with("fails  "));
    let line = line.unwrap_or_else(|| panic!("no check fails: {said}"));
    assert!(line.contains("canary") && line.contains("4 cells (w.cpu.f32 single_request/p10, "));
    says(&said, &["can't be submitted: 1 check fails."]);

    let packed = checkout.path(&format!("data/results/{WATCHED}.tar.zst"));
    let said = submit(&checkout, &[WATCHED, "--check-only"], 0);
    says(&said, &[&format!("{WATCHED} can be submitted.")]);
    assert!(!packed.exists() && !said.contains("git push"), "{said}");

    let said = submit(&checkout, &["latest"], 0);
    let branch = format!("  git switch --create results/{WATCHED} main\n");
    says(&said, &[&branch]);
    let proposal = checkout.path(&format!("runs/{WATCHED}.pull-request.md"));
    let proposal = std::fs::read_to_string(proposal).expect("it was written");
    let title = format!("Record {WATCHED}.\n");
    let parts = [
        title.as_str(),
        "| processor | `a CPU` |",
        "Measured 4 of 4 cells: 400 samples in 20 launches",
        "| `z.cpu.f32` | `ok` | `logits` | 64 |",
    ];
    says(&proposal, &parts);

    // The packed run is judged like the directory, and submitting it again gives the same file.
    std::fs::remove_dir_all(checkout.path("runs").join(WATCHED)).expect("it is ours");
    let bytes = std::fs::read(&packed).expect("it was packed");
    let said = submit(&checkout, &["--json", WATCHED], 0);
    assert_eq!(std::fs::read(&packed).expect("it is there"), bytes);
    let report: Value = serde_json::from_str(&said).expect("it is JSON");
    assert_eq!(report["passes"], true);
    assert_eq!(report["checks"].as_array().map(Vec::len), Some(8));
    assert_eq!(report["proposal"]["branch"], format!("results/{WATCHED}"));
}

fn git(dir: &Path, arguments: &[&str]) {
    let output = Command::new("git")
        .args(["-c", "user.name=a", "-c", "user.email=a@example.org"])
        .args(["-c", "commit.gpgsign=false"])
        .args(["-c", "init.defaultBranch=main"])
        .args(arguments)
        .current_dir(dir)
        .output()
        .expect("git can be started");
    assert!(output.status.success(), "{}", text(&output));
}

/// Run the job's script on the last commit.
fn judge(dir: &Path) -> Output {
    let script = Checkout::real_repo().root.join(".github/submitted.sh");
    Command::new("bash")
        .arg(script)
        .current_dir(dir)
        .env("XTASK", env!("CARGO_BIN_EXE_xtask"))
        .env("BASE", "HEAD^1")
        .env("GITHUB_STEP_SUMMARY", dir.join("summary.md"))
        .output()
        .expect("bash can be started")
}

#[test]
fn what_a_pull_request_adds_is_judged_and_what_was_published_never_changes() {
    let checkout = checkout();
    let dir = checkout.path("");
    let dir = dir.as_path();
    let commit = || {
        git(dir, &["add", "data/results"]);
        git(dir, &["commit", "--quiet", "--message", "a record"]);
    };
    git(dir, &["init", "--quiet"]);
    let empty = ["commit", "--quiet", "--allow-empty", "--message", "before"];
    git(dir, &empty);
    submit(&checkout, &[WATCHED], 0);
    commit();
    let said = ended(&judge(dir), 0);
    assert!(said.ends_with("1 added, 0 changed\n"), "{said}");
    let summary = std::fs::read_to_string(dir.join("summary.md")).expect("it was written");
    says(&summary, &[&format!("{WATCHED} can be submitted.")]);

    // `publish` also packs runs that `submit` refuses.
    checkout.ended(&["publish", BLIND], &[], 0);
    commit();
    let said = ended(&judge(dir), 1);
    says(&said, &["fails  canary"]);

    let published = format!("data/results/{WATCHED}.tar.zst");
    checkout.write(&published, "something else");
    commit();
    let said = ended(&judge(dir), 1);
    says(&said, &["a record never changes"]);
    assert!(said.ends_with("0 added, 1 changed\n"), "{said}");

    // A published run that no page links to any more may be removed.
    git(dir, &["rm", "--quiet", &published]);
    git(dir, &["commit", "--quiet", "--message", "less"]);
    ended(&judge(dir), 0);
}
