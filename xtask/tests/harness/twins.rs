//! The A/A pairs of a real run: chosen by the pilot, launched in every block,
//! recorded under their own names, and what comes of them.

use crate::checkout::{Checkout, PROFILE, text};
use schema::twin::original;
use std::collections::BTreeSet;

#[test]
fn two_targets_run_twice_and_the_noise_is_known() {
    let checkout = Checkout::with(&["slow"]);
    let profile = PROFILE.replace("threads = 1", "threads = 1\naa_pairs = true");
    checkout.profile(&profile);
    let (output, run) = checkout.bench(&[]);
    assert!(output.status.success(), "{}", text(&output));

    let budget = run.budget.as_ref().expect("the decision is recorded");
    // Which of the two is faster is the machine's to say.
    let twins: BTreeSet<&str> = budget.twins.iter().map(|t| t.target.as_str()).collect();
    let both = ["fake.cpu.f32", "fake+slow.cpu.f32"];
    assert_eq!(twins, BTreeSet::from(both));
    assert!(budget.twins.iter().all(|twin| twin.cost_s > 0.0));

    // Two targets, two scenarios, two blocks: as many launches of twins as of targets.
    assert_eq!((run.launches.len(), run.twins.len()), (8, 8));
    let recorded: BTreeSet<_> = run
        .twins
        .iter()
        .map(|log| {
            let of = &log.launch;
            let dir = log.file.parent().expect("a record lies in a directory");
            assert_eq!(dir.to_string_lossy(), of.target);
            (original(&of.target), &of.scenario, of.invocation)
        })
        .collect();
    assert_eq!(recorded.len(), 8, "every block of every scenario once");
    assert!(
        run.checks
            .keys()
            .any(|cell| original(&cell.target) != cell.target),
        "what a twin said is judged too"
    );

    let targets: BTreeSet<String> = checkout.cells(&run).into_iter().map(|c| c.0).collect();
    assert_eq!(targets.len(), 2, "a twin is no target: {targets:?}");
    let repo = base::repo::Repo::at(checkout.path(""));
    let scenarios = repo.scenarios().expect("the scenarios are valid");
    let analysis = stats::analyse(&run, &scenarios, "fake.cpu.f32");
    for comparison in &analysis.comparisons {
        assert!(comparison.inflation.is_some_and(|by| by >= 1.0));
    }
    for noise in &analysis.noise {
        let pairs = noise.pairs.iter().map(|pair| pair.target.as_str());
        assert_eq!(pairs.collect::<BTreeSet<_>>().len(), 2, "{noise:?}");
    }

    let again = checkout.xtask(&["bench", "--resume", "latest"], &[]);
    assert!(
        again.status.success() && text(&again).contains("Measuring 0 of 16"),
        "{}",
        text(&again)
    );
}
