//! The methodology page: an authored text, the definition of every metric from the program that
//! computes it, the stories that trained models write, and how the statistics fared on data of
//! known truth. And the changelog of it.

mod adapters;

use crate::authored::{CHANGELOG, METHODOLOGY};
use crate::page::scenario::{MetricWords, words};
use crate::view::frame::Frame;
use crate::view::{paths, place};
use crate::{Input, fmt, markdown};
use schema::simulation::{PercentileRow, PowerRow, ShapeRow, Simulation, SimulationRow, UntilRow};
use schema::train::{Shipped, Written};
use serde::Serialize;
use stats::analysis::MetricId;

/// The methodology page.
#[derive(Serialize)]
pub struct MethodologyPage {
    frame: Frame,
    text: String,
    metrics: Vec<MetricWords>,
    limits: Vec<LimitRow>,
    simulation: Option<SimulationView>,
    adapters: Option<adapters::Table>,
    storytellers: Vec<TrainedModelView>,
}

#[derive(Serialize)]
struct LimitRow {
    precision: String,
    kl: String,
    tie: String,
    reason: String,
}

/// Make the methodology page.
pub fn page(input: &Input) -> MethodologyPage {
    MethodologyPage {
        frame: place::frame(
            input,
            paths::METHODOLOGY,
            "Methodology",
            "What is measured, how, and what was rejected.",
        ),
        text: markdown::render(METHODOLOGY.text(input.authored), 2),
        metrics: MetricId::ALL.into_iter().map(words).collect(),
        limits: input
            .parity
            .iter()
            .flat_map(|limits| &limits.precision)
            .map(|(precision, limit)| LimitRow {
                precision: precision.clone(),
                kl: format!("{:e}", limit.kl_nats_max),
                tie: format!("{}", limit.tie_width_nats),
                reason: limit.reason.clone(),
            })
            .collect(),
        simulation: input.simulation.map(trial),
        adapters: input
            .adapters
            .map(|costs| adapters::table(costs, input.registry)),
        storytellers: input.shipped.iter().map(storyteller).collect(),
    }
}

/// A model that was trained here, described, with the stories that it wrote.
#[derive(Serialize)]
pub struct TrainedModelView {
    model: String,
    about: String,
    command: String,
    found: String,
    stories: Vec<Written>,
}

/// Describe a trained model, and list its stories.
pub fn storyteller(shipped: &Shipped) -> TrainedModelView {
    let training = &shipped.training;
    let about = format!(
        "{}: {} steps, {} tokens, on Burn’s {} backend. Over {} tokens of stories that it never saw \
         its perplexity is {:.3}.",
        training.model,
        fmt::count(training.steps as u64),
        fmt::count(training.tokens),
        training.backend,
        fmt::count(training.perplexity_tokens),
        training.perplexity
    );
    let stories = shipped.stories.as_ref();
    let found = stories.map(|stories| {
        format!(
            "Given the first sentence of a story that it never saw, it wrote these ({}, greedy). {} of {} \
             end by themselves and could have come from the grammar that it learned from.",
            stories.reference,
            stories.whole(),
            stories.stories.len()
        )
    });
    TrainedModelView {
        model: training.model.clone(),
        about,
        command: training.command.clone(),
        found: found.unwrap_or_default(),
        stories: stories.map_or_else(Vec::new, |stories| stories.stories.clone()),
    }
}

/// The results of the simulation: a description and tables.
#[derive(Serialize)]
pub struct SimulationView {
    about: String,
    experiments: String,
    difference: String,
    rows: Vec<Row>,
    power: Vec<Vec<String>>,
    shapes_difference: String,
    shapes: Vec<Vec<String>>,
    until: Vec<Vec<String>>,
    /// How to read the rows with A/A pairs; `None` where there are none.
    until_reading: Option<String>,
    percentiles: Vec<Vec<String>>,
    /// How to read `percentiles`; `None` without a slow launch.
    percentiles_reading: Option<String>,
    percentiles_icc: String,
}

#[derive(Serialize)]
struct Row {
    size: String,
    profiles: String,
    icc: String,
    coverage: String,
    false_positive_test: String,
    false_positive: String,
}

/// Describe the simulation, and list its results.
pub fn trial(simulation: &Simulation) -> SimulationView {
    SimulationView {
        about: about(simulation),
        experiments: fmt::count(u64::from(simulation.experiments)),
        difference: fmt::percent(simulation.difference),
        rows: simulation.rows.iter().filter_map(row).collect(),
        power: simulation.power.iter().map(power).collect(),
        shapes_difference: fmt::percent(simulation.shapes_difference),
        shapes: simulation.shapes.iter().map(shape).collect(),
        until: simulation.until.iter().map(until).collect(),
        until_reading: until_reading(&simulation.until),
        percentiles: simulation.percentiles.iter().map(percentile).collect(),
        percentiles_reading: percentiles_reading(&simulation.percentiles),
        percentiles_icc: simulation.percentiles_icc.to_string(),
    }
}

/// Return the smallest and the largest of some shares in words; `None` of none.
fn range(shares: impl Iterator<Item = f64> + Clone) -> Option<String> {
    let least = fmt::percent(shares.clone().reduce(f64::min)?);
    let most = fmt::percent(shares.reduce(f64::max)?);
    Some(match least == most {
        true => least,
        false => format!("{least} to {most}"),
    })
}

