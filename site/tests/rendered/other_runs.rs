//! What pages take from runs other than the one that they show, where that one has no such number.

use crate::common::change::{
    in_rust, large, no_time, only_candle_is_a_crate, two_of_1b, with_copy, without,
};
use crate::common::{World, render};
use crate::html::{between, checked, html_of, lacks, page, rows, says, words, words_of};
use schema::key::CellKey;

/// The rows about memory on a target's comparison page that have a ratio: the pair's heading and
/// the row's cells.
fn memory_ratios(page: &str) -> Vec<(String, Vec<String>)> {
    let table = between(page, "<table class=\"comparisons\">", "</table>");
    let mut heading = String::new();
    let mut found = Vec::new();
    for row in rows(table) {
        if row.len() == 1 {
            heading = row[0].clone();
        } else if row[0].starts_with("Memory, ") && !row[4].starts_with("not comparable") {
            found.push((heading.clone(), row));
        }
    }
    found
}

#[test]
fn a_case_that_only_another_run_has_stands_below_its_pair() {
    const PATH: &str = "compare/candle.cpu.f32.html";
    const ANOTHER_MODEL: &str = "another model than that of the run shown";
    let link = |id: &str| format!("href=\"../run/{id}.html\"");
    let mut world = with_copy("of-others");
    let page = |world: &World| html_of(&checked(world), PATH).to_owned();
    let none_lacks = page(&world);
    lacks(&none_lacks, &["A row that names a run", &link("of-others")]);
    let expected = memory_ratios(&none_lacks);

    without(&mut world.runs[0], &["memory"]);
    let same_model = page(&world);
    let within = "A row that names a run is a comparison within that run";
    says(&same_model, &[within]);
    says(&same_model, &[", except in rows that name their run"]);
    lacks(&same_model, &[ANOTHER_MODEL]);
    let found = memory_ratios(&same_model);
    // Three sizes against all but itself and Burn, which has no number.
    assert_eq!((found.len(), expected.len()), (18, 18), "{found:?}");
    for ((of, row), (of_expected, expected)) in found.iter().zip(&expected) {
        let named = "run of-others, Tiny Llama (synthetic): 50 prompt and 16 output tokens";
        assert_eq!(row[0], format!("{}{named}", expected[0]));
        assert_eq!(row[1..], expected[1..], "as in that run");
        let other = |heading: &str| heading.split("better in").next().map(str::to_owned);
        assert_eq!(other(of), other(of_expected));
    }

    large(&mut world, 0);
    let small = page(&world);
    let warning = format!("⚠ {ANOTHER_MODEL}, so small that most of a request is overhead");
    assert_eq!(small.matches(&warning).count(), found.len());
    // A run of the same model comes first, though the other has as many scenarios and one more.
    let mut of_the_same = world.runs[1].clone();
    of_the_same.header.id = "of-the-same".into();
    without(&mut of_the_same, &["long_context"]);
    world.runs.push(of_the_same);
    large(&mut world, 2);
    let both = page(&world);
    assert_eq!(both.matches(&link("of-the-same")).count(), found.len());
    lacks(&both, &[&link("of-others"), ANOTHER_MODEL]);
}

/// A run of a large model in which Candle had no time for the longest prompts, and a smaller run of
/// the same place in which it had.
fn without_time_for_candle() -> World {
    let mut world = two_of_1b("of-others");
    let lacking = ["memory", "single_request", "sustained"];
    without(&mut world.runs[1], &lacking);
    let targets = ["candle.cpu.f32", "candle.cpu.q8_0"];
    let longest = targets.map(|id| CellKey::new(id, "long_context", "p512"));
    no_time(&mut world.runs[0], longest);
    world
}

#[test]
fn the_guide_has_from_another_run_what_had_no_time_and_nothing_that_failed() {
    let said = "Of targets without a number here, another run of this place has candle.cpu.";
    let mut world = without_time_for_candle();
    let pages = render(&world);
    let guide = words_of(&pages, "guide.html");
    assert_eq!(guide.matches(said).count(), 1, "{guide}");
    let beside = "of targets without a number here, in another run : candle.cpu.";
    says(&words_of(&pages, "index.html"), &[beside]);

    world.runs[0].budget = None;
    lacks(&words(&world, "guide.html"), &[said]);
    for record in world.runs[0].verify.values_mut() {
        if record.target.starts_with("candle.") {
            record.verified_positions = Some(300);
        }
    }
    let guide = words(&world, "guide.html");
    says(&guide, &["candle.cpu.f32 (not verified that far)"]);
    lacks(&guide, &[said]);
}

#[test]
fn a_choice_that_another_run_shows_to_be_beaten_is_sure_within_its_run() {
    let mut world = without_time_for_candle();
    let index = words(&world, "index.html");
    says(&index, &["sure"]);
    lacks(&index, &["sure in its run, beaten in another"]);
    let logs = world.runs[1].launches.iter_mut();
    for log in logs.filter(|log| log.launch.target.starts_with("candle.")) {
        for request in &mut log.requests {
            let (started, last) = (request.started_ns, *request.token_ns.last().unwrap());
            for at in &mut request.token_ns {
                *at = started + (*at - started) / 20;
            }
            request.answered_ns -= last - *request.token_ns.last().unwrap();
        }
    }
    let index = words(&world, "index.html");
    assert_eq!(
        index.matches("sure in its run, beaten in another").count(),
        1,
        "{index}"
    );
}

#[test]
fn where_a_run_has_no_crate_that_of_another_run_stands_with_its_run() {
    let mut world = without_time_for_candle();
    only_candle_is_a_crate(&mut world);
    let link = "in another run, <a href=\"run/of-others.html\">of-others</a>";
    let pages = render(&world);
    for path in ["guide.html", "index.html"] {
        let page = html_of(&pages, path);
        assert_eq!(page.matches(link).count(), 1, "{page}");
    }
    let index = html_of(&pages, "index.html");
    says(index, &[" in another run for long documents"]);
    lacks(index, &["the one in Rust"]);
    // The target is named only once if its engine is also the one in Rust.
    in_rust(&mut world, |id| id == "candle");
    let index = page(&world, "index.html");
    assert_eq!(index.matches(link).count(), 1, "{index}");
    says(&index, &["the one in Rust"]);

    world.runs.truncate(1);
    let alone = page(&world, "index.html");
    lacks(&alone, &["in another run", "none measured"]);
    says(&alone, &["since it has no number at 512 prompt tokens"]);
    // One that failed at the size that decides is no advice at another.
    world.runs[0].budget = None;
    for record in world.runs[0].verify.values_mut() {
        if record.target.starts_with("candle.") {
            record.verified_positions = Some(300);
        }
    }
    let failed = page(&world, "index.html");
    lacks(&failed, &["since it has no number at"]);
    says(&failed, &["none measured"]);
}
