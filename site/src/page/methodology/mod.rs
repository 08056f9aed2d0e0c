//! The methodology page: an authored text, the definition of every metric from the program that
//! computes it, the stories that trained models write, and how the statistics fared on data of
//! known truth. And the changelog of it.

mod adapters;

use crate::authored::{CHANGELOG, METHODOLOGY};
use crate::page::scenario::{MetricWords, words};
use crate::view::frame::Frame;
use crate::view::{paths, place};
use crate::{Input, fmt, markdown};
use schema::golden::Limit;
use schema::simulation::{PercentileRow, Simulation, UntilRow};
use schema::train::{Shipped, Written};
use serde::Serialize;
use stats::analysis::MetricId;
use std::collections::BTreeMap;

/// The methodology page.
#[derive(Serialize)]
pub struct MethodologyPage<'a> {
    frame: Frame,
    text: String,
    metrics: Vec<MetricWords>,
    /// The limits of the parity gate by precision.
    limits: Option<&'a BTreeMap<String, Limit>>,
    simulation: Option<SimulationView<'a>>,
    adapters: Option<adapters::Table<'a>>,
    storytellers: Vec<TrainedModelView>,
}

/// Make the methodology page.
pub fn page<'a>(input: &Input<'a>) -> MethodologyPage<'a> {
    MethodologyPage {
        frame: place::frame(
            input,
            paths::METHODOLOGY,
            "Methodology",
            "What is measured, how, and what was rejected.",
        ),
        text: markdown::render(METHODOLOGY.text(input.authored), 2),
        metrics: MetricId::ALL.into_iter().map(words).collect(),
        limits: input.parity.map(|limits| &limits.precision),
        simulation: input.simulation.map(trial),
        adapters: input
            .adapters
            .map(|costs| adapters::table(costs, input.registry)),
        storytellers: input.shipped.iter().map(storyteller).collect(),
    }
}

/// A model that was trained here, described, with the stories that it wrote.
#[derive(Serialize)]
struct TrainedModelView {
    about: String,
    command: String,
    found: String,
    stories: Vec<Written>,
}

/// Describe a trained model, and list its stories.
fn storyteller(shipped: &Shipped) -> TrainedModelView {
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
        about,
        command: training.command.clone(),
        found: found.unwrap_or_default(),
        stories: stories.map_or_else(Vec::new, |stories| stories.stories.clone()),
    }
}

/// The results of the simulation, with what stands around their tables.
#[derive(Serialize)]
struct SimulationView<'a> {
    about: String,
    data: &'a Simulation,
    /// How to read the rows with A/A pairs; `None` where there are none.
    until_reading: Option<String>,
    /// How to read the rows on percentiles; `None` without a slow launch.
    percentiles_reading: Option<String>,
}

fn trial(data: &Simulation) -> SimulationView<'_> {
    SimulationView {
        about: about(data),
        data,
        until_reading: until_reading(&data.until),
        percentiles_reading: percentiles_reading(&data.percentiles),
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
