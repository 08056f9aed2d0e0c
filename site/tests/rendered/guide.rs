//! What stands beside the guide's choices, and on the index, so that nobody takes a number for more
//! than it says: how a target was measured, and what other cells and runs know of it.

use crate::advice::of_anchor;
use crate::common::change::{in_rust, no_time, of_1b, reports, two_of_1b, without, without_engine};
use crate::common::provenance::add_facts;
use crate::common::{World, add_variants, render};
use crate::html::{Pages, checked, lacks, page, says, words, words_of};
use schema::key::CellKey;
use schema::maturity::{Fact, Topic};
use schema::plan::Case;
use schema::run::Run;
use serde_json::Value;
use site::fmt::{Unit, joined, metric, quantity};
use site::page::guide;
use site::view::Shown;
use stats::analysis::{Analysis, Cell, MetricId};

/// The guide's articles, each from its choice on.
fn articles(pages: &Pages) -> Vec<String> {
    let text = words_of(pages, "guide.html");
    let articles = text.split(" Take ").skip(1);
    articles.map(str::to_owned).collect()
}

/// The only recommendation for a kind of work.
fn advice(world: &World, analyses: &[Analysis], anchor: &str) -> Value {
    let input = world.input();
    let runs = world.runs.iter().zip(analyses);
    let shown: Vec<Shown> = runs
        .map(|(run, analysis)| Shown::new(&input, run, analysis))
        .collect();
    let page = serde_json::to_value(guide::page(&input, &shown)).unwrap();
    let all = of_anchor(&page, anchor);
    assert_eq!(all.len(), 1, "{anchor}");
    all[0].clone()
}

/// The cell of a target at the size of single requests that the guide decides by.
fn single<'c>(analysis: &'c mut Analysis, target: &str) -> &'c mut Cell {
    let at = |c: &&mut Cell| c.scenario == "single_request" && c.case == "p200";
    let mut cells = analysis.cells.iter_mut().filter(at);
    cells.find(|cell| cell.target == target).unwrap()
}

/// The time of an answer of 256 tokens, by the formula that the guide prints.
fn estimate(cell: &Cell) -> String {
    let mean = |id| cell.metric(id).unwrap().value;
    let ns = mean(MetricId::TtftNs) + 255.0 * mean(MetricId::TpotNs);
    quantity(Unit::Ns, ns)
}

#[test]
fn a_defect_that_an_adapter_mends_stands_first_and_on_the_index() {
    let mut world = of_1b();
    let without_defect = render(&world);
    for path in ["guide.html", "index.html"] {
        lacks(&words_of(&without_defect, path), &["fix of ours"]);
    }
    for ready in reports(&mut world.runs[0]) {
        ready.notes.push("mended: it forgets a factor".into());
    }
    let pages = checked(&world);
    let articles = articles(&pages);
    assert!(!articles.is_empty());
    for article in articles {
        let engine = article.split('.').next().unwrap();
        let first = format!(
            "⚠ Measured with a fix of ours, which {engine} (synthetic) lacks: it forgets a factor. On "
        );
        says(&article, &[&first]);
        // It stands there once.
        lacks(&article, &["declares: mended"]);
    }
    let index = words_of(&pages, "index.html");
    says(&index, &["⚠ measured with a fix of ours, which "]);
    let lead = "Measured with a fix of ours, which the engine itself lacks: ";
    says(&index, &[lead]);
}

