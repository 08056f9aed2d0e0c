//! Charts that answer a question: they are there only where the records have the answer.
//!
//! Prefix reuse: each target's first token compared with its own where prompts share nothing, and
//! charts along an axis that begins at 0.

use crate::common::change::{large, ours};
use crate::common::provenance::{add_facts, add_limits};
use crate::common::{World, render, run, usual, usual_site, world};
use crate::html::{Pages, between, checked, html_of, lacks, page, says, words_of};
use schema::budget::{Budget, Pilot, Round};
use schema::run::Run;
use schema::scenario::Axis;

/// A page of the site of these runs.
fn of(runs: Vec<Run>, path: &str) -> String {
    page(&world(runs), path)
}

/// The site of one run.
fn site_of(run: &Run) -> Pages {
    render(&world(vec![run.clone()]))
}

#[test]
fn a_scenario_has_its_fit_its_strips_and_each_engines_best_at_first() {
    let parts = [
        r#"id="fig-by-case-ttft_ns""#,
        "Growth exponent",
        "growth exponents from",
        r#"id="fig-strip-ttft_ns""#,
        r#"class="legend""#,
        r#"class="sr rest""#,
        // The baseline is always drawn.
        r#"class="sr" data-s="pytorch.cpu.f32""#,
    ];
    let text = html_of(usual_site(), "scenario/single_request.html");
    says(text, &parts);
}

#[test]
fn memory_is_shown_in_its_parts() {
    let text = html_of(usual_site(), "scenario/memory.html");
    says(text, &["fig-memory-stack", "KV cache", "everything else"]);
}

#[test]
fn a_peak_in_a_process_of_several_scenarios_says_that_loading_is_not_in_it() {
    let (peak, after) = ("Peak resident memory", "Peak resident memory after loading");
    let own = html_of(usual_site(), "scenario/long_context.html");
    says(own, &[peak]);
    lacks(own, &[after]);
    let mut run = run("cpu", 5, 22);
    run.header.plan.one_process = true;
    let pages = site_of(&run);
    says(html_of(&pages, "scenario/long_context.html"), &[after]);
    // A batch has a process of its own all the same.
    let fresh = html_of(&pages, "scenario/memory.html");
    says(fresh, &[peak]);
    lacks(fresh, &[after]);
}

const NO_LIMIT: &str = "no limit of its device was measured";

#[test]
fn a_roof_is_drawn_only_where_it_was_measured() {
    let path = "scenario/single_request.html";
    let figure = "fig-roofline";
    lacks(html_of(usual_site(), path), &[figure]);
    let mut measured = run("cpu", 5, 22);
    add_limits(&mut measured);
    let pages = site_of(&measured);
    says(html_of(&pages, path), &[figure, ", decode"]);
    lacks(html_of(&pages, path), &[NO_LIMIT]);

    // The roof is the processor's: targets on other devices are named, and not drawn under it.
    let set = |run: &mut Run, all: bool| {
        let targets = run.header.plan.targets.iter_mut();
        for target in targets.filter(|t| all || t.id == "pytorch.cpu.f32") {
            target.backend = "cuda".into();
        }
    };
    let some = "on devices whose limits were not measured";
    let none = "No limit of the device that computes was measured.";
    set(&mut measured, false);
    let pages = site_of(&measured);
    says(html_of(&pages, path), &[figure, NO_LIMIT]);
    lacks(html_of(&pages, path), &["pytorch.cpu.f32, decode"]);
    says(html_of(&pages, "roadmap.html"), &[some]);
    set(&mut measured, true);
    let pages = site_of(&measured);
    lacks(html_of(&pages, path), &[figure]);
    says(html_of(&pages, "roadmap.html"), &[none]);
    lacks(html_of(&pages, "roadmap.html"), &[some]);

    // A GPU whose limits were measured has a roof of its own.
    let of_gpu = [
        ("cuda_memory_bandwidth_bytes_per_s", "3300000000000"),
        ("cuda_flops_f32_per_s", "60000000000000"),
        ("cuda_last_level_cache_bytes", "1000"),
    ];
    add_facts(&mut measured, &of_gpu);
    let pages = site_of(&measured);
    says(html_of(&pages, path), &[figure, "what the GPU can do"]);
    lacks(html_of(&pages, "roadmap.html"), &[none]);
}

