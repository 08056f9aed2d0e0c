//! The pages about several runs: predictions, guide and roadmap. What they may say, on which run it
//! rests, and what they say where nothing was measured.

use crate::common::{World, render, run, usual, usual_site, world};
use crate::html::{self, Pages, html_of, text_of};
use crate::other_runs::only_candle_is_a_crate;
use schema::model::Model;
use schema::profile::Sizes;
use schema::run::Run;

/// The text of a page.
fn page(world: &World, path: &str) -> String {
    text_of(&render(world), path)
}

/// The part of a page's text from one heading to the next.
fn part<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
    let start = text.rfind(from).unwrap_or_else(|| panic!("{from}: {text}"));
    let rest = &text[start..];
    rest.find(to).map_or(rest, |end| &rest[..end])
}

/// Turn a synthetic run into one of a large model.
pub(crate) fn large(world: &mut World, index: usize) {
    let id = "synthetic-1b";
    if world.models.get(id).is_none() {
        world.models.models.push(Model {
            id: id.into(),
            name: "Synthetic 1B".into(),
            parameters: 1_235_814_400,
            about: "invented, of real size.".into(),
            ..Model::default()
        });
    }
    let run = &mut world.runs[index];
    run.header.plan.model = id.into();
    for record in run.verify.values_mut() {
        record.model = id.into();
    }
}

/// A world with a run, and with a copy of that run under this id.
pub(crate) fn with_copy(id: &str) -> World {
    let mut world = usual();
    let mut copy = world.runs[0].clone();
    copy.header.id = id.into();
    world.runs.push(copy);
    world
}

/// Take a scenario out of a run.
pub(crate) fn without(run: &mut Run, scenario: &str) {
    let plan = &mut run.header.plan;
    plan.scenarios.retain(|s| s.id != scenario);
    plan.launches.retain(|l| l.scenario != scenario);
    run.launches.retain(|log| log.launch.scenario != scenario);
}

/// A run of a tiny model, and the same of a large one.
fn with_a_run_of_1b() -> World {
    let mut world = with_copy("run-of-1b");
    large(&mut world, 1);
    world
}

fn sizes() -> Sizes {
    Sizes {
        prompt_tokens: vec![50],
        new_tokens: 16,
        concurrency: vec![4],
        requests: 20,
        ..Sizes::default()
    }
}

#[test]
fn an_engine_s_page_leads_to_the_other_runs_that_measured_it() {
    let mut world = with_copy("an-older-run");
    let link = "../run/an-older-run.html";
    let candle_page = |world: &World| html::page(world, "engine/candle.html");
    let part_of = |page: &str| {
        let text = html::read("engine/candle.html", page).text;
        part(&text, "In other runs", "Build").to_owned()
    };
    let both = candle_page(&world);
    assert!(both.contains(link), "{both}");
    assert!(part_of(&both).contains("candle.cpu.f32"), "{both}");
    assert!(!both.contains("It was measured in"));
    let launches = world.runs[1].launches.iter_mut();
    for ready in launches.flat_map(|log| &mut log.ready) {
        ready.build.insert("isa".into(), "avx2".into());
    }
    assert!(candle_page(&world).contains("avx2 (in run an-older-run)"));
    let planned = &mut world.runs[0].header.plan.targets;
    planned.retain(|target| target.engine != "candle");
    let only_older = candle_page(&world);
    assert!(only_older.contains(link) && only_older.contains("It was measured in"));
    world.runs.swap(0, 1);
    let only_shown = candle_page(&world);
    assert!(!only_shown.contains("In other runs"), "{only_shown}");
}

#[test]
fn without_a_run_all_three_stand_and_say_what_to_run() {
    let mut world = world(vec![]);
    world.profiles[0].model = "synthetic-1b".into();
    world.profiles[0]
        .scenarios
        .insert("sustained".into(), sizes());
    world.models.models[0].id = "synthetic-1b".into();
    world.models.models[0].parameters = 2_000_000_000;
    let guide = page(&world, "guide.html");
    assert!(guide.contains("Nothing has been measured yet"), "{guide}");
    let wanted = "cargo xtask bench-all --profile cpu --scenarios sustained";
    assert!(guide.contains(wanted), "{guide}");
    let hypotheses = page(&world, "hypotheses.html");
    assert!(
        hypotheses.contains("11 are not measured here"),
        "{hypotheses}"
    );
    assert!(hypotheses.contains("cargo xtask bench-all --profile gpu"));
    assert!(hypotheses.contains("Nobody times it."));
    assert!(page(&world, "roadmap.html").contains("no gap is known"));
}

