//! What stands beside the guide's choices, and on the index, so that nobody takes a number for more
//! than it says: how a target was measured, and what other cells and runs know of it.

use crate::common::{World, add_variants, usual};
use crate::html::{checked, page, text_of, words};
use crate::several::{large, with_copy, without};
use schema::budget::{Budget, OverBudget};
use schema::maturity::{Fact, Topic};
use schema::plan::Case;
use schema::record::Ready;
use serde_json::Value;
use site::fmt::{Unit, joined, metric, quantity};
use site::page::guide;
use site::view::Shown;
use stats::analysis::{Analysis, Cell, MetricId};

/// The usual run, of a large model, so that choices rest on it.
fn of_1b() -> World {
    let mut world = usual();
    large(&mut world, 0);
    world
}

/// What the world's launches report of their engines.
fn reports(world: &mut World) -> impl Iterator<Item = &mut Ready> {
    let launches = world.runs[0].launches.iter_mut();
    launches.flat_map(|log| &mut log.ready)
}

/// The guide's articles, each from its choice on.
fn articles(guide: &str) -> Vec<String> {
    let text = guide.split_whitespace().collect::<Vec<_>>().join(" ");
    let articles = text.split(" Take ").skip(1);
    articles.map(str::to_owned).collect()
}

/// A run of a large model without Candle, and another run of its place that has Candle, in three
/// scenarios.
fn without_candle() -> World {
    let mut world = with_copy("of-others");
    large(&mut world, 0);
    large(&mut world, 1);
    without(&mut world.runs[1], "memory");
    without(&mut world.runs[1], "long_context");
    let planned = &mut world.runs[0].header.plan.targets;
    planned.retain(|target| target.engine != "candle");
    world
}

/// The only recommendation for a kind of work.
fn advice(world: &World, analyses: &[Analysis], anchor: &str) -> Value {
    let input = world.input();
    let runs = world.runs.iter().zip(analyses);
    let shown: Vec<Shown> = runs
        .map(|(run, analysis)| Shown::new(&input, run, analysis))
        .collect();
    let page = serde_json::to_value(guide::page(&input, &shown)).unwrap();
    let mut works = page["workloads"].as_array().unwrap().iter();
    let work = works.find(|work| work["anchor"] == anchor).unwrap();
    let all = work["recommendations"].as_array().unwrap();
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
    let said = "fix of ours";
    assert!(!words(&world, "guide.html").contains(said));
    assert!(!words(&world, "index.html").contains(said));
    for ready in reports(&mut world) {
        ready.notes.push("mended: it forgets a factor".into());
    }
    let pages = checked(&world);
    let articles = articles(&text_of(&pages, "guide.html"));
    assert!(!articles.is_empty());
    for article in articles {
        let engine = article.split('.').next().unwrap();
        let first = format!(
            "⚠ Measured with a fix of ours, which {engine} (synthetic) lacks: it forgets a factor. On "
        );
        assert!(article.contains(&first), "{article}");
        assert!(
            !article.contains("declares: mended"),
            "it stands there once"
        );
    }
    let index = text_of(&pages, "index.html");
    assert!(index.contains("⚠ measured with a fix of ours, which "));
    let lead = "Measured with a fix of ours, which the engine itself lacks: ";
    assert!(index.contains(lead), "{index}");
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
    for ready in reports(&mut world) {
        ready.batching = "static_equal_length".into();
    }
    let how = "static batches of queued requests of equal length";
    let measured = format!(
        "Measured through an adapter of this project’s, not through a server. Requests that came together: {how}."
    );
    let offered = format!("batching: continuous (synthetic) (measured here: {how})");
    let of = |world: &World| articles(&text_of(&checked(world), "guide.html"));
    for article in of(&world) {
        assert!(article.contains(&measured), "{article}");
        assert!(article.contains(&offered), "{article}");
    }
    for engine in &mut world.registry.engines {
        engine.test_server = Some(engine.build.clone());
    }
    for article in of(&world) {
        assert!(!article.contains("not through a server"), "a client's is");
    }
}

#[test]
fn the_index_says_who_is_taken_among_tied_targets() {
    let index = words(&of_1b(), "index.html");
    let said = "Among tied targets the smallest to ship is taken, in each column";
    assert!(index.contains(said), "{index}");
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
    assert!(said.contains(formula), "{said}");
    let of_choice = estimate(single(&mut analyses[0], &choice));
    assert!(
        said.contains(&format!("256 tokens: {choice} {of_choice} and ")),
        "{said}"
    );
    assert!(
        said.ends_with(" The order is that by end-to-end latency."),
        "{said}"
    );
    assert_eq!(of_work(&analyses, "many-users")["longer"]["words"], "");

    // Longer gaps at the same end-to-end latency: the choice stays, but the order changes.
    let gaps = &mut single(&mut analyses[0], &choice).metrics;
    let gap = gaps.iter_mut().find(|m| m.id == MetricId::TpotNs);
    gap.unwrap().value *= 10.0;
    let after = of_work(&analyses, "interactive");
    assert_eq!(after["choice"], *choice);
    let said = after["longer"]["words"].as_str().unwrap();
    let other = format!(" The order by end-to-end latency is another: {choice} and ");
    assert!(said.contains(&other), "{said}");

    let index = words(&world, "index.html");
    let short = format!("256 tokens, estimated: {of_choice}");
    assert!(index.contains(&short), "{index}");
    assert!(index.contains("“256 tokens, estimated” is computed and not measured: "));
}