#[test]
fn runs_that_compare_have_a_history_and_one_run_has_none() {
    // Another profile doesn't compare.
    let alone = of(vec![run("cpu", 5, 22), run("smoke", 1, 5)], "index.html");
    lacks(&alone, &["fig-history"]);
    let mut older = run("cpu", 5, 22);
    older.header.id = "20980102-030405-cpu-older".into();
    older.header.started = "2098-01-02T03:04:05Z".into();
    // The older run may be the one that the report shows.
    for runs in [
        vec![run("cpu", 5, 22), older.clone()],
        vec![older.clone(), run("cpu", 5, 22)],
    ] {
        let list = "1 = 20980102-030405-cpu-older (2098-01-02 03:04 UTC)";
        says(&of(runs, "index.html"), &["fig-history", list]);
    }
    // On another machine.
    add_facts(&mut older, &[("cpu_flags", "avx2")]);
    let elsewhere = of(vec![run("cpu", 5, 22), older], "index.html");
    lacks(&elsewhere, &["fig-history"]);
}

#[test]
fn the_map_of_coverage_has_a_sign_for_every_cell() {
    let run = run("cpu", 5, 22);
    let plan = &run.header.plan;
    let cases: usize = plan.scenarios.iter().map(|s| s.cases.len()).sum();
    let cells = cases * plan.targets.len();
    let text = html_of(usual_site(), "coverage.html");
    let map = between(text, "id=\"fig-coverage\"", "</svg>");
    assert_eq!(map.matches("h-").count(), cells);
}

/// A round of one request.
fn round(prompt_tokens: u32, round_s: f64) -> Round {
    Round {
        prompt_tokens,
        new_tokens: 16,
        concurrency: 1,
        mixed: false,
        round_s,
    }
}

#[test]
fn a_cell_that_was_not_planned_has_the_pilot_s_estimate_where_there_is_one() {
    let mut run = run("cpu", 5, 22);
    let (slow, scenario) = ("candle.cpu.f32", "long_context");
    let plan = &mut run.header.plan;
    let ids = plan.targets.iter().map(|target| target.id.clone());
    let others: Vec<String> = ids.filter(|id| id != slow).collect();
    for planned in plan.scenarios.iter_mut().filter(|s| s.id == scenario) {
        planned.targets = others.clone();
    }
    plan.launches
        .retain(|l| l.target != slow || l.scenario != scenario);
    run.launches
        .retain(|log| log.launch.target != slow || log.launch.scenario != scenario);
    let said = "the profile has this scenario for other targets";
    let text = of(vec![run.clone()], "coverage.html");
    assert_eq!(text.matches(said).count(), 3, "one for each case");
    lacks(&text, &["by the pilot"]);
    let pilot = |target: &str| Pilot {
        target: target.into(),
        rounds: vec![round(512, 70.5)],
        ..Pilot::default()
    };
    run.budget = Some(Budget {
        pilots: vec![pilot("candle.cpu.q8_0"), pilot(slow)],
        ..Budget::default()
    });
    let text = of(vec![run], "coverage.html");
    assert_eq!(text.matches(said).count(), 3);
    let estimate = format!(
        "{said}; by the pilot, which took 70.5 s for 1 request, its 110 requests would take about 2.2 h"
    );
    assert_eq!(text.matches(&estimate).count(), 1, "{text}");
    assert_eq!(text.matches("by the pilot").count(), 1);
}

#[test]
fn a_cell_that_there_was_no_time_for_has_what_the_pilot_took() {
    let mut run = run("cpu", 5, 22);
    let slow = "candle.cpu.f32";
    let over = fixtures::over(slow, "long_context", "p512", "no time (synthetic)");
    let pilot = Pilot {
        target: slow.into(),
        rounds: vec![round(256, 3.0), round(512, 70.5)],
        ..Pilot::default()
    };
    run.budget = Some(Budget {
        over: vec![over],
        pilots: vec![pilot],
        ..Budget::default()
    });
    let pages = site_of(&run);
    let coverage = html_of(&pages, "coverage.html");
    let said = "no time (synthetic); the pilot took 70.5 s for 1 request";
    assert_eq!(coverage.matches(said).count(), 1, "{coverage}");
    let scenario = html_of(&pages, "scenario/long_context.html");
    let said = "what the pilot took, once: candle.cpu.f32 70.5 s for 1 request.";
    assert_eq!(scenario.matches(said).count(), 1, "{scenario}");
    // The pilot's 3 s are not shown for a case that has numbers.
    lacks(scenario, &["3.00 s for 1 request"]);
    run.budget.as_mut().expect("it is set").pilots.clear();
    let unknown = of(vec![run], "scenario/long_context.html");
    lacks(&unknown, &["what the pilot took"]);
}

