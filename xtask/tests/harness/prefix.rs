//! Prompts that begin alike, from the gate to the page: who keeps nothing isn't asked, who keeps
//! too much isn't timed at all, and the instrument's first token comes sooner by what it keeps.

use crate::checkout::{Checkout, PROFILE, text};
use schema::launch_log::LaunchLog;
use schema::record::Status;
use schema::run::Run;

const PREFIX: &str = "
[scenarios.prefix_reuse]
prompt_tokens = [40]
new_tokens = 4
concurrency = [1]
shared_percent = [0, 90]
requests = 6
";

/// The profile with one process a block, so that the scenario must not go on with it.
fn profile() -> String {
    PROFILE.replace("seed = 1", "seed = 1\none_process = true") + PREFIX
}

fn of<'a>(run: &'a Run, target: &str, scenario: &str) -> Vec<&'a LaunchLog> {
    let logs = run.launches.iter();
    logs.filter(|log| (&*log.launch.target, &*log.launch.scenario) == (target, scenario))
        .collect()
}

/// How long the instrument says that it took to each first token (ns), from the request's start.
fn prefills_ns(log: &LaunchLog, case: &str) -> Vec<u64> {
    let timed = log.requests.iter().filter(|r| r.case == case && !r.warmup);
    timed.map(|r| r.token_ns[0] - r.started_ns).collect()
}

#[test]
fn the_first_token_comes_sooner_by_what_is_kept_and_who_keeps_nothing_is_not_asked() {
    let checkout = Checkout::with(&["forgets", "wrong_reuse"]);
    checkout.profile(&profile());
    let (output, run) = checkout.bench(&[("FAKE_PREFILL_TOKEN_US", "200")]);
    let said = text(&output);
    assert_eq!(output.status.code(), Some(3), "{said}");

    for (target, cell, status, reason, _) in checkout.cells(&run) {
        let (wanted, words) = match (target.as_str(), cell.as_str()) {
            ("fake+wrong_reuse.cpu.f32", _) => (Status::WrongOutput, "with its prefix cache"),
            ("fake+forgets.cpu.f32", "prefix_reuse/s0" | "prefix_reuse/s90") => {
                (Status::Unsupported, "hello declares no prefix cache")
            }
            _ => (Status::Ok, ""),
        };
        assert_eq!(status, wanted, "{target} {cell}: {reason}");
        assert!(reason.contains(words), "{target} {cell}: {reason}");
    }
    assert!(run.verify["fake.cpu.f32"].prefix_cache);
    assert!(!run.verify["fake+forgets.cpu.f32"].prefix_cache);
    assert!(of(&run, "fake+forgets.cpu.f32", "prefix_reuse").is_empty());
    assert!(!of(&run, "fake+forgets.cpu.f32", "single_request").is_empty());

    let launches = of(&run, "fake.cpu.f32", "prefix_reuse");
    assert_eq!(launches.len(), 2, "one a block, for both cases");
    for log in launches {
        assert!(!log.launch.reused, "a process of its own");
        let own_ns = log.ready.as_ref().map(|ready| ready.ready_ns);
        let others = run.launches.iter().filter(|o| o.file != log.file);
        let mut others = others.map(|other| other.ready.as_ref().map(|ready| ready.ready_ns));
        assert!(others.all(|ready_ns| ready_ns != own_ns));
        let (without, with) = (prefills_ns(log, "s0"), prefills_ns(log, "s90"));
        assert_eq!((without.len(), with.len()), (6, 6));
        // By its schedule 2 ms and 0.2 ms a token: 39 where one is kept, 4 or fewer where 36 are.
        // How late it is adds to both.
        assert!(without.iter().all(|ns| *ns >= 8_000_000), "{without:?}");
        let least = |all: &[u64]| *all.iter().min().expect("there are six");
        assert!(least(&with) < least(&without) / 2, "{with:?} {without:?}");
    }
    // Elsewhere nothing is kept: ten tokens take what they take.
    for log in of(&run, "fake.cpu.f32", "single_request") {
        let all = prefills_ns(log, "p10");
        assert!(all.iter().all(|ns| *ns >= 4_000_000), "{all:?}");
    }

    let built = checkout.xtask(&["site", "latest"], &[]);
    let page = checkout.path("target/site/scenario/prefix_reuse.html");
    let page = std::fs::read_to_string(page).unwrap_or_else(|_| panic!("{}", text(&built)));
    assert!(page.contains("Sooner by") && page.contains("90 %"));
    assert!(page.contains("fake+forgets.cpu.f32"));
}
