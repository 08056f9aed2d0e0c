//! Tests of contexts that the gate's usual prompts don't cover: long ones, and ones that begin
//! alike.
//!
//! Goldens where none is committed, or where it doesn't reach as far as a plan; targets that are
//! verified only up to a length; and prompts of every length. The reference is the fake itself.
//!
//! Prompts that begin alike, from the gate to the page: a target that keeps nothing isn't asked, a
//! target that keeps too much isn't timed, and the instrument's first token comes sooner by as much
//! as it keeps.

use crate::checkout::{Checkout, PROFILE, logs, says, text};
use schema::golden::Golden;
use schema::launch_log::LaunchLog;
use schema::record::Status;
use schema::run::Run;

/// A plan with contexts of 1 106 and 1 506 tokens beside those of 16.
pub const LONG: &str = "
[scenarios.long_context]
prompt_tokens = [1100, 1500]
new_tokens = 6
concurrency = [1]
requests = 6
";

/// Long prompts take little time.
const FAST: (&str, &str) = ("FAKE_PREFILL_TOKEN_US", "1");

#[test]
fn contexts_beyond_the_committed_golden_are_verified_as_far_as_each_target_goes() {
    let checkout = Checkout::with(&["short", "wrong_far"]);
    checkout.profile(&format!("{PROFILE}{LONG}"));
    let (_, run) = checkout.bench_ends(&[FAST], 3);
    checkout.cells_are(&run, |target, cell| match (target, cell) {
        ("fake+short.cpu.f32", "long_context/p1500") => (Status::Unverified, "", 0),
        ("fake+wrong_far.cpu.f32", _) => (Status::WrongOutput, "", 0),
        _ => (Status::Ok, "", 0),
    });
    let short = &run.verify["fake+short.cpu.f32"];
    assert_eq!(short.verified_positions, Some(1106));
    let why = "verified to 1106 positions only: at 1506 positions unsupported";
    says(&short.reason, &[why]);
    let wrong = &run.verify["fake+wrong_far.cpu.f32"];
    says(&wrong.reason, &["context-1506"]);

    // The golden that was made is kept, and the record says so.
    let facts = &run.header.provenance.facts;
    assert_eq!(facts["golden_positions"], "1506");
    let origin = &facts["golden_origin"];
    let two = "committed, and for contexts of 1106 and 1506 tokens made here by fake";
    assert!(origin.starts_with(two), "{origin}");
    let kept = checkout.path("models/tiny-llama/golden.json");
    let golden = Golden::load(&kept).expect("it was written whole");
    let contexts: Vec<u32> = golden.prompts.iter().map(|p| p.context_tokens()).collect();
    assert_eq!(contexts, [1106, 1506]);
    let (again, _) = checkout.bench(&[FAST]);
    let again = text(&again);
    assert!(!again.contains("is made to reach"), "{again}");
}

#[test]
fn a_golden_is_made_where_none_is_committed_and_kept_beside_the_model() {
    let checkout = Checkout::with(&[]);
    std::fs::remove_file(checkout.path("data/golden/tiny-llama.json")).expect("it was blessed");
    let run = checkout.measured(&[FAST]);
    let first = run.header.provenance.facts.clone();
    assert!(first["golden_origin"].starts_with("made here by fake.cpu.f32"));
    let name = "models/tiny-llama/golden.json";
    let kept = checkout.path(name);
    let golden = checkout.read(name);
    let sha256 = schema::hash::sha256_hex(golden.as_bytes());
    assert_eq!(first["golden_sha256"], sha256);

    // A golden of other weights, or half of one, doesn't count: another one is made.
    let weights = Golden::load(&kept).expect("it is whole").weights_sha256;
    let others = golden.replace(&weights, &"0".repeat(64));
    for spoilt in [others.as_str(), &golden[..golden.len() / 2]] {
        checkout.write(name, spoilt);
        checkout.measured(&[FAST]);
        assert_eq!(checkout.read(name), golden);
    }
    let run = checkout.latest().expect("a run was recorded");
    let facts = &run.header.provenance.facts;
    assert_eq!(facts["golden_sha256"], first["golden_sha256"]);
}

#[test]
fn where_the_reference_and_its_check_disagree_there_is_no_golden_and_nothing_is_measured() {
    let checkout = Checkout::with(&["wrong"]);
    std::fs::remove_file(checkout.path("data/golden/tiny-llama.json")).expect("it was blessed");
    let check = "cross_check = \"fake.cpu.f32\"";
    let wrong = "cross_check = \"fake+wrong.cpu.f32\"";
    checkout.replace("engines/engines.toml", check, wrong);
    let said = checkout.ended(&["bench", "--profile", "test"], &[FAST], 1);
    says(&said, &["disagree on tiny-llama"]);
    says(&said, &["no golden of it is committed"]);
    assert!(!checkout.path("models/tiny-llama/golden.json").exists());
    assert!(!checkout.path("runs").exists(), "nothing was begun");
}