#[test]
fn a_matrix_says_which_engine_runs_which_architecture() {
    let mut world = usual();
    let [first, second, ..] = world.registry.engines.as_mut_slice() else {
        panic!("the synthetic registry has several engines");
    };
    first.architectures = vec!["llama".into(), "qwen3".into()];
    first.targets[0].architectures = vec!["phi3".into()];
    second.architectures = vec!["*".into()];
    let (name, alone) = (first.name.clone(), first.targets[0].clone());
    let alone = format!("{}.{}.{}", first.id, alone.backend, alone.precision);
    let any = second.name.clone();
    let text = page(&world, "coverage.html");
    let matrix = between(&text, "Architectures by engine", "</table>");
    for head in ["llama", "qwen3", "phi3", "any other"] {
        says(matrix, &[&format!("<th scope=\"col\">{head}</th>")]);
    }
    let answers = |engine: &str, targets: &str| -> Vec<String> {
        let start = format!("<tr><th scope=\"row\">{engine}</th><td>{targets}");
        let row = between(matrix, &start, "</tr>");
        let cells = row.split("<td>").skip(1);
        cells.map(|cell| cell.replace("</td>", "")).collect()
    };
    assert_eq!(answers(&name, &alone), ["no", "no", "yes", "no"]);
    assert_eq!(answers(&any, "all"), ["yes"; 4]);
}

const ID: &str = "long_context";

/// The synthetic world in which the scenario of long contexts has prompts of one length, with more
/// and more of them shared. The case of the longest prompt becomes the one with the least shared.
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

#[test]
fn a_target_that_keeps_prompts_is_held_against_itself() {
    let world = with_reuse();
    let path = "scenario/long_context.html";
    let pages = render(&world);
    let (raw, text) = (html_of(&pages, path), words_of(&pages, path));
    let heading = "each target against itself where they share nothing";
    let table = between(&text, heading, "Each target is held");
    let rows = |target: &str| table.matches(target).count();
    assert_eq!(rows("lmrs.cpu.f32"), 2, "{table}");
    assert_eq!(rows("lmrs.cpu.q8_0"), 2, "{table}");
    assert_eq!(rows("candle"), 0, "{table}");
    // 512 tokens of a synthetic prefill ÷ 128, in five launches.
    let (_, most) = table.split_once("75.0 %").expect("a row of the most");
    let ratio = most.split('×').next().expect("a ratio");
    let ratio = ratio.split(' ').next_back().expect("a number");
    let ratio: f64 = ratio.parse().expect(most);
    assert!(ratio > 2.0 && ratio < 4.5, "{most}");
    assert!(most.contains("4.00×"), "in proportion: {most}");
    let parts = [
        "50 % of the prompt shared",
        "384 tokens, are the same in all prompts",
        // A target that keeps no prompts has a reason in place of a number.
        "our adapter uses no prefix cache of this engine",
    ];
    says(&text, &parts);
    // The chart's axis starts at 0, which has no logarithm.
    let axis = "shared beginning of the prompt (%)";
    says(raw, &[axis]);
    lacks(raw, &[&format!("{axis} – log scale")]);
    lacks(raw, &["NaN", "growth exponent"]);
    // Nobody is held against a baseline that keeps no prompts.
    let index = words_of(&pages, "index.html");
    lacks(&index, &["baseline has no value"]);
    says(&index, &["Long context"]);
}

