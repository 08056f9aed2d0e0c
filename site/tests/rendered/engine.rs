//! What an engine's page says of its engine: for which work the guide takes it, its adapter's
//! notes, with the scenarios that they are about, what another run found where the run shown has no
//! number of it, and whether only small models were measured.

use crate::common::change::{
    in_rust, large, only_candle_is_a_crate, small_and_1b, with_copy, without_engine,
};
use crate::common::{render, run, world};
use crate::html::{between, checked, html_of, lacks, page, says, text_of, words, words_of};

#[test]
fn an_engine_that_the_guide_takes_of_a_kind_alone_says_so() {
    let mut world = small_and_1b();
    let of_rust = ", where only engines in Rust count, the guide takes candle.";
    let of_crates = ", where only engines that come as a crate count, the guide takes candle.";
    let path = "engine/candle.html";
    lacks(&words(&world, path), &[of_rust, of_crates]);
    only_candle_is_a_crate(&mut world);
    says(&words(&world, path), &[of_crates]);
    in_rust(&mut world, |id| id == "candle");
    let pages = render(&world);
    let both = words_of(&pages, path);
    says(&both, &[of_rust]);
    lacks(&both, &[of_crates]);
    let another = words_of(&pages, "engine/burn.html");
    lacks(&another, &["engines in Rust count"]);
}

#[test]
fn an_engine_without_a_number_here_has_those_of_another_run() {
    let mut world = with_copy("an-older-run");
    let path = "engine/candle.html";
    let heading = "What another run found";
    lacks(&page(&world, path), &[heading]);
    without_engine(&mut world.runs[0], "candle");
    let pages = checked(&world);
    let small = "With a model this small";
    let wanted = [
        "Nothing of it can be ranked in the run on this page.",
        " In run an-older-run it leads ",
        heading,
        small,
    ];
    says(&text_of(&pages, path), &wanted);
    let table = between(html_of(&pages, path), heading, "</table>");
    for target in ["candle.cpu.f32", "candle.cpu.q8_0"] {
        let count = table.matches(&format!("<td>{target}</td>")).count();
        assert_eq!(count, 5, "one for each scenario: {table}");
    }
    // A run of a larger model is preferred to one with as many targets.
    let mut of_1b = world.runs[1].clone();
    of_1b.header.id = "run-of-1b".into();
    world.runs.push(of_1b);
    large(&mut world, 2);
    let text = words(&world, path);
    says(&text, &[" In run run-of-1b it leads "]);
    lacks(&text, &[small]);
}

#[test]
fn an_engine_that_was_measured_with_small_models_alone_says_so_first() {
    let path = "engine/candle.html";
    let first = |next: &str| {
        format!(
            "<p class=\"answer\">In runs that may be published it was measured only with a model of \
             1\u{202f}234\u{202f}567 parameters, in which most of a request is overhead; that says \
             nothing about real models. {next}"
        )
    };
    let mut two = with_copy("an-older-run");
    says(&page(&two, path), &[&first("In the run on this page it ")]);
    without_engine(&mut two.runs[0], "candle");
    let here = first("Nothing of it can be ranked in the run on this page. ");
    says(&page(&two, path), &[&here]);
    large(&mut two, 1);
    let only = "measured only with";
    lacks(&page(&two, path), &[only]);
    // Nor is it said where the size of the model isn't known.
    two.models.models.retain(|model| model.id == "tiny-llama");
    lacks(&page(&two, path), &[only]);
    // A run that may not be published changes nothing.
    let mut unpublished = world(vec![run("cpu", 5, 22), run("smoke", 1, 5)]);
    large(&mut unpublished, 1);
    says(
        &page(&unpublished, path),
        &[&first("In the run on this page it ")],
    );
}

#[test]
fn a_note_that_is_declared_in_some_scenarios_names_them() {
    let mut run = run("cpu", 5, 5);
    for log in &mut run.launches {
        let note = match log.launch.scenario.as_str() {
            "long_context" => "Prompts are kept.",
            _ => "No prompt is kept.",
        };
        let ready = log.ready.as_mut().expect("each process was ready");
        ready.notes.push(note.into());
    }
    let said = "own words: Outside long context: No prompt is kept. In long context: Prompts are \
                kept. candle.cpu.f32: an invented engine says this of itself. candle.cpu.q8_0: ";
    says(&words(&world(vec![run]), "engine/candle.html"), &[said]);
}