#[test]
fn a_choice_says_that_an_adapter_and_no_server_was_measured() {
    let mut world = of_1b();
    let facts = &mut world.maturity.engines[0].facts;
    facts.push(Fact {
        topic: Topic::Batching,
        short: "continuous (synthetic)".into(),
        ..facts[0].clone()
    });
    let known = world.maturity.engines.remove(0);
    for engine in &world.registry.engines {
        let mut dossier = known.clone();
        dossier.id = engine.id.clone();
        world.maturity.engines.push(dossier);
    }
    for ready in reports(&mut world.runs[0]) {
        ready.batching = "static_equal_length".into();
    }
    let how = "static batches of queued requests of equal length";
    let measured = format!(
        "Measured through an adapter of this project’s, not through a server. Requests that came together: {how}."
    );
    let offered = format!("batching: continuous (synthetic) (measured here: {how})");
    for article in articles(&checked(&world)) {
        says(&article, &[&measured, &offered]);
    }
    for engine in &mut world.registry.engines {
        engine.test_server = Some(engine.build.clone());
    }
    // A client that was measured asked a server.
    for article in articles(&checked(&world)) {
        lacks(&article, &["not through a server"]);
    }
}

#[test]
fn the_index_says_who_is_taken_among_tied_targets() {
    let said = "Among tied targets the smallest to ship is taken, in each column";
    says(&words(&of_1b(), "index.html"), &[said]);
}

#[test]
fn longer_answers_are_estimated_from_their_cell_and_may_come_in_another_order() {
    let world = of_1b();
    let mut analyses = world.analyse();
    let of_work = |analyses: &[Analysis], work| advice(&world, analyses, work);
    let before = of_work(&analyses, "interactive");
    let choice = before["choice"].as_str().unwrap().to_owned();
    let candidates = before["candidates"].as_array().unwrap();
    assert!(candidates.len() > 2);
    for candidate in candidates {
        let target = candidate["target"].as_str().unwrap();
        let cell = single(&mut analyses[0], target);
        assert_eq!(candidate["longer"], *estimate(cell), "{target}");
    }
    let said = before["longer"]["words"].as_str().unwrap();
    let formula = "time to first token + 255 × time per output token";
    let of_choice = estimate(single(&mut analyses[0], &choice));
    let longer = format!("256 tokens: {choice} {of_choice} and ");
    says(said, &[formula, &longer]);
    let order = " The order is that by end-to-end latency.";
    assert!(said.ends_with(order), "{said}");
    assert_eq!(of_work(&analyses, "many-users")["longer"]["words"], "");

    // Longer gaps at the same end-to-end latency: the choice stays, but the order changes.
    let gaps = &mut single(&mut analyses[0], &choice).metrics;
    let gap = gaps.iter_mut().find(|m| m.id == MetricId::TpotNs);
    gap.unwrap().value *= 10.0;
    let after = of_work(&analyses, "interactive");
    assert_eq!(after["choice"], *choice);
    let said = after["longer"]["words"].as_str().unwrap();
    let other = format!(" The order by end-to-end latency is another: {choice} and ");
    says(said, &[&other]);

    let short = format!("256 tokens, estimated: {of_choice}");
    let how = "“256 tokens, estimated” is computed and not measured: ";
    says(&words(&world, "index.html"), &[&short, how]);
}

#[test]
fn the_estimate_of_another_run_s_target_stands_beside_that_of_the_choice_there() {
    let mut world = two_of_1b("of-others");
    without_engine(&mut world.runs[0], "candle");
    without(&mut world.runs[1], &["memory", "long_context"]);
    let mut analyses = world.analyse();
    let advice = advice(&world, &analyses, "interactive");
    let choice = advice["choice"].as_str().unwrap();
    let words = advice["elsewhere"]["words"].as_str().unwrap();
    let target = words.split(' ').next().unwrap();
    assert!(target.starts_with("candle."), "{words}");
    let of_target = estimate(single(&mut analyses[1], target));
    let of_choice = estimate(single(&mut analyses[1], choice));
    let said = advice["longer"]["words"].as_str().unwrap();
    let there = format!(" In other runs: {target} {of_target}, beside {choice} with {of_choice}");
    says(said, &[&there]);
}

