//! What an engine's page says of its engine: for which work the guide takes it, its adapter's
//! notes, with the scenarios that they are about, and what another run found where the run shown
//! has no number of it.

use crate::common::{run, world};
use crate::html::{checked, html_of, page, text_of, words};
use crate::other_runs::only_candle_is_a_crate;
use crate::several::{large, with_copy};

#[test]
fn an_engine_that_the_guide_takes_of_a_kind_alone_says_so() {
    let mut world = with_copy("run-of-1b");
    large(&mut world, 1);
    let (in_rust, of_crates) = (
        ", where only engines in Rust count, the guide takes candle.",
        ", where only engines that come as a crate count, the guide takes candle.",
    );
    let candle = |world: &crate::common::World| words(world, "engine/candle.html");
    let none = candle(&world);
    assert!(
        !none.contains(in_rust) && !none.contains(of_crates),
        "{none}"
    );
    only_candle_is_a_crate(&mut world);
    let alone = candle(&world);
    assert!(alone.contains(of_crates), "{alone}");
    for engine in &mut world.registry.engines {
        engine.in_rust = engine.id == "candle";
    }
    let both = candle(&world);
    assert!(
        both.contains(in_rust) && !both.contains(of_crates),
        "{both}"
    );
    let another = words(&world, "engine/burn.html");
    assert!(!another.contains("engines in Rust count"), "{another}");
}

#[test]
fn an_engine_without_a_number_here_has_those_of_another_run() {
    let mut world = with_copy("an-older-run");
    let path = "engine/candle.html";
    let heading = "What another run found";
    assert!(!page(&world, path).contains(heading));
    let planned = &mut world.runs[0].header.plan.targets;
    planned.retain(|target| target.engine != "candle");
    let pages = checked(&world);
    let text = text_of(&pages, path);
    for said in [
        "Nothing of it can be ranked in the run on this page.",
        " In run an-older-run it leads ",
        heading,
        "With a model this small",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
    let table = html_of(&pages, path)
        .split(heading)
        .nth(1)
        .expect("a section");
    let table = table.split("</table>").next().expect("a table");
    for target in ["candle.cpu.f32", "candle.cpu.q8_0"] {
        let cell = format!("<td>{target}</td>");
        assert_eq!(
            table.matches(&cell).count(),
            5,
            "one for each scenario: {table}"
        );
    }
    // A run of a larger model is preferred to one with as many targets.
    let mut of_1b = world.runs[1].clone();
    of_1b.header.id = "run-of-1b".into();
    world.runs.push(of_1b);
    large(&mut world, 2);
    let text = words(&world, path);
    assert!(text.contains(" In run run-of-1b it leads "), "{text}");
    assert!(!text.contains("With a model this small"), "{text}");
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
    let text = words(&world(vec![run]), "engine/candle.html");
    let said = "own words: Outside long context: No prompt is kept. In long context: Prompts are \
                kept. candle.cpu.f32: an invented engine says this of itself. candle.cpu.q8_0: ";
    assert!(text.contains(said), "{text}");
}
