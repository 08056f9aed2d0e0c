//! The pages about several runs: predictions, guide and roadmap. What they may say, on which run it
//! rests, and what they say where nothing was measured.

use crate::common::change::{
    in_rust, large, of_1b, only_candle_is_a_crate, ours, reports, small_and_1b, two_of_1b,
    with_copy, without, without_engine,
};
use crate::common::provenance::add_facts;
use crate::common::{World, render, run, usual, usual_site, world};
use crate::html::{self, Pages, html_of, lacks, says, text_of};
use schema::model::Model;
use schema::profile::Sizes;

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
    says(&both, &[link]);
    says(&part_of(&both), &["candle.cpu.f32"]);
    lacks(&both, &["It was measured in"]);
    for ready in reports(&mut world.runs[1]) {
        ready.build.insert("isa".into(), "avx2".into());
    }
    says(&candle_page(&world), &["avx2 (in run an-older-run)"]);
    without_engine(&mut world.runs[0], "candle");
    says(&candle_page(&world), &[link, "It was measured in"]);
    world.runs.swap(0, 1);
    lacks(&candle_page(&world), &["In other runs"]);
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
    let pages = render(&world);
    let wanted = "cargo xtask bench-all --profile cpu --scenarios sustained";
    let guide = text_of(&pages, "guide.html");
    says(&guide, &["Nothing has been measured yet", wanted]);
    let words = [
        "11 are not measured here",
        "cargo xtask bench-all --profile gpu",
        "Nobody times it.",
    ];
    says(&text_of(&pages, "hypotheses.html"), &words);
    says(&text_of(&pages, "roadmap.html"), &["no gap is known"]);
}

#[test]
fn nothing_is_recommended_on_a_small_model_and_the_page_says_what_would() {
    let mut world = world(vec![run("cpu", 5, 22), run("smoke", 1, 5)]);
    world.profiles[0]
        .scenarios
        .insert("sustained".into(), sizes());
    let guide = page(&world, "guide.html");
    let words = [
        "Of 2 runs here none may carry a recommendation",
        "and a choice rests on none under 1\u{a0}B",
        "left out, since it has too few samples",
    ];
    says(&guide, &words);
    lacks(&guide, &["Take pytorch", "Take candle"]);
    // No large model is known, so there is no command that would help.
    lacks(&guide, &["--scenarios sustained"]);
    world.models.models.push(Model {
        id: "made-here".into(),
        name: "Made here".into(),
        parameters: 1_000_000_000,
        ..Model::default()
    });
    let wanted = "cargo xtask bench-all --profile cpu --model made-here --scenarios sustained";
    says(&page(&world, "guide.html"), &[wanted]);
}

#[test]
fn a_large_model_s_run_is_recommended_from_though_another_is_shown() {
    let world = small_and_1b();
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
    says(batch, &["Synthetic 1B", "Verified scope"]);
    says(batch, &["How to build it", "cargo xtask build"]);
    let index = text_of(&pages, "index.html");
    let answers = part(&index, "Of those that come as a crate", "Leader of each");
    says(answers, &["How sure", "5 launches each"]);
    says(answers, &["per M output tokens"]);
    // What rests on the other run links to that run's page, not to the shown run's numbers.
    let guide = html_of(&pages, "guide.html");
    says(guide, &["run/run-of-1b.html"]);
    lacks(guide, &["scenario/sustained.html#c8"]);
}

#[test]
fn an_engine_of_our_own_is_no_candidate_and_stands_beside() {
    let mut world = small_and_1b();
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
    ours(&mut world, |id| id == of(&leader));
    let pages = render(&world);
    let text = batch(&pages);
    let choice = taken(&text);
    assert_ne!(of(&choice), of(&leader), "{text}");
    let beside = format!(
        "This project’s own engine, which has no server, tokeniser or sampling: {leader} ("
    );
    says(&text, &[&beside]);
    let index = text_of(&pages, "index.html");
    let lead = "This project’s own engine, which has no server, tokeniser or sampling, is ahead: ";
    says(&index, &[&format!("{lead}{leader} for ")]);
    let engine = text_of(&pages, &format!("engine/{}.html", of(&choice)));
    says(&engine, &[&format!("the guide takes {choice} for ")]);
}

