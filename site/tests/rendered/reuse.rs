//! Prompts that begin alike: each target's first token against its own without, and charts along
//! an axis that begins at 0.

use crate::common::{World, run, world};
use crate::html;
use schema::scenario::Axis;

const ID: &str = "long_context";

/// The synthetic world with its long contexts as prompts of one length of which more and more is
/// shared: the longest prompt for the least shared.
fn with_reuse() -> World {
    let mut run = run("cpu", 5, 22);
    let planned = run.header.plan.scenarios.iter_mut();
    let planned = planned.into_iter().find(|s| s.id == ID).expect("is there");
    planned.axis = Axis::SharedPercent;
    for (case, percent) in planned.cases.iter_mut().zip([75, 50, 0]) {
        case.shared_percent = Some(percent);
        case.prompt_tokens = 512;
    }
    for target in ["lmrs.cpu.f32", "lmrs.cpu.q8_0"] {
        let record = run.verify.get_mut(target).expect("it was verified");
        record.prefix_cache = true;
    }
    let mut world = world(vec![run]);
    let text = world.scenarios.iter_mut().find(|s| s.id == ID);
    text.expect("it has a text").axis = Axis::SharedPercent;
    world
}

fn page(world: &World, path: &str) -> (String, String) {
    let files = site::render(&world.input()).expect("renders");
    let raw = String::from_utf8(files[path].clone()).expect("UTF-8");
    let text = html::read(path, &raw).text;
    (raw, text.split_whitespace().collect::<Vec<_>>().join(" "))
}

#[test]
fn a_target_that_keeps_prompts_is_held_against_itself() {
    let world = with_reuse();
    let (raw, text) = page(&world, "scenario/long_context.html");
    let (_, table) = text
        .split_once("each target against itself where they share nothing")
        .expect("there is a table");
    let (table, _) = table.split_once("Each target is held").expect("and a note");
    let rows = |target: &str| table.matches(target).count();
    assert_eq!(
        (rows("lmrs.cpu.f32"), rows("lmrs.cpu.q8_0")),
        (2, 2),
        "{table}"
    );
    assert_eq!(rows("candle"), 0, "{table}");
    // 512 tokens of a synthetic prefill ÷ 128, in five launches.
    let (_, most) = table.split_once("75.0 %").expect("a row of the most");
    let ratio = most.split('×').next().expect("a ratio");
    let ratio: f64 = ratio
        .split(' ')
        .next_back()
        .expect("a number")
        .parse()
        .expect(ratio);
    assert!(ratio > 2.0 && ratio < 4.5, "{most}");
    assert!(most.contains("4.00×"), "in proportion: {most}");
    assert!(text.contains("50 % of the prompt shared"));
    assert!(
        text.contains("384 tokens, are the same in all prompts"),
        "{text}"
    );
    // Who keeps nothing has a reason in place of a number.
    assert!(text.contains("its hello declares no prefix cache"));
    // A chart from 0 on, which no logarithm has.
    assert!(raw.contains("shared beginning of the prompt (%)"));
    assert!(!raw.contains("shared beginning of the prompt (%) – log scale"));
    assert!(!raw.contains("NaN") && !raw.contains("growth exponent"));
}

#[test]
fn a_scenario_that_keeps_nothing_has_no_such_table() {
    let world = world(vec![run("cpu", 5, 22)]);
    let (_, text) = page(&world, "scenario/long_context.html");
    assert!(!text.contains("Sooner by"));
}

#[test]
fn nobody_is_held_against_a_baseline_that_keeps_no_prompts() {
    let world = with_reuse();
    let (_, index) = page(&world, "index.html");
    assert!(!index.contains("baseline has no value"), "{index}");
    assert!(index.contains("Long context"));
}