#[test]
fn nothing_is_recommended_on_a_small_model_and_the_page_says_what_would() {
    let mut world = world(vec![run("cpu", 5, 22), run("smoke", 1, 5)]);
    world.profiles[0]
        .scenarios
        .insert("sustained".into(), sizes());
    let guide = page(&world, "guide.html");
    assert!(
        guide.contains("Of 2 runs here none may carry a recommendation"),
        "{guide}"
    );
    assert!(guide.contains("and a choice rests on none under 1\u{a0}B"));
    assert!(guide.contains("left out, since it has too few samples"));
    assert!(!guide.contains("Take pytorch") && !guide.contains("Take candle"));
    // No large model is known, so there is no command that would help.
    assert!(!guide.contains("--scenarios sustained"));
    world.models.models.push(Model {
        id: "made-here".into(),
        name: "Made here".into(),
        parameters: 1_000_000_000,
        ..Model::default()
    });
    let guide = page(&world, "guide.html");
    let wanted = "cargo xtask bench-all --profile cpu --model made-here --scenarios sustained";
    assert!(guide.contains(wanted), "{guide}");
}

#[test]
fn a_large_model_s_run_is_recommended_from_though_another_is_shown() {
    let world = with_a_run_of_1b();
    let pages = html::checked(&world);
    let guide = text_of(&pages, "guide.html");
    let batch = part(&guide, "Much text to work through", "Long prompts");
    // The synthetic leader of sustained load, from its own analysis.
    let analysis = world.analyse().remove(1);
    let leaders: Vec<&str> = analysis
        .cells
        .iter()
        .filter(|c| c.scenario == "sustained" && c.case == "c8" && c.rank == Some(1))
        .map(|c| c.target.as_str())
        .collect();
    assert!(!leaders.is_empty());
    assert!(
        leaders
            .iter()
            .any(|leader| batch.contains(&format!("Take {leader}"))),
        "{leaders:?}: {batch}"
    );
    for word in [
        "Synthetic 1B",
        "Verified scope",
        "How to build it",
        "cargo xtask build",
    ] {
        assert!(batch.contains(word), "{word}: {batch}");
    }
    assert!(html_of(&pages, "guide.html").contains("run/run-of-1b.html"));
    let index = text_of(&pages, "index.html");
    let answers = part(&index, "Of those that come as a crate", "Leader of each");
    for word in ["How sure", "5 launches each", "per M output tokens"] {
        assert!(answers.contains(word), "{word}: {answers}");
    }
    // What rests on the other run links to that run's page, not to the shown run's numbers.
    assert!(!html_of(&pages, "guide.html").contains("scenario/sustained.html#c8"));
}

#[test]
fn an_engine_of_our_own_is_no_candidate_and_stands_beside() {
    let mut world = with_a_run_of_1b();
    let batch = |pages: &Pages| -> String {
        let guide = text_of(pages, "guide.html");
        part(&guide, "Much text to work through", "Long prompts").to_owned()
    };
    let taken = |batch: &str| -> String {
        let after = batch.split("Take ").nth(1).expect("one is taken");
        after.split_whitespace().next().unwrap().to_owned()
    };
    let of = |target: &str| target.split(['.', '+']).next().unwrap().to_owned();
    let leader = taken(&batch(&render(&world)));
    for engine in &mut world.registry.engines {
        engine.ours = engine.id == of(&leader);
    }
    let pages = render(&world);
    let text = batch(&pages);
    let choice = taken(&text);
    assert_ne!(of(&choice), of(&leader), "{text}");
    let beside = format!(
        "This project’s own engine, which has no server, tokeniser or sampling, is ahead of it: {leader} ("
    );
    assert!(text.contains(&beside), "{text}");
    let index = text_of(&pages, "index.html");
    let lead = "This project’s own engine, which has no server, tokeniser or sampling, is ahead: ";
    assert!(index.contains(&format!("{lead}{leader} for ")), "{index}");
    let engine = text_of(&pages, &format!("engine/{}.html", of(&choice)));
    assert!(
        engine.contains(&format!("the guide takes {choice} for ")),
        "{engine}"
    );
}