#[test]
fn the_estimate_of_another_run_s_target_stands_beside_that_of_the_choice_there() {
    let world = without_candle();
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
    assert!(said.contains(&there), "{said}");
}

#[test]
fn a_larger_size_that_only_another_run_has_stands_beside_the_choice() {
    let mut world = with_copy("of-others");
    large(&mut world, 0);
    large(&mut world, 1);
    without(&mut world.runs[1], "memory");
    without(&mut world.runs[1], "long_context");
    let many_users = |world: &World| advice(world, &world.analyse(), "many-users");
    assert_eq!(many_users(&world)["larger"]["words"], "");
    let left_out = "left out: another run of this machine, model and profile";
    assert!(words(&world, "guide.html").contains(left_out));

    let over = |target: &str| OverBudget {
        target: target.into(),
        scenario: "concurrent".into(),
        case: "u8".into(),
        estimate_s: 1.0,
        reason: "no time".into(),
    };
    let planned = world.runs[0].header.plan.targets.iter();
    let over = planned.map(|target| over(&target.id)).collect();
    world.runs[0].budget = Some(Budget {
        over,
        ..Budget::default()
    });
    let advice = many_users(&world);
    let larger = &advice["larger"];
    assert!(advice["case"].as_str().unwrap().contains(", 4 users, "));
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
    assert!(said.contains("× ["), "{said}");

    let guide = words(&world, "guide.html");
    let best = &measured[0].1;
    let at = format!("At 8 users, in another run : {best} (");
    assert!(guide.contains(&at), "{guide}");
    assert!(guide.contains("no recommendation rests on it; its numbers stand beside some"));
    assert!(!guide.contains(left_out), "{guide}");
    let index = words(&world, "index.html");
    let at = format!("at 8 users, in another run : {best} (");
    assert!(index.contains(&at), "{index}");
}

#[test]
fn where_memory_decides_a_peak_of_fewer_bits_stands_beside_the_choice() {
    let missing = "Weights of fewer bits were not measured in this scenario.";
    let mut world = with_copy("of-4-bits");
    large(&mut world, 0);
    large(&mut world, 1);
    assert!(
        !words(&world, "guide.html").contains(missing),
        "there are none"
    );
    let engine = &mut world.registry.engines[0];
    let mut small = engine.targets[0].clone();
    small.precision = "q4_k_m".into();
    engine.targets.push(small);
    let unknown = advice(&world, &world.analyse(), "little-memory");
    assert_eq!(unknown["fewer_bits"]["words"], "");
    assert!(words(&world, "guide.html").contains(missing));

    // The other run has such weights, but no number of the scenario.
    let all = world.runs[0].clone();
    add_variants(&mut world.runs[1], &all, "small");
    without(&mut world.runs[1], "memory");
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
    let index = words(&world, "index.html");
    assert!(index.contains(&expected), "{index}");
}

#[test]
fn an_engine_that_is_no_more_released_or_slow_says_so_where_it_needs_little_memory() {
    let mut world = of_1b();
    // PyTorch's weights are the largest, so it is never the choice.
    for engine in &mut world.registry.engines {
        engine.in_rust = engine.id == "pytorch";
    }
    let dossier = &mut world.maturity.engines[0];
    dossier.id = "pytorch".into();
    let stale =
        "no stable release in the year before 2026-01-02: the newest is 0.11.1 of 2026-01-01";
    assert!(!words(&world, "index.html").contains(stale));
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
    let more = found["in_rust"]["more"].as_array().unwrap();
    assert!(more.contains(&Value::from(speed)), "{more:?}");
    assert!(more.contains(&Value::from(stale)), "{more:?}");
    let fast = advice(&world, &analyses, "batch");
    let more = fast["in_rust"]["more"].to_string();
    assert!(!more.contains("output throughput there"), "{more}");
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
    let facts = &mut copy.header.provenance.facts;
    facts.insert("cpu_model".into(), "another".into());
    world.runs.push(copy);
    let both = "Cost, or output tokens an hour (of these more is cheaper)";
    assert!(has(&world, both));
    world.prices = None;
    assert!(has(&world, "Output tokens a core-hour (more is cheaper)"));
}
