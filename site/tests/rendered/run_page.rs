//! What a run's page says of its surroundings and prompts.
//!
//! The page lists what the run was pinned to, beside the command that sets it up again; what a
//! record lacks is a dash.
//!
//! A run of prompts that the user brought says which they were; any other run doesn't mention them.
//!
//! A run that the report doesn't show has its comparisons, and says which run is shown.

use crate::common::change::with_copy;
use crate::common::{World, run, usual, usual_site, world};
use crate::html::{checked, html_of, lacks, run_page, says, text_of, texts, words, words_of};
use schema::own_prompts::OwnPrompts;
use schema::pins::{Pin, Pins};
use schema::record::Telemetry;
use schema::run::Run;
use schema::scenario::{PromptSource, Scenario};

const CHECKOUT: &str = "git checkout 0123456789abcdef0123456789abcdef01234567";
/// The page of the usual run.
const RUN_SHOWN: &str = "run/20990102-030405-cpu-synthetic.html";

#[test]
fn a_run_in_the_flakes_shell_says_how_to_enter_it() {
    let mut world = usual();
    let provenance = &mut world.runs[0].header.provenance;
    provenance.pins = Pins {
        nix_shell: Some("default".into()),
        nix_shell_pure: Some(false),
        libtorch: Some(Pin {
            version: Some("2.9.0+cu128".into()),
            from: "/nix/store/x-libtorch".into(),
            sha256: None,
        }),
        ..Pins::default()
    };
    provenance.facts.insert("driver".into(), "580.1".into());
    let hash = "fe".repeat(32);
    provenance
        .lockfiles
        .insert("flake.lock".into(), hash.clone());
    let page = run_page(&world);
    // Undo the template engine's escaping of slashes and ampersands.
    let page = page.replace("&amp;", "&").replace("&#x2f;", "/");
    says(&page, &[&format!("{CHECKOUT} && nix develop")]);
    says(&page, &["2.9.0+cu128 from /nix/store/x-libtorch"]);
    says(&page, &["580.1", &hash]);
}

#[test]
fn an_older_record_has_every_item_all_the_same() {
    let page = html_of(usual_site(), RUN_SHOWN).replace("&amp;", "&");
    says(&page, &[&format!("{CHECKOUT} && cargo xtask build")]);
    for item in ["nix shell", "libtorch", "cuda toolkit", "driver"] {
        says(&page, &[&format!("<th scope=\"row\">{item}</th>")]);
    }
}

#[test]
fn the_state_of_a_gpu_stands_there_where_it_was_read() {
    let caption = "The GPU while it was measured";
    lacks(html_of(usual_site(), RUN_SHOWN), &[caption]);
    let mut run = run("cpu", 5, 22);
    for log in &mut run.launches {
        if log.launch.target != "candle.cpu.f32" {
            continue;
        }
        let readings = log.case_ends.iter().flat_map(|end| {
            let step_ns = (end.end_ns - end.start_ns) / 20;
            (0..=20).map(move |i| Telemetry {
                case: end.case.clone(),
                t_ns: end.start_ns + i * step_ns,
                gpu_temperature_celsius: Some(66),
                gpu_sm_clock_mhz: Some(1980),
                ..Telemetry::default()
            })
        });
        log.telemetry = readings.collect();
    }
    let page = run_page(&world(vec![run]));
    says(&page, &[caption, "GPU clock, least", "66.0 °C", "1.98 GHz"]);
}

#[test]
fn a_run_that_the_report_does_not_show_says_so_and_has_its_comparisons() {
    let mut world = with_copy("another");
    let path = "run/another.html";
    let many = words(&world, path);
    let caption = "Each target compared with the best of its case";
    let parts = [
        "results pages show run 20990102-030405-cpu-synthetic ;",
        " comparisons with the best target of each case are in results.json",
        "Baseline of ratios pytorch.cpu.f32 ",
    ];
    says(&many, &parts);
    lacks(&many, &[caption]);

    // Three targets without the baseline: two comparisons in each of the 15 cases.
    let planned = &mut world.runs[1].header.plan.targets;
    let wanted = ["lmrs.cpu.q8_0", "candle.cpu.f32", "candle.cpu.q8_0"];
    planned.retain(|target| wanted.contains(&target.id.as_str()));
    let pages = checked(&world);
    let few = words_of(&pages, path);
    says(&few, &["none: pytorch.cpu.f32 is not in this run"]);
    lacks(&few, &[" are in results.json"]);
    let table = html_of(&pages, path).split(caption).nth(2);
    let table = table
        .expect("a label and a caption")
        .split("</table>")
        .next();
    assert_eq!(table.expect("a table").matches("<tr>").count(), 1 + 30);
    // Those of the run shown stand on the scenarios' pages.
    lacks(html_of(&pages, RUN_SHOWN), &[caption]);
}

const TITLE: &str = "Your own prompts";

/// Add the text of the scenario with the user's own prompts to the world.
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

/// A run whose user brought three prompts.
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
    let pages = checked(&world(vec![own()]));
    let page = text_of(&pages, "scenario/concurrent.html");
    let prompts = "Prompts: 3 prompts of mine.jsonl, 12 to 50 tokens long (median 30), each asked 36 or 37 times in each case.";
    let work = "up to 50 (on average 31) prompt tokens → 16 new tokens, 4 in flight";
    says(&page, &[prompts, work]);
    // It asked others.
    let other = text_of(&pages, "scenario/sustained.html");
    lacks(&other, &["mine.jsonl"]);
}

#[test]
fn nobody_misses_prompts_that_nobody_brought() {
    let pages = checked(&with_scenario(usual()));
    lacks(&text_of(&pages, "coverage.html"), &[TITLE]);
    for (path, page) in texts(&pages) {
        assert!(!page.contains(TITLE), "{path}");
    }
    // Without a run, the scenario is listed among all scenarios.
    let empty = checked(&with_scenario(world(vec![])));
    says(&text_of(&empty, "index.html"), &[TITLE]);
}
