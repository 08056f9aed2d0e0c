//! Tests of each check on a made-up run, and of a pull request's text.

use super::checks::BYTES_MAX;
use super::*;
use fixtures::{Engine, SCENARIO};
use schema::key::CellKey;
use schema::origin::Source;
use schema::provenance::Provenance;
use schema::record::{CheckRecord, Status};
use schema::run::{FORMAT, RunHeader};
use stats::analysis::Cell;
use std::collections::BTreeMap;
use std::path::Path;

const ID: &str = "20260101-000000-cpu-1a2b";

fn clean() -> Provenance {
    Provenance {
        git_revision: Some("0123456789abcdef".into()),
        git_dirty: Some(false),
        facts: BTreeMap::from([("cpu_model".to_owned(), "a | CPU `x`".to_owned())]),
        ..Provenance::default()
    }
}

/// A run that passes every check: `t` answered a timed request, and `u`, which the gate has not
/// judged, a warm-up alone.
fn run() -> Run {
    let mut run = fixtures::run(&["t", "u"].map(Engine::plain), 1, 1, 0);
    run.launches[1].requests.truncate(1);
    run.verify.remove("u");
    let check = CheckRecord {
        equal: 1,
        rescored: 0,
        ..fixtures::check("t", 0)
    };
    run.checks.insert(check.key(), check);
    run.header = RunHeader {
        format: FORMAT,
        id: ID.into(),
        started: "2026-01-01T00:00:00Z".into(),
        plan_sha256: crate::shard::plan_sha256(&run.header.plan).unwrap(),
        provenance: clean(),
        ..run.header
    };
    run
}

fn cell(case: &str) -> Cell {
    let key = CellKey::new("t", SCENARIO, case);
    Cell {
        requests: 100,
        invocations: 5,
        ..Cell::new(key, 10)
    }
}

fn cells() -> Vec<Cell> {
    let mut unsupported = cell("p500");
    unsupported.status = Status::Unsupported;
    unsupported.requests = 0;
    unsupported.invocations = 0;
    vec![cell("p10"), unsupported]
}

/// Return the checks that fail, with their findings.
fn failures(run: &Run, cells: &[Cell], packed_bytes: u64) -> Vec<(&'static str, String)> {
    let failed = checks(run, cells, &[], packed_bytes).into_iter();
    let failed = failed.filter(|check| !check.passes);
    failed.map(|check| (check.name, check.finding)).collect()
}

#[test]
fn a_run_that_may_be_published_passes_every_check() {
    let failed = failures(&run(), &cells(), BYTES_MAX);
    assert!(failed.is_empty(), "{failed:?}");
    let said = screen(ID, &checks(&run(), &cells(), &[], 3_700_000));
    let lines: Vec<&str> = said.lines().map(str::trim_end).collect();
    assert_eq!(
        lines,
        [
            "ok  profile   cpu of tiny-llama is publishable",
            "ok  whole     2 cells, none left to run",
            "ok  checkout  clean, at revision 0123456789ab",
            "ok  gate      1 target timed, all verified",
            "ok  outputs   1 timed output judged by the reference",
            "ok  samples   at least 100 requests over 5 launches in each of 1 cell",
            "ok  canary    the machine's speed was measured beside every launch",
            "ok  size      3.7 MB packed",
            "20260101-000000-cpu-1a2b can be submitted.",
        ]
    );
}