#[test]
fn an_engine_that_is_wrong_after_prompts_of_some_lengths_is_not_timed() {
    let checkout = Checkout::with(&["wrong_after_4n", "wrong_after_37"]);
    let (_, run) = checkout.bench_ends(&[], 3);
    assert_eq!(run.verify["fake.cpu.f32"].status, Status::Ok);
    for (variant, words) in [
        ("wrong_after_4n", ""),
        // No prompt of the golden has such a length.
        ("wrong_after_37", "after a prompt of 37 tokens"),
    ] {
        let record = &run.verify[&format!("fake+{variant}.cpu.f32")];
        assert_eq!(record.status, Status::WrongOutput, "{variant}");
        says(&record.reason, &[words]);
        assert_eq!(record.verified_positions, None);
    }
    let timed = run.launches.iter().map(|log| log.launch.target.as_str());
    assert!(timed.clone().count() > 0);
    assert!(timed.into_iter().all(|target| target == "fake.cpu.f32"));
}

const PREFIX: &str = "
[scenarios.prefix_reuse]
prompt_tokens = [40]
new_tokens = 4
concurrency = [1]
shared_percent = [0, 90]
requests = 6
";

/// Return the profile with one process per block, which this scenario must not share.
fn profile() -> String {
    PROFILE.replace("seed = 1", "seed = 1\none_process = true") + PREFIX
}

fn launches_of<'a>(run: &'a Run, target: &str, scenario: &str) -> Vec<&'a LaunchLog> {
    logs(run, |of| of.target == target && of.scenario == scenario)
}

/// Return the times to first token that the instrument reports (ns), from the request's start.
fn prefills_ns(log: &LaunchLog, case: &str) -> Vec<u64> {
    let timed = log.requests.iter().filter(|r| r.case == case && !r.warmup);
    timed.map(|r| r.token_ns[0] - r.started_ns).collect()
}

#[test]
fn the_first_token_comes_sooner_by_what_is_kept_and_who_keeps_nothing_is_not_asked() {
    let checkout = Checkout::with(&["forgets", "wrong_reuse"]);
    checkout.profile(&profile());
    let (_, run) = checkout.bench_ends(&[("FAKE_PREFILL_TOKEN_US", "200")], 3);

    checkout.cells_are(&run, |target, cell| match (target, cell) {
        ("fake+wrong_reuse.cpu.f32", _) => (Status::WrongOutput, "with its prefix cache", 0),
        ("fake+forgets.cpu.f32", "prefix_reuse/s0" | "prefix_reuse/s90") => {
            (Status::Unsupported, "our adapter uses no prefix cache", 0)
        }
        _ => (Status::Ok, "", 0),
    });
    assert!(run.verify["fake.cpu.f32"].prefix_cache);
    assert!(!run.verify["fake+forgets.cpu.f32"].prefix_cache);
    assert!(launches_of(&run, "fake+forgets.cpu.f32", "prefix_reuse").is_empty());
    assert!(!launches_of(&run, "fake+forgets.cpu.f32", "single_request").is_empty());

    let launches = launches_of(&run, "fake.cpu.f32", "prefix_reuse");
    assert_eq!(launches.len(), 2, "one a block, for both cases");
    for log in launches {
        assert!(!log.launch.reused, "a process of its own");
        let own_ns = log.ready.as_ref().map(|ready| ready.ready_ns);
        let others = run.launches.iter().filter(|o| o.file != log.file);
        let mut others = others.map(|other| other.ready.as_ref().map(|ready| ready.ready_ns));
        assert!(others.all(|ready_ns| ready_ns != own_ns));
        let (without, with) = (prefills_ns(log, "s0"), prefills_ns(log, "s90"));
        assert_eq!((without.len(), with.len()), (6, 6));
        // The instrument needs 2 ms, and 0.2 ms per token: 39 tokens where one is kept, 4 or fewer
        // where 36 are. Delays of the machine add to both.
        assert!(without.iter().all(|ns| *ns >= 8_000_000), "{without:?}");
        let least = |all: &[u64]| *all.iter().min().expect("there are six");
        assert!(least(&with) < least(&without) / 2, "{with:?} {without:?}");
    }
    // In other scenarios nothing is kept: ten tokens take their full time.
    for log in launches_of(&run, "fake.cpu.f32", "single_request") {
        let all = prefills_ns(log, "p10");
        assert!(all.iter().all(|ns| *ns >= 4_000_000), "{all:?}");
    }

    checkout.ended(&["site", "latest"], &[], 0);
    let page = checkout.read("target/site/scenario/prefix_reuse.html");
    says(&page, &["Sooner by", "90 %", "fake+forgets.cpu.f32"]);
}
