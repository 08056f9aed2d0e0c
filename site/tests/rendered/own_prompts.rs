//! A run of prompts that the user brought says which they were; one without says nothing of them.

use crate::common::{World, run, world};
use crate::html;
use crate::sound::check;
use schema::own_prompts::OwnPrompts;
use schema::run::Run;
use schema::scenario::{PromptSource, Scenario};
use std::collections::BTreeMap;

const TITLE: &str = "Your own prompts";

fn render(world: &World) -> BTreeMap<String, Vec<u8>> {
    let pages = site::render(&world.input()).expect("renders");
    check(&pages);
    pages
}

fn words_of(pages: &BTreeMap<String, Vec<u8>>, path: &str) -> String {
    html::read(path, std::str::from_utf8(&pages[path]).expect("UTF-8")).text
}

/// The text of the scenario, beside those of the synthetic run.
fn with_scenario(mut world: World) -> World {
    let own = Scenario {
        id: "own_prompts".into(),
        title: TITLE.into(),
        prompts: PromptSource::Own,
        ..world.scenarios[0].clone()
    };
    world.scenarios.push(own);
    world
}

/// A run whose users asked three prompts.
fn own() -> Run {
    let mut run = run("cpu", 5, 22);
    let plan = &mut run.header.plan;
    plan.prompts = Some(OwnPrompts {
        file: "mine.jsonl".into(),
        sha256: "00".repeat(32),
        tokens: vec![vec![1; 12], vec![2; 30], vec![3; 50]],
    });
    let scenario = &mut plan.scenarios[0];
    scenario.prompts = PromptSource::Own;
    for case in &mut scenario.cases {
        case.prompt_tokens_mean = Some(31);
    }
    run
}

#[test]
fn the_page_says_which_prompts_and_how_often_each_was_asked() {
    let pages = render(&world(vec![own()]));
    let page = words_of(&pages, "scenario/concurrent.html");
    let prompts = "Prompts: 3 prompts of mine.jsonl, 12 to 50 tokens long (median 30), each asked 36 or 37 times in each case.";
    assert!(page.contains(prompts), "{page}");
    let work = "up to 50 (on average 31) prompt tokens → 16 new tokens, 4 in flight";
    assert!(page.contains(work), "{page}");
    let other = words_of(&pages, "scenario/sustained.html");
    assert!(!other.contains("mine.jsonl"), "it asked others: {other}");
}

#[test]
fn nobody_misses_prompts_that_nobody_brought() {
    let pages = render(&with_scenario(world(vec![run("cpu", 5, 22)])));
    let coverage = words_of(&pages, "coverage.html");
    assert!(!coverage.contains(TITLE), "{coverage}");
    for (path, bytes) in pages.iter().filter(|(path, _)| path.ends_with(".html")) {
        let page = std::str::from_utf8(bytes).expect("UTF-8");
        assert!(!page.contains(TITLE), "{path}");
    }
    // Where no run is, it is one of the scenarios that there are.
    let empty = render(&with_scenario(world(vec![])));
    assert!(words_of(&empty, "index.html").contains(TITLE));
}