#[test]
fn the_best_engine_in_rust_stands_beside_a_choice_that_is_none() {
    let mut world = with_a_run_of_1b();
    let said = "Of engines in Rust: ";
    assert!(!page(&world, "guide.html").contains(said));
    for engine in &mut world.registry.engines {
        engine.in_rust = engine.id == "candle";
    }
    let guide = page(&world, "guide.html");
    assert!(guide.contains(&format!("{said}candle.")), "{guide}");
    for engine in &mut world.registry.engines {
        engine.in_rust = true;
    }
    assert!(
        !page(&world, "guide.html").contains(said),
        "a choice in Rust stands alone"
    );
}

#[test]
fn the_best_engine_that_comes_as_a_crate_stands_beside_one_that_does_not() {
    let mut world = with_a_run_of_1b();
    let said = "Of engines that come as a crate, in any language: ";
    assert!(!page(&world, "guide.html").contains(said), "all are crates");
    only_candle_is_a_crate(&mut world);
    let guide = page(&world, "guide.html");
    assert!(guide.contains(&format!("{said}candle.")), "{guide}");
    let index = page(&world, "index.html");
    assert!(index.contains(" (a Python package) for "), "{index}");
    for engine in &mut world.registry.engines {
        engine.in_rust = engine.id == "candle";
    }
    let guide = page(&world, "guide.html");
    assert!(guide.contains("Of engines in Rust: candle."), "{guide}");
    assert!(!guide.contains(said), "it stands there once");
}

#[test]
fn a_run_that_may_not_be_published_carries_nothing_however_large_its_model() {
    let mut world = world(vec![run("smoke", 1, 5)]);
    large(&mut world, 0);
    let guide = page(&world, "guide.html");
    assert!(
        guide.contains("Of 1 run here none may carry a recommendation"),
        "{guide}"
    );
    assert!(page(&world, "roadmap.html").contains("left out, since it has too few samples"));
    let hypotheses = page(&world, "hypotheses.html");
    assert!(
        hypotheses.contains("11 are not measured here"),
        "{hypotheses}"
    );
}

#[test]
fn a_large_model_s_run_without_numbers_recommends_nothing() {
    let mut world = usual();
    large(&mut world, 0);
    world.runs[0].launches.clear();
    let guide = page(&world, "guide.html");
    assert!(
        guide.contains("Of 1 run here none may carry a recommendation"),
        "{guide}"
    );
    assert!(guide.contains("left out: none of its cells was measured"));
    assert!(page(&world, "roadmap.html").contains("has a measured cell, so no gap is known"));
}

#[test]
fn of_the_same_machine_model_and_profile_only_the_broadest_run_speaks() {
    let mut world = with_copy("an-older-one");
    large(&mut world, 0);
    large(&mut world, 1);
    let guide = page(&world, "guide.html");
    assert!(
        guide.contains(
            "left out: another run of this machine, model and profile has at least as many measured cells"
        ),
        "{guide}"
    );
    let text = html::page(&world, "guide.html");
    assert_eq!(text.matches("id=\"batch-").count(), 1);
    assert!(!text.contains("id=\"batch-an-older-one\""));
    // A newer run with few targets is not chosen over one with many.
    world.runs[0].header.plan.targets.truncate(2);
    let text = html::page(&world, "guide.html");
    assert_eq!(text.matches("id=\"batch-").count(), 1);
    assert!(text.contains("id=\"batch-an-older-one\""));
}

#[test]
fn processors_of_one_name_that_differ_in_what_they_can_do_are_two_machines() {
    let mut world = with_copy("avx2");
    large(&mut world, 0);
    large(&mut world, 1);
    let facts = &mut world.runs[1].header.provenance.facts;
    facts.insert("cpu_flags".into(), "avx avx2 fma".into());
    let guide = html::page(&world, "guide.html");
    assert!(guide.contains("id=\"batch-avx2\""), "{guide}");
    assert_eq!(guide.matches("id=\"batch-").count(), 2);
    assert!(guide.contains("synthetic data, no machine (AVX2), 2 CPUs"));
}