/// Leave out the cells of eight users.
fn without_eight_users(run: &mut Run) {
    let planned = run.header.plan.targets.iter();
    let of_eight = planned.map(|target| CellKey::new(&target.id, "concurrent", "u8"));
    let of_eight: Vec<CellKey> = of_eight.collect();
    no_time(run, of_eight);
}

#[test]
fn a_larger_size_that_only_another_run_has_stands_beside_the_choice() {
    let mut world = two_of_1b("of-others");
    without(&mut world.runs[1], &["memory", "long_context"]);
    let many_users = |world: &World| advice(world, &world.analyse(), "many-users");
    assert_eq!(many_users(&world)["larger"]["words"], "");
    let left_out = "left out: another run of this machine, model and profile";
    says(&words(&world, "guide.html"), &[left_out]);

    without_eight_users(&mut world.runs[0]);
    let advice = many_users(&world);
    let larger = &advice["larger"];
    says(advice["case"].as_str().unwrap(), &[", 4 users, "]);
    assert_eq!(larger["size"], "8 users");
    assert_eq!(larger["run_path"], "run/of-others.html");
    let analyses = world.analyse();
    let cells = analyses[1].cells.iter();
    let cells = cells.filter(|c| c.scenario == "concurrent" && c.case == "u8");
    let of = |cell: &Cell| Some((cell.metric(MetricId::E2eNs)?.value, cell.target.clone()));
    let mut measured: Vec<(f64, String)> = cells.filter_map(of).collect();
    measured.sort_by(|a, b| a.0.total_cmp(&b.0));
    let said = larger["words"].as_str().unwrap();
    let named = measured.iter().map(|(_, target)| format!("{target} ("));
    let places: Vec<_> = named.map(|target| said.find(&target)).collect();
    // The best four, in their order.
    assert!(places.len() > 4 && places[0] == Some(0), "{said}");
    assert!(places[..4].is_sorted() && places[3].is_some(), "{said}");
    assert!(places[4..].iter().all(Option::is_none), "{said}");
    says(said, &["× ["]);

    let pages = render(&world);
    let guide = words_of(&pages, "guide.html");
    let best = &measured[0].1;
    let at = format!("At 8 users, in another run : {best} (");
    let beside = "no recommendation rests on it; its numbers stand beside some";
    says(&guide, &[&at, beside]);
    lacks(&guide, &[left_out]);
    let at = format!("at 8 users, in another run : {best} (");
    says(&words_of(&pages, "index.html"), &[&at]);
}

#[test]
fn batches_that_were_not_full_are_named_beside_their_values() {
    let mut world = two_of_1b("of-others");
    without(&mut world.runs[1], &["memory", "long_context"]);
    without_eight_users(&mut world.runs[0]);
    let many_users = |world: &World| advice(world, &world.analyse(), "many-users");
    let full = many_users(&world);
    let choice = full["choice"].as_str().unwrap();
    let largest = full["larger"]["words"].as_str().unwrap();
    let leader = largest.split(' ').next().unwrap();
    lacks(
        &full.to_string(),
        &["on average in a batch", "Its batches had"],
    );

    // A third of the requests, so that the median batch is still full.
    for (run, target, case, batch) in [(0, choice, "u4", 1), (1, leader, "u8", 2)] {
        let logs = world.runs[run].launches.iter_mut();
        let logs = logs.filter(|log| log.launch.target == target);
        let requests = logs.flat_map(|log| &mut log.requests);
        let of_case = requests.filter(|request| request.case == case && request.id % 3 == 0);
        of_case.for_each(|request| request.batch = batch);
    }
    let small = many_users(&world);
    let said = small["larger"]["words"].as_str().unwrap();
    let named = format!("; of the 8 in flight, on average in a batch: {leader} ");
    let mean = between(said, &named, ", so these can be faster");
    assert!((5.5..6.5).contains(&mean), "{mean}");
    let watched = small["watch"].to_string();
    let mean = between(&watched, "Its batches had ", " of the 4 requests in flight");
    assert!((2.7..3.3).contains(&mean), "{mean}");
}

