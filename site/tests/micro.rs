//! The pages of the micro suites: every planned variant stands on its suite's page,
//! with its numbers or the reason for none, and on the page of the engine it explains.

mod common;

use common::micro::with_micro;
use common::{run, world};

fn page<'a>(pages: &'a std::collections::BTreeMap<String, Vec<u8>>, path: &str) -> &'a str {
    let bytes = pages.get(path).unwrap_or_else(|| panic!("no {path}"));
    std::str::from_utf8(bytes).expect("UTF-8")
}

#[test]
fn every_variant_is_on_its_suite_s_page() {
    let pages = site::render(&world(vec![with_micro(run("cpu", 5, 24))]).input()).unwrap();
    let suite = page(&pages, "micro/adding.html");
    for words in [
        "How long does a sum take?",
        "10 numbers",
        "1000 numbers",
        "plain",
        "the baseline",
        "n = 100 readings, 5 launches",
        "1.5e-7",
        "GFLOP/s",
        "✕ wrong output",
        "the reference has 2 &lt;or so&gt;",
        "Noise floor:",
        "instructions: none",
        "micro/adding/simd.i4.jsonl",
    ] {
        assert!(suite.contains(words), "no {words:?}");
    }
    // Exactly twice as fast in the limit of large sums: 2010 ÷ 1010 by the medians.
    assert!(
        suite.contains("better"),
        "a difference of that size is seen"
    );
    let index = page(&pages, "micro.html");
    assert!(index.contains("micro/adding.html") && index.contains("Largest advantage over plain"));
    let engine = page(&pages, "engine/candle.html");
    assert!(engine.contains("micro/adding.html") && engine.contains("What lies below"));
    assert!(!page(&pages, "engine/lmrs.html").contains("What lies below"));
    assert!(
        page(&pages, "index.html").contains("micro.html"),
        "the way to it"
    );
}

#[test]
fn a_run_without_suites_has_no_such_page() {
    let pages = site::render(&world(vec![run("cpu", 5, 24)]).input()).unwrap();
    assert!(!pages.keys().any(|path| path.contains("micro")));
}

#[test]
fn a_run_of_suites_alone_has_an_index() {
    let mut alone = with_micro(run("cpu", 5, 24));
    let plan = &mut alone.header.plan;
    plan.targets.clear();
    plan.scenarios.clear();
    plan.launches.clear();
    alone.launches.clear();
    alone.verify.clear();
    alone.checks.clear();
    let pages = site::render(&world(vec![alone]).input()).unwrap();
    assert!(page(&pages, "index.html").contains("micro.html"));
    assert!(page(&pages, "micro/adding.html").contains("plain"));
}