fn until_reading(rows: &[UntilRow]) -> Option<String> {
    let named = |row: &&UntilRow| row.pairs.is_some_and(|own| own > 0.0);
    let named = || rows.iter().filter(named).map(|row| row.found);
    let wrong = named().filter_map(|found| found.false_positive);
    Some(format!(
        "Six A/A pairs know only roughly how large the factors are that names have of their own: \
         the intervals of such a run held the truth in {}, and equal cells were called different \
         in {}.",
        range(named().map(|found| found.coverage))?,
        range(wrong)?
    ))
}

fn percentiles_reading(rows: &[PercentileRow]) -> Option<String> {
    let tail = |is_slow: bool| {
        let of = move |row: &&PercentileRow| row.percentile == 90 && (row.slow > 0.0) == is_slow;
        let found = rows.iter().filter(of).filter_map(|row| row.found);
        range(found.map(|found| found.coverage))
    };
    Some(format!(
        "A run has the interval of a tail only where its launches agree, so it is to be trusted \
         where launches vary alike: that of p90 then held the truth in {}, and in {} where some \
         launches are slow.",
        tail(false)?,
        tail(true)?
    ))
}

fn about(simulation: &Simulation) -> String {
    let found = || simulation.rows.iter().filter_map(|row| row.found);
    let least = found().map(|f| f.coverage).reduce(f64::min);
    let most = found().map(|f| f.coverage).reduce(f64::max);
    let wrong = found().map(|f| f.false_positive).reduce(f64::max);
    let (Some(least), Some(most), Some(wrong)) = (least, most, wrong) else {
        return "No profile has the launches that an interval takes.".into();
    };
    format!(
        "The functions that judge the records were given data whose truth is known: skewed \
         (log-normal, standard deviation of the logarithm {}) and autocorrelated (lag 1: {}) \
         samples at the sizes of every profile, with more and more of the variance between \
         launches. Over all rows the 95 % interval held the truth in {} to {} of the \
         experiments; two equal targets were called different in at most {}.",
        simulation.log_stddev,
        simulation.lag1,
        fmt::percent(least),
        fmt::percent(most),
        fmt::percent(wrong)
    )
}

/// Make the row of a size; `None` for a single launch, which gives no interval.
fn row(row: &SimulationRow) -> Option<Row> {
    let found = row.found.as_ref()?;
    Some(Row {
        size: format!("{} × {}", row.invocations, row.requests),
        profiles: row.profiles.join(", "),
        icc: row.icc.to_string(),
        coverage: fmt::percent(found.coverage),
        false_positive_test: fmt::percent(found.false_positive_test),
        false_positive: fmt::percent(found.false_positive),
    })
}

fn power(row: &PowerRow) -> Vec<String> {
    let found = &row.found;
    vec![
        fmt::percent(row.launch_log_stddev),
        row.invocations.to_string(),
        fmt::percent(found.power_test),
        fmt::percent(found.power),
        fmt::percent(found.equal),
        fmt::percent(found.false_equal),
    ]
}

fn shape(row: &ShapeRow) -> Vec<String> {
    let found = &row.found;
    vec![
        row.shape.clone(),
        row.invocations.to_string(),
        fmt::percent(found.coverage),
        fmt::percent(found.false_positive_test),
        fmt::percent(found.false_positive),
        fmt::percent(found.power),
    ]
}

fn until(row: &UntilRow) -> Vec<String> {
    let found = &row.found;
    vec![
        format!("±{} %", row.percent),
        match (row.compared, row.pairs) {
            (false, _) => row.cells.to_string(),
            (true, None) => format!("{} compared", row.cells),
            (true, Some(own)) if own > 0.0 => {
                let own = fmt::percent(own);
                format!("{} compared, A/A pairs, names ±{own}", row.cells)
            }
            (true, Some(_)) => format!("{} compared, A/A pairs", row.cells),
        },
        fmt::percent(row.launch_log_stddev),
        row.invocations.to_string(),
        format!("{:.1}", found.blocks),
        fmt::percent(found.gave_up),
        fmt::percent(found.coverage),
        fmt::percent(found.coverage_widest),
        found.false_positive.map_or(fmt::NONE.into(), fmt::percent),
        found.power.map_or(fmt::NONE.into(), fmt::percent),
    ]
}

fn percentile(row: &PercentileRow) -> Vec<String> {
    let share = |of: Option<f64>| of.map_or(fmt::NONE.into(), fmt::percent);
    let found = row.found;
    vec![
        format!("{} × {}", row.invocations, row.requests),
        fmt::percent(row.slow),
        format!("p{}", row.percentile),
        fmt::percent(found.map_or(0.0, |found| found.given)),
        share(found.map(|found| found.coverage)),
        share(found.map(|found| found.half_width_percent / 100.0)),
    ]
}

/// A page that consists of a text alone.
#[derive(Serialize)]
pub struct TextPage {
    frame: Frame,
    kicker: &'static str,
    text: String,
}

/// Make the page of the methodology's changelog, an authored text.
pub fn changelog(input: &Input) -> TextPage {
    TextPage {
        frame: place::frame(
            input,
            paths::CHANGELOG,
            "What changed in how this is measured",
            "Dated changes of the methodology, with the results that each touches.",
        ),
        kicker: "Changelog",
        text: markdown::render(CHANGELOG.text(input.authored), 2),
    }
}