/// The number between two texts.
fn between(text: &str, before: &str, after: &str) -> f64 {
    says(text, &[before, after]);
    let rest = text.split(before).nth(1).unwrap();
    rest.split(after).next().unwrap().parse().unwrap()
}

#[test]
fn where_memory_decides_a_peak_of_fewer_bits_stands_beside_the_choice() {
    let missing = "Weights of fewer bits were not measured in this scenario.";
    let mut world = two_of_1b("of-4-bits");
    lacks(&words(&world, "guide.html"), &[missing]);
    let engine = &mut world.registry.engines[0];
    let mut small = engine.targets[0].clone();
    small.precision = "q4_k_m".into();
    engine.targets.push(small);
    let unknown = advice(&world, &world.analyse(), "little-memory");
    assert_eq!(unknown["fewer_bits"]["words"], "");
    says(&words(&world, "guide.html"), &[missing]);

    // The other run has such weights, but no number of the scenario.
    let all = world.runs[0].clone();
    add_variants(&mut world.runs[1], &all, "small");
    without(&mut world.runs[1], &["memory"]);
    for target in &mut world.runs[1].header.plan.targets {
        if target.id.contains("+small") {
            target.precision = "q4_k_m".into();
        }
    }
    for run in &mut world.runs {
        run.header.plan.one_process = true;
    }
    const POSITIONS: u32 = 300;
    for record in world.runs[1].verify.values_mut() {
        record.verified_positions = Some(POSITIONS);
    }
    let analyses = world.analyse();
    let found = advice(&world, &analyses, "little-memory");
    let choice = found["choice"].as_str().unwrap();
    // The smallest load has the shortest prompts.
    let peak = |run: usize, is_meant: &dyn Fn(&str) -> bool| {
        let cells = analyses[run].cells.iter();
        let cells = cells.filter(|c| c.scenario == "single_request" && c.case == "p10");
        let cells = cells.filter(|c| is_meant(&c.target));
        let of = |cell: &Cell| {
            let peak = cell.metric(MetricId::PeakRssBytes)?;
            let weights = metric(cell.metric(MetricId::WeightBytes)?).0;
            let said = format!("{} ({weights} of weights)", joined(metric(peak)));
            Some((peak.value, cell.target.clone(), said))
        };
        let least = cells.filter_map(of).min_by(|a, b| a.0.total_cmp(&b.0));
        least.unwrap()
    };
    let (_, target, there) = peak(1, &|target: &str| target.contains("+small"));
    let (_, _, here) = peak(0, &|target: &str| target == choice);
    // The other run is verified for less than its longest context, and loads for no more.
    let loaded = |run: usize, most: u32| {
        let plan = &world.runs[run].header.plan;
        let cases = plan.scenarios.iter().filter(|s| s.may_share_process());
        let cases = cases.flat_map(|s| &s.cases);
        let size = |case: &Case| (case.concurrency, case.prompt_tokens + case.new_tokens);
        let sizes: Vec<_> = cases
            .map(size)
            .filter(|(_, tokens)| *tokens <= most)
            .collect();
        let sequences = sizes.iter().map(|(sequences, _)| sequences).max().unwrap();
        let tokens = sizes.iter().map(|(_, tokens)| tokens).max().unwrap();
        format!("loaded for up to {sequences} sequences of {tokens} tokens")
    };
    let (of_choice, of_small) = (loaded(0, u32::MAX), loaded(1, POSITIONS));
    assert_ne!(of_choice, of_small);
    let expected = format!(
        "{target} had a peak of {there} after loading in single request, 10 prompt tokens, {of_small}; {choice} had {here} in the run of this choice, {of_choice}, and no test compares two runs"
    );
    assert_eq!(found["fewer_bits"]["words"], *expected);
    assert_eq!(found["fewer_bits"]["run_path"], "run/of-4-bits.html");
    says(&words(&world, "index.html"), &[&expected]);
}