#[test]
fn the_best_engine_in_rust_stands_beside_a_choice_that_is_none() {
    let mut world = small_and_1b();
    let said = "<dt>In Rust</dt><dd>";
    lacks(&html::page(&world, "guide.html"), &[said]);
    in_rust(&mut world, |id| id == "candle");
    says(
        &html::page(&world, "guide.html"),
        &[&format!("{said}candle.")],
    );
    // A choice in Rust stands alone.
    in_rust(&mut world, |_| true);
    lacks(&html::page(&world, "guide.html"), &[said]);
}

#[test]
fn the_best_engine_that_comes_as_a_crate_stands_beside_one_that_does_not() {
    let mut world = small_and_1b();
    let said = "<dt>As a crate, in any language</dt><dd>";
    // All are crates.
    lacks(&html::page(&world, "guide.html"), &[said]);
    only_candle_is_a_crate(&mut world);
    let pages = render(&world);
    says(html_of(&pages, "guide.html"), &[&format!("{said}candle.")]);
    let index = text_of(&pages, "index.html");
    says(&index, &[" (a Python package) for "]);
    // The crate stands before the best of all in the sentence at the top.
    let lead = part(&index, "take as a crate candle.", "Measured");
    says(lead, &["Of all engines, take "]);
    // An engine that is the best of both kinds stands there once.
    in_rust(&mut world, |id| id == "candle");
    let guide = html::page(&world, "guide.html");
    says(&guide, &["<dt>In Rust</dt><dd>candle."]);
    lacks(&guide, &[said]);
}

#[test]
fn a_run_that_may_not_be_published_carries_nothing_however_large_its_model() {
    let mut world = world(vec![run("smoke", 1, 5)]);
    large(&mut world, 0);
    let pages = render(&world);
    let guide = text_of(&pages, "guide.html");
    says(&guide, &["Of 1 run here none may carry a recommendation"]);
    for (path, said) in [
        ("roadmap.html", "left out, since it has too few samples"),
        ("hypotheses.html", "11 are not measured here"),
    ] {
        says(&text_of(&pages, path), &[said]);
    }
}

#[test]
fn a_large_model_s_run_without_numbers_recommends_nothing() {
    let mut world = of_1b();
    world.runs[0].launches.clear();
    let pages = render(&world);
    let guide = text_of(&pages, "guide.html");
    says(&guide, &["Of 1 run here none may carry a recommendation"]);
    says(&guide, &["left out: none of its cells was measured"]);
    let roadmap = text_of(&pages, "roadmap.html");
    says(&roadmap, &["has a measured cell, so no gap is known"]);
}

#[test]
fn of_the_same_machine_model_and_profile_only_the_broadest_run_speaks() {
    let mut world = two_of_1b("an-older-one");
    let of_older = "id=\"batch-an-older-one\"";
    let pages = render(&world);
    let left_out = "left out: another run of this machine, model and profile has at least as many \
                    measured cells";
    says(&text_of(&pages, "guide.html"), &[left_out]);
    let guide = html_of(&pages, "guide.html");
    assert_eq!(guide.matches("id=\"batch-").count(), 1);
    lacks(guide, &[of_older]);
    // A newer run with few targets is not chosen over one with many.
    world.runs[0].header.plan.targets.truncate(2);
    let guide = html::page(&world, "guide.html");
    assert_eq!(guide.matches("id=\"batch-").count(), 1);
    says(&guide, &[of_older]);
}

#[test]
fn processors_of_one_name_that_differ_in_what_they_can_do_are_two_machines() {
    let mut world = two_of_1b("avx2");
    add_facts(&mut world.runs[1], &[("cpu_flags", "avx avx2 fma")]);
    let guide = html::page(&world, "guide.html");
    says(&guide, &["id=\"batch-avx2\""]);
    assert_eq!(guide.matches("id=\"batch-").count(), 2);
    says(&guide, &["synthetic data, no machine (AVX2), 2 CPUs"]);
}

