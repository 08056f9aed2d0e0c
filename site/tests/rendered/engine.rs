//! What an engine's page says of its engine: its adapter's notes, with the scenarios that they are
//! about.

use crate::common::{run, world};
use crate::html::words;

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
