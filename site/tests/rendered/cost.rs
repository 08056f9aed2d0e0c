//! What the cost page says of savings, and which columns its tables have.

use crate::common::change::without_engine;
use crate::common::provenance::add_facts;
use crate::common::{World, usual};
use crate::html::{between, html_of, lacks, says, words_of};
use site::fmt::{Unit, joined, with_interval};
use stats::analysis::{Analysis, Cell, Metric, MetricId, Noise};
use stats::cost::saving;

const ID: MetricId = MetricId::OutputTokPerS;

#[test]
fn savings_are_as_uncertain_as_comparisons_of_throughput() {
    let world = usual();
    let mut analyses = world.analyse();
    analyses[0].noise.retain(|noise| noise.metric != ID);
    let page = |analyses: &[Analysis]| {
        let pages = site::render_analysed(&world.input(), analyses).expect("renders");
        words_of(&pages, "cost.html")
    };
    // What each target saves at a load where the baseline delivers most too.
    let savings = |analysis: &Analysis, inflation: f64| -> Vec<String> {
        let baseline = &world.registry.baseline;
        let values = |cell: &Cell| Some(cell.metric(ID)?.by_invocation.clone());
        let of = |cell: &Cell| {
            let base = cell.case_key().cell(baseline);
            let base = values(analysis.cell(&base)?)?;
            let saved = saving(&values(cell)?, &base, inflation)?;
            let (low, high) = saved.ci95?;
            let ci95 = Some((low * 100.0, high * 100.0));
            let percent = saved.value * 100.0;
            Some(joined(with_interval(Unit::Percent, percent, ci95)))
        };
        let cells = analysis.cells.iter();
        let others = cells.filter(|c| c.target != *baseline);
        others.filter_map(of).collect()
    };
    let said = |page: &str, all: &[String]| all.iter().filter(|one| page.contains(*one)).count();

    let (plain, wide) = (savings(&analyses[0], 1.0), savings(&analyses[0], 3.0));
    let before = page(&analyses);
    assert!(said(&before, &plain) > 0, "{before}");
    assert_eq!(said(&before, &wide), 0, "{before}");
    analyses[0].noise.push(Noise {
        metric: ID,
        inflation: 3.0,
        measured: 2,
        pairs: Vec::new(),
    });
    let after = page(&analyses);
    assert!(said(&after, &wide) > 0, "{after}");
    assert_eq!(said(&after, &plain), 0, "{after}");
}

#[test]
fn what_is_not_saved_is_a_multiple_of_the_baseline_s_cost() {
    let world = usual();
    let mut analyses = world.analyse();
    // In each block of each load a quarter of the baseline's tokens.
    let measured = analyses[0].clone();
    for cell in &mut analyses[0].cells {
        let key = cell.case_key().cell(&world.registry.baseline);
        let base = measured.cell(&key).and_then(|base| base.metric(ID));
        let Some(base) = base.filter(|_| cell.target == "candle.cpu.f32") else {
            continue;
        };
        let blocks = base.by_invocation.iter().map(|value| value / 4.0);
        let quarter = Metric::of(ID, base.value / 4.0, blocks.collect());
        cell.metrics.retain(|metric| metric.id != ID);
        cell.metrics.push(quarter);
    }
    let pages = site::render_analysed(&world.input(), &analyses).expect("renders");
    let words = words_of(&pages, "cost.html");
    says(&words, &["costs 4.00"]);
    lacks(&words, &["−300"]);
}

/// The page of costs of a world with these analyses.
fn page(world: &World, analyses: &[Analysis]) -> String {
    let pages = site::render_analysed(&world.input(), analyses).expect("renders");
    html_of(&pages, "cost.html").to_owned()
}

/// The columns of the first table of costs that are shown, and those that wait for a price.
fn columns(page: &str) -> (Vec<&str>, Vec<&str>) {
    let heads = between(page, "<table class=\"costs\">", "</thead>");
    let mut all = Vec::new();
    for head in heads.split("<th ").skip(1) {
        let tag = head.split('>').next().unwrap_or_default();
        all.push((between(head, ">", "</th>"), tag.contains("empty")));
    }
    let of = |waits: bool| {
        let some = all.iter().filter(|(_, is_waiting)| *is_waiting == waits);
        some.map(|(name, _)| *name).collect::<Vec<&str>>()
    };
    (of(false), of(true))
}

#[test]
fn a_column_without_a_value_waits_for_a_price_and_a_field_without_a_use_is_left_out() {
    let (cost, api) = ("$ per M output tokens", "Cheaper than the API when busy");
    let (joules, energy) = ("Output tokens a joule", "Energy, $ per M output tokens");
    let field = "name=\"kwh\"";
    let mut world = usual();
    let priced = page(&world, &world.analyse());
    let (shown, waiting) = columns(&priced);
    assert!(shown.contains(&cost) && shown.contains(&api), "{shown:?}");
    assert!(waiting.is_empty(), "{waiting:?}");
    lacks(&priced, &[field, energy, joules]);

    add_facts(&mut world.runs[0], &[("cpu_model", "another machine")]);
    let mut analyses = world.analyse();
    let unpriced = page(&world, &analyses);
    let (shown, waiting) = columns(&unpriced);
    assert_eq!(waiting, [cost, api]);
    assert!(shown.contains(&"Saved against the baseline"), "{shown:?}");
    // The cells wait too.
    says(&unpriced, &["<td class=\"num empty\" data-k=\"cost\""]);
    lacks(&unpriced, &["<td class=\"num\" data-k=\"cost\""]);
    lacks(&unpriced, &[field, energy, joules]);

    for cell in &mut analyses[0].cells {
        let read = Metric::of(MetricId::CpuEnergyPerTokenJ, 0.5, vec![0.5; 5]);
        cell.metrics.push(read);
    }
    let read = page(&world, &analyses);
    let (shown, _) = columns(&read);
    assert!(
        shown.contains(&energy) && shown.contains(&joules),
        "{shown:?}"
    );
    says(&read, &[field]);
}

#[test]
fn a_load_that_all_targets_have_stands_in_the_caption() {
    let mut world = usual();
    let only_one_load = |world: &World| {
        let mut analyses = world.analyse();
        for cell in &mut analyses[0].cells {
            if (cell.scenario.as_str(), cell.case.as_str()) != ("sustained", "c4") {
                cell.metrics.retain(|metric| metric.id != ID);
            }
        }
        page(world, &analyses)
    };
    let caption = "sustained load, 4 in flight, for all";
    // Burn has no number in that scenario.
    let differs = only_one_load(&world);
    assert!(columns(&differs).0.contains(&"Load"));
    lacks(&differs, &[caption]);
    without_engine(&mut world.runs[0], "burn");
    let common = only_one_load(&world);
    assert!(!columns(&common).0.contains(&"Load"));
    says(&common, &[caption]);
}
