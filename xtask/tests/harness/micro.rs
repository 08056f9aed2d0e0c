//! Tests of the micro suites through the harness: right variants are timed in every block; variants
//! that are wrong, refuse or die fail with a reason and don't affect the others; and a run
//! continues where it stopped.

use crate::checkout::{Checkout, PROFILE, program, says, text, words};
use crate::resume::files;
use schema::record::Status;
use schema::run::Run;
use stats::micro::SuiteAnalysis;
use std::path::PathBuf;
use std::sync::LazyLock;

/// The fake program's binary, built once for all tests.
static FAKE_MICRO: LazyLock<PathBuf> =
    LazyLock::new(|| program("fake-micro", "fake-bench", "fake-micro"));

/// Each variant, the status of its case `ill`, and a part of the reason.
const VARIANTS: [(&str, Status, &str); 12] = [
    ("ok", Status::Ok, ""),
    ("noisy", Status::Ok, ""),
    ("wrong", Status::WrongOutput, "value 1 is"),
    ("stale", Status::WrongOutput, "value 1 is"),
    ("refuse", Status::Unsupported, "told to refuse"),
    ("panic", Status::Crashed, "told to panic"),
    ("crash", Status::Crashed, "killed by signal"),
    ("hang", Status::Timeout, "nothing came"),
    ("slow", Status::OverBudget, "would take"),
    ("full", Status::Crashed, "can't be written"),
    ("cut", Status::Crashed, "killed by signal"),
    ("absent", Status::Unavailable, "not there"),
];

const SUITE: &str = r#"
id = "adding"
version = 1
title = "Adding"
question = "?"
analysis = ""
work = "flop"
limits = { f32 = 1e-5 }
[[case]]
id = "well"
label = "well"
params = { n = 1000, fails = 0 }
[[case]]
id = "ill"
label = "ill"
params = { n = 1000, fails = 1 }
[[case]]
id = "after"
label = "after"
params = { n = 2000, fails = 0 }
"#;

/// The suite's sizes in a profile.
const OF_PROFILE: &str = "
[micro]
samples = 4
sample_ms = 0.01
warmup_ms = 0.01
cell_s = 0.3
suites = { adding = [] }
";

/// A variant as the registry describes it; `run` says what the fake program does.
pub fn variant(program: &str, id: &str, run: &str) -> String {
    format!(
        "{{ id = {id:?}, about = \"\", program = {program:?}, run = {run:?}, backend = \"cpu\", precision = \"f32\" }}"
    )
}

/// Let a checkout have the suite with these variants of the fake program; `needs` is the end of its
/// build, and `more` are other programs.
pub fn measures(checkout: &Checkout, needs: &str, more: &str, variants: &[String]) {
    let registry = format!(
        "[[program]]\nid = \"fake-micro\"\nbuild = {{ kind = \"prebuilt\", path = {:?}{needs} }}\n{more}\
         [[suite]]\nid = \"adding\"\nbaseline = \"ok\"\nreference = {}\nvariant = [{}]\n",
        FAKE_MICRO.display().to_string(),
        variant("fake-micro", "reference", "ok"),
        variants.join(", "),
    );
    checkout.write("engines/micro.toml", &registry);
    checkout.write("data/scenarios/micro/adding.toml", SUITE);
    checkout.profile(&format!("{PROFILE}{OF_PROFILE}"));
}

fn checkout() -> Checkout {
    let checkout = Checkout::with(&[]);
    let variants = VARIANTS.map(|(name, status, _)| match status {
        Status::Unavailable => variant(name, name, "ok"),
        _ => variant("fake-micro", name, name),
    });
    let absent =
        "[[program]]\nid = \"absent\"\nbuild = { kind = \"prebuilt\", path = \"nowhere\" }\n";
    measures(&checkout, "", absent, &variants);
    checkout
}

fn analysed(run: &Run) -> SuiteAnalysis {
    assert!(
        run.header.plan.targets.is_empty(),
        "only the suite was asked for"
    );
    let mut all = stats::micro::analyse(run);
    assert_eq!(all.len(), 1);
    all.remove(0)
}

#[test]
fn every_way_to_fail_is_a_status_and_the_rest_is_measured() {
    let checkout = checkout();
    let ask = words("bench --profile test --scenarios micro/*");
    let (_, run) = checkout.records(&ask, &[], 3);
    let suite = analysed(&run);
    let blocks = run.header.plan.invocations;
    for (variant, status, reason) in VARIANTS {
        let cell = suite.cell("ill", variant).expect("it is planned");
        assert_eq!(cell.status, status, "{variant}: {}", cell.reason);
        assert!(cell.reason.contains(reason), "{variant}: {}", cell.reason);
        for case in ["well", "after"] {
            let cell = suite.cell(case, variant).expect("it is planned");
            let expected = match variant {
                "absent" => Status::Unavailable,
                _ => Status::Ok,
            };
            assert_eq!(cell.status, expected, "{variant} {case}: {}", cell.reason);
            if expected == Status::Ok {
                assert_eq!(
                    (cell.invocations, cell.requests),
                    (blocks, u64::from(4 * blocks))
                );
            }
        }
    }
    let noisy = &suite.facts[&("well".to_owned(), "noisy".to_owned())];
    assert!((noisy.error_max - 1e-6).abs() < 1e-9, "{}", noisy.error_max);
    assert_eq!(noisy.work, 1000.0);
}

#[test]
fn a_run_goes_on_where_it_stopped_and_nothing_is_written_again() {
    let checkout = checkout();
    let ask = words("bench --profile test --scenarios micro/adding --engines ok,noisy");
    let (_, run) = checkout.records(&ask, &[], 0);
    let results = checkout.path("runs");
    // One launch lost whole, one cut short in its second line, one in its first, and one
    // with nothing in its file.
    let dir = results.join(&run.header.id).join("micro/adding");
    let cut = dir.join("noisy.i0.jsonl");
    std::fs::remove_file(dir.join("ok.i0.jsonl")).expect("it was recorded");
    let whole = std::fs::read(&cut).expect("it was recorded");
    let second = whole.iter().position(|b| *b == b'\n').unwrap() + 20;
    std::fs::write(&cut, &whole[..second]).expect("it is ours");
    std::fs::write(dir.join("noisy.i1.jsonl"), &whole[..20]).expect("it is ours");
    std::fs::write(dir.join("ok@twin.i1.jsonl"), "").expect("it is ours");
    let before = files(&results);
    let (_, run) = checkout.records(&["bench", "--resume", "latest"], &[], 0);
    let after = files(&results);
    assert!(before.iter().all(|(path, bytes)| after[path] == *bytes));
    for name in ["noisy.i0.a1", "ok.i0", "noisy.i1.a1", "ok@twin.i1.a1"] {
        assert!(dir.join(format!("{name}.jsonl")).is_file(), "no {name}");
    }
    let mut cells = analysed(&run).analysis.cells.into_iter();
    assert!(cells.all(|cell| cell.status == Status::Ok));
}

#[test]
fn a_suite_that_is_not_there_is_refused_with_those_that_are() {
    let checkout = checkout();
    let ask = words("bench --profile test --scenarios micro/nothing");
    let output = checkout.xtask(&ask, &[]);
    assert!(!output.status.success());
    says(&text(&output), &["micro/adding"]);
}
