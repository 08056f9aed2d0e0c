//! What the cost page says of savings.

use crate::common::usual;
use crate::html::text_of;
use site::fmt::{Unit, joined, with_interval};
use stats::analysis::{Analysis, Cell, MetricId, Noise};
use stats::cost::saving;

const ID: MetricId = MetricId::OutputTokPerS;

#[test]
fn savings_are_as_uncertain_as_comparisons_of_throughput() {
    let world = usual();
    let mut analyses = world.analyse();
    analyses[0].noise.retain(|noise| noise.metric != ID);
    let page = |analyses: &[Analysis]| {
        let pages = site::render_analysed(&world.input(), analyses).expect("renders");
        text_of(&pages, "cost.html")
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