#[test]
fn work_that_the_broadest_run_lacks_is_taken_from_another_of_its_kind() {
    let mut world = two_of_1b("older");
    without(&mut world.runs[0], &["memory"]);
    let lacking = ["single_request", "concurrent", "long_context"];
    without(&mut world.runs[1], &lacking);
    let guide = html::page(&world, "guide.html");
    says(&guide, &["id=\"little-memory-older\""]);
    assert_eq!(guide.matches("id=\"batch-").count(), 1);
    // Fewer cells don't speak.
    lacks(&guide, &["id=\"batch-older\""]);
}

#[test]
fn the_best_of_the_targets_that_only_another_run_has_stands_beside_the_choice() {
    let mut world = two_of_1b("of-others");
    without(&mut world.runs[1], &["memory", "long_context"]);
    let said = "another run of this place has candle.";
    lacks(&html::words(&world, "guide.html"), &[said]);
    without_engine(&mut world.runs[0], "candle");
    let pages = render(&world);
    says(&html::words_of(&pages, "guide.html"), &[said]);
    let index = html::words_of(&pages, "index.html");
    says(&index, &["in another run : candle."]);
}

#[test]
fn predictions_are_judged_by_interval_and_labelled_with_where() {
    let pages = usual_site();
    let text = text_of(pages, "hypotheses.html");
    let place =
        "synthetic data, no machine (AVX-512, VNNI, AMX), 2 CPUs with Tiny Llama (synthetic)";
    says(&text, &["Of 11 predictions, ", place]);
    lacks(&text, &["by their 95 % intervals"]);
    let link = "scenario/single_request.html#p10";
    says(html_of(pages, "hypotheses.html"), &["✕ refuted", link]);
    let gpu = part(
        &text,
        "Synthetic prediction gpu.",
        "Synthetic prediction never.",
    );
    let open = "The run shown can’t settle it: it ran nothing on cuda.";
    says(gpu, &[open]);
}

#[test]
fn the_roadmap_ranks_gaps_and_says_which_limits_it_lacks() {
    let mut world = usual();
    let small = "With a model this small";
    let words = [
        "Scaling with load",
        "This run recorded no memory bandwidth of its machine.",
        "No kernels were traced",
        small,
        "No limit of this machine was measured in this run",
    ];
    says(&text_of(usual_site(), "roadmap.html"), &words);
    large(&mut world, 0);
    lacks(&page(&world, "roadmap.html"), &[small]);
    world.models.models.clear();
    let unknown = page(&world, "roadmap.html");
    lacks(&unknown, &[small]);
    says(&unknown, &["The size of this run’s model is not known"]);
}

#[test]
fn without_predictions_their_page_and_its_link_are_not_there() {
    let world = world(vec![run("cpu", 5, 5)]);
    let mut input = world.input();
    input.hypotheses = None;
    let pages = site::render(&input).unwrap();
    assert!(!pages.contains_key("hypotheses.html"));
    let index = html_of(&pages, "index.html");
    lacks(index, &["hypotheses.html"]);
    says(index, &["guide.html"]);
}

#[test]
fn memory_is_drawn_against_the_models_sizes_where_one_machine_ran_several() {
    let mut world = with_copy("run-of-1b");
    let path = "scenario/memory.html";
    lacks(&page(&world, path), &["against the model’s size"]);
    large(&mut world, 1);
    for log in &mut world.runs[1].launches {
        for end in &mut log.case_ends {
            end.peak_rss_bytes = end.peak_rss_bytes.map(|bytes| bytes + 1_235_000_000);
        }
    }
    let memory = page(&world, path);
    says(&memory, &["Peak memory against the model’s size"]);
    says(&memory, &["bytes a parameter", "millions: 1236"]);
    // A run on another machine is not counted for this one's growth.
    add_facts(&mut world.runs[1], &[("cpu_model", "another")]);
    lacks(&page(&world, path), &["against the model’s size"]);
}
