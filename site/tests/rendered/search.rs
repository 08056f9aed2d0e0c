//! The search page: what can be found, under which words, and in which order it stands.

use crate::common::change::without;
use crate::common::provenance::add_facts;
use crate::common::{usual, usual_site};
use crate::html::{between, html_of, page, rows, says, texts};
use schema::maturity::{Fact, Topic};

/// A row of the search page: name, kind, description, and the row's HTML.
type Row = [String; 4];

/// The rows of the search page.
fn rows_of(html: &str) -> Vec<Row> {
    let body = between(html, "<tbody>", "</tbody>");
    let one = |row: &str| {
        let mut cells = rows(&format!("<tr>{row}")).remove(0).into_iter();
        let mut next = || cells.next().unwrap_or_default();
        [next(), next(), next(), row.to_owned()]
    };
    body.split("<tr>").skip(1).map(one).collect()
}

/// Name and kind of the rows that the page's script leaves for these words.
fn search<'a>(all: &'a [Row], words: &str) -> Vec<(&'a str, &'a str)> {
    let asked = words.to_lowercase();
    let has_all = |row: &&Row| {
        let text = row[..3].concat().to_lowercase();
        asked.split(' ').all(|word| text.contains(word))
    };
    let left = all.iter().filter(has_all);
    left.map(|[name, kind, ..]| (name.as_str(), kind.as_str()))
        .collect()
}

#[test]
fn whatever_can_be_looked_for_stands_in_one_table() {
    let pages = usual_site();
    let search = html_of(pages, "search.html");
    for kind in [
        "work",
        "engine",
        "target",
        "scenario",
        "case",
        "run",
        "page",
        "fact",
        "not measured",
        "metric",
        "term",
        "comparison",
    ] {
        assert!(search.contains(&format!("<td>{kind}</td>")), "{kind}");
    }
    for (path, html) in texts(pages) {
        assert!(html.contains("search.html\">Search</a>"), "{path}");
    }
}

#[test]
fn each_row_says_what_it_leads_to_and_comparisons_come_last_a_row_per_page() {
    let all = rows_of(html_of(usual_site(), "search.html"));
    for [name, _, about, row] in &all {
        assert!(!about.trim().is_empty(), "{name}: {row}");
    }
    let targets = usual().runs[0].header.plan.targets.len();
    let kinds: Vec<&str> = all.iter().map(|[_, kind, ..]| kind.as_str()).collect();
    let of_pairs = kinds.iter().filter(|kind| **kind == "comparison").count();
    assert_eq!(of_pairs, targets, "one for each target");
    assert!(
        kinds[kinds.len() - targets..]
            .iter()
            .all(|kind| *kind == "comparison")
    );
    assert_eq!(kinds[0], "work");
    // Each pair is a link in the row of each of its targets.
    let row = all
        .iter()
        .find(|[name, ..]| name.starts_with("lmrs.cpu.q8_0 against"));
    let [.., row] = row.expect("the target has a row");
    let pair = "<a href=\"compare/lmrs.cpu.q8_0.html#pytorch.cpu.f32\">pytorch.cpu.f32</a>";
    says(row, &[pair]);
    // No page is listed under two names.
    let path = |row: &str| between(row, "<a href=\"", "\"").to_owned();
    let mut paths: Vec<String> = all.iter().map(|[.., row]| path(row)).collect();
    paths.retain(|path| !path.contains('#'));
    let listed = paths.len();
    paths.sort();
    paths.dedup();
    assert_eq!(paths.len(), listed);
}

#[test]
fn a_reader_s_own_words_find_the_work_the_engine_s_facts_and_the_machine() {
    let mut world = usual();
    world.maturity.engines[0].facts.push(Fact {
        topic: Topic::Maintenance,
        says: "Synthetic licences, and an API like OpenAI's.".into(),
        short: String::new(),
        source: String::new(),
        read: None,
    });
    add_facts(&mut world.runs[0], &[("gpu", "An invented accelerator")]);
    let all = rows_of(&page(&world, "search.html"));
    let run = format!("Run {}", world.runs[0].header.id);
    let of_candle = "candle (synthetic): Maintenance";
    for (words, name, kind) in [
        ("interactive", "Interactive use", "work"),
        ("chat", "Interactive use", "work"),
        ("streaming", "Interactive use", "work"),
        ("server", "Many users", "work"),
        ("server", "candle (synthetic): Server", "fact"),
        ("openai", of_candle, "fact"),
        ("licen", of_candle, "fact"),
        ("invented accelerator", run.as_str(), "run"),
        ("adapter", "Another (synthetic)", "not measured"),
    ] {
        let found = search(&all, words);
        assert!(found.contains(&(name, kind)), "{words}: {found:?}");
    }
    assert!(search(&all, "interactive zzzz").is_empty());
}

#[test]
fn every_example_of_a_search_finds_a_row() {
    let mut world = usual();
    for last in ["8 in flight", "200 prompt tokens"] {
        let html = page(&world, "search.html");
        let said = between(
            &html,
            "Type words into the field: ",
            ". All words must occur",
        );
        let quoted = said.split(", ");
        let plain = quoted.map(|e| e.trim_start_matches('“').trim_end_matches('”'));
        let examples: Vec<&str> = plain.collect();
        assert_eq!(examples, ["pytorch f32", last, "interval"]);
        let all = rows_of(&html);
        for example in examples {
            assert!(!search(&all, example).is_empty(), "{example}");
        }
        without(&mut world.runs[0], &["sustained"]);
    }
}
