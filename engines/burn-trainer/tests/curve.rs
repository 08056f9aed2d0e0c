//! Tests that a run depends only on its job: it gives the same result twice, and again after a
//! kill.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use models::training::{Job, Point, RunDir};
use models::{ModelSpec, Trained};

fn job() -> Job {
    Job {
        model: "tiny-stories".into(),
        backend: "flex".into(),
        seed: 1,
        steps: 7,
        checkpoint_steps: 2,
        batch: 2,
        context: 48,
        learning_rate: 3e-3,
        validation_windows: 3,
    }
}

fn begin(dir: &Path) -> RunDir {
    let run = RunDir(dir.to_owned());
    std::fs::create_dir_all(dir).unwrap();
    std::fs::write(run.job(), serde_json::to_string(&job()).unwrap()).unwrap();
    run
}

fn trainer(run: &RunDir) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_burn-trainer"));
    command
        .arg(&run.0)
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    command
}

fn whole(run: &RunDir) {
    let output = trainer(run).stderr(Stdio::piped()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(
        said.contains("step 7/7") && said.contains("perplexity"),
        "{said}"
    );
}

#[test]
fn a_run_is_the_same_twice_and_after_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let first = begin(&dir.path().join("first"));
    whole(&first);
    let curve = std::fs::read(first.curve()).unwrap();
    let points = first.read_curve().unwrap();
    let losses = points.iter().filter(|p| matches!(p, Point::Step { .. }));
    let steps: Vec<usize> = losses.map(Point::step).collect();
    assert_eq!(steps, [1, 2, 3, 4, 5, 6, 7]);
    let validations = points
        .iter()
        .filter(|p| matches!(p, Point::Validation { .. }));
    let validations: Vec<usize> = validations.map(Point::step).collect();
    assert_eq!(validations, [2, 4, 6, 7]);
    let weights = std::fs::read(first.weights()).unwrap();
    Trained::read(&ModelSpec::tiny_stories(), &weights).unwrap();

    let same = |run: &RunDir| {
        assert!(
            std::fs::read(run.curve()).unwrap() == curve,
            "another curve"
        );
        assert!(
            std::fs::read(run.weights()).unwrap() == weights,
            "other weights"
        );
    };
    let second = begin(&dir.path().join("second"));
    whole(&second);
    same(&second);

    // Killed at some time after its first checkpoint; the exact time must not matter.
    let killed = begin(&dir.path().join("killed"));
    let mut child = trainer(&killed).spawn().unwrap();
    while !killed.0.join("checkpoint/scheduler-1.bpk").exists() {
        let ended = child.try_wait().unwrap();
        assert!(ended.is_none(), "it ended without a checkpoint: {ended:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    whole(&killed);
    same(&killed);
}

#[test]
fn a_job_that_makes_no_sense_is_refused_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let refused = |edit: &dyn Fn(&mut Job), reason: &str| {
        let run = begin(dir.path());
        let mut job = job();
        edit(&mut job);
        std::fs::write(run.job(), serde_json::to_string(&job).unwrap()).unwrap();
        let output = trainer(&run).stderr(Stdio::piped()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(reason), "{said}");
    };
    refused(&|job| job.model = "gpt-7".into(), "no embedded model");
    refused(
        &|job| job.backend = "abacus".into(),
        "built without the backend",
    );
}