#[test]
fn work_that_the_broadest_run_lacks_is_taken_from_another_of_its_kind() {
    let mut world = with_copy("older");
    large(&mut world, 0);
    large(&mut world, 1);
    without(&mut world.runs[0], "memory");
    for scenario in ["single_request", "concurrent", "long_context"] {
        without(&mut world.runs[1], scenario);
    }
    let guide = html::page(&world, "guide.html");
    assert!(guide.contains("id=\"little-memory-older\""), "{guide}");
    assert_eq!(guide.matches("id=\"batch-").count(), 1);
    assert!(
        !guide.contains("id=\"batch-older\""),
        "fewer cells don't speak"
    );
}

#[test]
fn the_best_of_the_targets_that_only_another_run_has_stands_beside_the_choice() {
    let mut world = with_copy("of-others");
    large(&mut world, 0);
    large(&mut world, 1);
    without(&mut world.runs[1], "memory");
    without(&mut world.runs[1], "long_context");
    let said = "another run of this place has candle.";
    assert!(
        !html::words(&world, "guide.html").contains(said),
        "none is lacking"
    );
    let planned = &mut world.runs[0].header.plan.targets;
    planned.retain(|target| target.engine != "candle");
    let guide = html::words(&world, "guide.html");
    assert!(guide.contains(said), "{guide}");
    let index = html::words(&world, "index.html");
    assert!(index.contains("in another run : candle."), "{index}");
}

#[test]
fn predictions_are_judged_by_interval_and_labelled_with_where() {
    let pages = usual_site();
    let text = text_of(pages, "hypotheses.html");
    assert!(
        text.contains("Of 11 predictions, ") && !text.contains("by their 95 % intervals"),
        "{text}"
    );
    assert!(html_of(pages, "hypotheses.html").contains("✕ refuted"));
    assert!(html_of(pages, "hypotheses.html").contains("scenario/single_request.html#p10"));
    assert!(text.contains(
        "synthetic data, no machine (AVX-512, VNNI, AMX), 2 CPUs with Tiny Llama (synthetic)"
    ));
    let gpu = part(
        &text,
        "Synthetic prediction gpu.",
        "Synthetic prediction never.",
    );
    assert!(
        gpu.contains("The run shown can’t settle it: it ran nothing on cuda."),
        "{gpu}"
    );
}

#[test]
fn the_roadmap_ranks_gaps_and_says_which_limits_it_lacks() {
    let mut world = usual();
    let text = page(&world, "roadmap.html");
    assert!(text.contains("Scaling with load"), "{text}");
    assert!(text.contains("This run recorded no memory bandwidth of its machine."));
    assert!(text.contains("No kernels were traced"));
    assert!(text.contains("With a model this small"));
    assert!(text.contains("No limit of this machine was measured in this run"));
    large(&mut world, 0);
    assert!(!page(&world, "roadmap.html").contains("With a model this small"));
    world.models.models.clear();
    let unknown = page(&world, "roadmap.html");
    assert!(!unknown.contains("With a model this small"));
    assert!(unknown.contains("The size of this run’s model is not known"));
}

#[test]
fn without_predictions_their_page_and_its_link_are_not_there() {
    let world = world(vec![run("cpu", 5, 5)]);
    let mut input = world.input();
    input.hypotheses = None;
    let files = site::render(&input).unwrap();
    assert!(!files.contains_key("hypotheses.html"));
    let index = std::str::from_utf8(&files["index.html"]).unwrap();
    assert!(!index.contains("hypotheses.html") && index.contains("guide.html"));
}

#[test]
fn memory_is_drawn_against_the_models_sizes_where_one_machine_ran_several() {
    let mut world = with_copy("run-of-1b");
    assert!(!page(&world, "scenario/memory.html").contains("against the model’s size"));
    large(&mut world, 1);
    for log in &mut world.runs[1].launches {
        for end in &mut log.case_ends {
            end.peak_rss_bytes = end.peak_rss_bytes.map(|bytes| bytes + 1_235_000_000);
        }
    }
    let memory = page(&world, "scenario/memory.html");
    assert!(
        memory.contains("Peak memory against the model’s size"),
        "{memory}"
    );
    assert!(memory.contains("bytes a parameter"), "{memory}");
    assert!(memory.contains("millions: 1236"), "{memory}");
    // A run on another machine is not counted for this one's growth.
    let facts = &mut world.runs[1].header.provenance.facts;
    facts.insert("cpu_model".into(), "another".into());
    assert!(!page(&world, "scenario/memory.html").contains("against the model’s size"));
}