#[test]
fn a_target_whose_adapter_keeps_no_prompts_was_not_tested_and_is_grey() {
    let mut world = with_reuse();
    large(&mut world, 0);
    ours(&mut world, |id| id == "lmrs");
    let pages = checked(&world);
    let why = "not tested: our adapter uses no prefix cache";
    let pair = html_of(&pages, "compare/lmrs.cpu.q8_0.html");
    let figure = between(pair, "id=\"fig-pairs\"", "</figure>");
    let grey: [&str; 3] = [
        "<text class=\"un\" ",
        ">– not tested: our adapter…</text>",
        &format!("Targets in grey were {why}."),
    ];
    says(figure, &grey);
    let row = format!("<td class=\"even\">not comparable: candle.cpu.f32 {why}</td>");
    says(pair, &[&row]);
    lacks(pair, &["unsupported"]);
    let scenario = "scenario/long_context.html";
    for path in [
        scenario,
        "index.html",
        "engine/candle.html",
        "coverage.html",
    ] {
        let page = html_of(&pages, path);
        says(page, &["class=\"pill even\"", ">not tested</"]);
        lacks(page, &["unsupported</a>", "unsupported</span>"]);
    }
    let not_drawn = format!(" at 75, 50, 0 ({why}).");
    says(&words_of(&pages, scenario), &[&not_drawn]);
    says(&words_of(&pages, "index.html"), &["cells: 18 not tested, "]);
    let id = &world.runs[0].header.id;
    let of_run = words_of(&pages, &format!("run/{id}.html"));
    says(&of_run, &["not tested our adapter uses no prefix cache "]);
    says(&words_of(&pages, "guide.html"), &[&format!(" ({why}).")]);
    // What failed stays red, and the downloads have the status of the record.
    says(html_of(&pages, "engine/burn.html"), &["class=\"pill\" "]);
    let csv = html_of(&pages, &format!("data/{id}/results.csv"));
    let status = ",unsupported,\"our adapter uses no prefix cache of this engine, ";
    assert_eq!(csv.matches(status).count(), 18);
}

#[test]
fn a_scenario_that_keeps_nothing_has_no_such_table() {
    let text = words_of(usual_site(), "scenario/long_context.html");
    lacks(&text, &["Sooner by"]);
}

#[test]
fn what_a_project_claims_stands_beside_what_the_run_found() {
    let pages = usual_site();
    let page = html_of(pages, "engine/candle.html");
    let words = [
        "Read on 2026-01-03.",
        "Twice as fast (synthetic).",
        "On a laptop (synthetic).",
        "href=\"https://claims.example/\"",
        "No laptop here (synthetic).",
        "candle.cpu.q8_0 is 3.",
        " as good as candle.cpu.f32 (time per output token; ",
        " 50 prompt tokens)",
    ];
    says(page, &words);
    lacks(page, &["Not measured together."]);
    let other = html_of(pages, "engine/lmrs.html");
    lacks(other, &["What its project says"]);
}

#[test]
fn a_claim_whose_targets_were_not_measured_together_says_so() {
    let mut world = usual();
    world.claims.claims[0].here[0].against = "candle.cuda.f32".into();
    let apart = "Not measured together.";
    let candle = page(&world, "engine/candle.html");
    says(&candle, &["Twice as fast (synthetic).", apart]);
    world.claims.claims[0].here.clear();
    let of_a_rate = page(&world, "engine/candle.html");
    says(&of_a_rate, &["No laptop here (synthetic)."]);
    lacks(&of_a_rate, &[apart]);
}

#[test]
fn a_claim_is_held_against_another_run_where_the_one_shown_has_no_comparison() {
    let mut shown = run("cpu", 5, 22);
    let planned = &mut shown.header.plan.targets;
    planned.retain(|target| target.id != "candle.cpu.f32");
    let mut other = run("cpu", 5, 22);
    other.header.id = "another-run".into();
    let unpublishable = run("smoke", 1, 5);
    let mut of_1b = other.clone();
    of_1b.header.id = "run-of-1b".into();
    let mut world = world(vec![shown.clone(), unpublishable.clone(), other, of_1b]);
    large(&mut world, 3);
    let beside = page(&world, "engine/candle.html");
    says(&beside, &[" as good as candle.cpu.f32"]);
    let claims = between(&beside, "class=\"claims\"", "</table>");
    let link = "Run <a href=\"../run/run-of-1b.html\">run-of-1b</a>";
    let small = "With a model this small";
    says(claims, &[link]);
    lacks(claims, &["another-run", small]);
    world.runs.truncate(3);
    let tiny = page(&world, "engine/candle.html");
    says(&tiny, &["another-run</a>, ", small]);
    world.runs.truncate(2);
    let none = page(&world, "engine/candle.html");
    says(&none, &["Not measured together."]);
}