#[test]
fn each_fault_fails_its_own_check_and_says_what_to_do() {
    let fails = |name: &str, words: &str, fault: fn(&mut Run, &mut Vec<Cell>)| {
        let (mut run, mut cells) = (run(), cells());
        fault(&mut run, &mut cells);
        let failed = failures(&run, &cells, 1);
        assert_eq!(failed.len(), 1, "{name}: {failed:?}");
        assert_eq!(failed[0].0, name);
        assert!(failed[0].1.contains(words), "{words:?}: {}", failed[0].1);
    };
    fails("profile", "cargo xtask list profiles", |run, _| {
        run.header.plan.publishable = false;
        run.header.plan_sha256 = crate::shard::plan_sha256(&run.header.plan).unwrap();
    });
    let words = "the plan is not the one that its hash is of";
    fails("whole", words, |run, _| {
        run.header.plan.matters_percent = 10.0;
    });
    let words = "check.jsonl: t single_request/p10: outputs that the reference has not judged";
    fails("outputs", words, |run, _| run.checks.clear());
    // Add a request, as if a block was measured after the outputs were judged.
    fails("outputs", "--resume 2026", |run, _| {
        run.launches[0].requests.extend_from_within(1..);
    });
    fails("outputs", "--resume 2026", |run, _| {
        let checks = run.checks.values_mut();
        checks.for_each(|check| check.unchecked = 1);
    });
    let words = "shard 1/2 of a plan: submit what `cargo xtask merge` makes";
    fails("whole", words, |run, _| {
        run.header.origin.shard = "1/2".parse().ok();
    });
    let words = "1 cell (t single_request/p500): planned and not run: finish it with `cargo xtask bench --resume 2026";
    fails("whole", words, |_, cells| cells[1].status = Status::NotRun);
    fails("checkout", "commit them", |run, _| {
        run.header.provenance.git_dirty = Some(true);
    });
    fails("checkout", "doesn't name a revision", |run, _| {
        run.header.provenance.git_revision = None;
    });
    fails("checkout", "run.json: a-part doesn't name", |run, _| {
        let mut source = Source {
            id: "a-part".into(),
            provenance: clean(),
            ..Source::default()
        };
        source.provenance.git_dirty = None;
        run.header.origin.sources.push(source);
    });
    let words = "verify.jsonl: t was timed and never judged";
    fails("gate", words, |run, _| run.verify.clear());
    let words = "t was timed and did not pass (wrong_output: KL 0.1)";
    fails("gate", words, |run, _| {
        let verify = run.verify.get_mut("t").unwrap();
        (verify.status, verify.reason) = (Status::WrongOutput, "KL 0.1".into());
    });
    let words =
        "1 cell (t single_request/p10): under 100 requests or 5 launches (the least: 99 and 5)";
    fails("samples", words, |_, cells| cells[0].requests = 99);
    let words = "the least: 100 and 4";
    fails("samples", words, |_, cells| cells[0].invocations = 4);
    let words = "5 cells (t single_request/p0, t single_request/p1, t single_request/p2 and 2 more): launches beside which the machine's speed was not measured";
    fails("canary", words, |_, cells| {
        *cells = (0..5).map(|i| cell(&format!("p{i}"))).collect();
        cells.iter_mut().for_each(|cell| cell.unseen = 1);
    });
    let large = failures(&run(), &cells(), BYTES_MAX + 1);
    assert!(
        large[0].0 == "size" && large[0].1.contains("at most 12 MB"),
        "{large:?}"
    );
}

#[test]
fn every_published_run_is_small_enough() {
    let dir = Repo::find().unwrap().published_dir();
    for entry in std::fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        let bytes = entry.metadata().unwrap().len();
        assert!(bytes <= BYTES_MAX, "{:?}: {bytes}", entry.path());
    }
}

#[test]
fn a_run_that_measured_nothing_fails_and_the_screen_counts() {
    let mut run = run();
    run.launches.clear();
    let failed = failures(&run, &[], 1);
    let names: Vec<&str> = failed.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["gate", "samples"]);
    let said = screen(ID, &checks(&run, &[], &[], 1));
    assert!(
        said.ends_with("20260101-000000-cpu-1a2b can't be submitted: 2 checks fail.\n"),
        "{said}"
    );
    assert!(said.contains("\nfails  samples "), "{said}");
}

#[test]
fn the_text_has_machine_lead_checks_and_gate_and_no_markup_of_a_records() {
    let repo = Repo::at("/checkout".into());
    let packed = repo.published_dir().join(format!("{ID}.tar.zst"));
    let text = repo.runs_dir().join(format!("{ID}.pull-request.md"));
    let proposal = Proposal::new(&repo, ID, &packed, &text);
    assert_eq!(proposal.branch, format!("results/{ID}"));
    assert_eq!(
        proposal.packed,
        Path::new("data/results").join(format!("{ID}.tar.zst"))
    );
    let steps = proposal.steps();
    for line in [
        format!("  git switch --create results/{ID} main"),
        format!("  git add data/results/{ID}.tar.zst"),
        format!("  git commit --message 'Record {ID}'"),
        format!("  git push --set-upstream origin results/{ID}"),
    ] {
        assert!(steps.lines().any(|known| known == line), "{line}: {steps}");
    }
    let checks = checks(&run(), &cells(), &[], 1);
    let written = proposal::text(&run(), &Summary::default(), &checks, 3_700_000, &proposal);
    for line in [
        "| processor | `a ¦ CPU 'x'` |",
        "| packed | 3.7 MB |",
        "Measured 0 of 0 cells: 0 samples in 0 launches",
        "| size | ok | `0.0 MB packed` |",
        "| `t` | `ok` | `logits` | 64 | 1.0e-8 |",
    ] {
        assert!(
            written.lines().any(|known| known == line),
            "{line}: {written}"
        );
    }
    assert_eq!(written.matches("```").count(), 2, "{written}");
}