#[test]
fn an_engine_that_is_no_more_released_or_slow_says_so_where_it_needs_little_memory() {
    let mut world = of_1b();
    // PyTorch's weights are the largest, so it is never the choice.
    in_rust(&mut world, |id| id == "pytorch");
    world.maturity.engines[0].id = "pytorch".into();
    let stale =
        "no stable release in the year before 2026-01-02: the newest is 0.11.1 of 2026-01-01";
    lacks(&words(&world, "index.html"), &[stale]);
    world.maturity.engines[0].releases_last_year = 0;
    let analyses = world.analyse();
    let found = advice(&world, &analyses, "little-memory");
    let throughput = |target: &Value| {
        let mut cells = analyses[0].cells.iter();
        let cell = cells.find(|c| c.scenario == "memory" && c.case == "b1" && *target == *c.target);
        metric(cell.unwrap().metric(MetricId::OutputTokPerS).unwrap()).0
    };
    let of_choice = &found["choice"];
    let speed = format!(
        "output throughput there {}, of {} {}",
        throughput(&found["in_rust"]["choice"]),
        of_choice.as_str().unwrap(),
        throughput(of_choice)
    );
    let more = found["in_rust"]["more"].as_array().unwrap().iter();
    let more: Vec<String> = more
        .map(|caveat| match (&caveat["brief"], &caveat["rest"]) {
            (Value::String(brief), Value::String(rest)) if rest.is_empty() => brief.clone(),
            (Value::String(brief), Value::String(rest)) => format!("{brief}: {rest}"),
            _ => panic!("{caveat}"),
        })
        .collect();
    assert!(more.contains(&speed), "{more:?}");
    assert!(more.contains(&stale.to_owned()), "{more:?}");
    let fast = advice(&world, &analyses, "batch");
    let more = fast["in_rust"]["more"].to_string();
    lacks(&more, &["output throughput there"]);
}

#[test]
fn a_cold_start_is_that_of_a_fresh_process_where_there_is_one_and_names_its_case() {
    let cold_start = |world: &World, (scenario, case): (&str, &str)| {
        let analyses = world.analyse();
        let found = advice(world, &analyses, "interactive");
        let key = CellKey::new(found["choice"].as_str().unwrap(), scenario, case);
        let cell = analyses[0].cell(&key).unwrap();
        let value = joined(metric(cell.metric(MetricId::ColdStartNs).unwrap()));
        (found["costs"].to_string(), value)
    };
    let mut world = of_1b();
    let (costs, value) = cold_start(&world, ("memory", "b1"));
    let said = format!("[\"Cold start (in memory, batch 1)\",\"{value}\"]");
    says(&costs, &[&said]);
    assert_eq!(costs.matches("Cold start").count(), 1, "{costs}");
    without(&mut world.runs[0], &["memory"]);
    let (costs, other) = cold_start(&world, ("single_request", "p200"));
    let said = format!("[\"Cold start (in single request, 200 prompt tokens)\",\"{other}\"]");
    says(&costs, &[&said]);
}

#[test]
fn the_heading_of_costs_says_which_way_is_cheaper() {
    let has = |world: &World, heading: &str| {
        let cell = format!("<th scope=\"col\">{heading}</th></tr></thead>");
        page(world, "index.html").contains(&cell)
    };
    let mut world = of_1b();
    assert!(has(&world, "Cost"));
    // A second place, whose machine has no price.
    let mut copy = world.runs[0].clone();
    copy.header.id = "of-another".into();
    add_facts(&mut copy, &[("cpu_model", "another")]);
    world.runs.push(copy);
    let both = "Cost, or output tokens an hour (of these more is cheaper)";
    assert!(has(&world, both));
    world.prices = None;
    assert!(has(&world, "Output tokens a core-hour (more is cheaper)"));
}
