//! The methodology: an authored text, the definition of every metric as the program
//! that computes it states it, and what a model that was trained here writes.

use super::frame::Frame;
use super::place;
use super::scenario::{MetricWords, words};
use super::stories::{self, Storyteller};
use super::trial::{self, Trial};
use crate::Input;
use crate::authored::METHODOLOGY;
use crate::markdown;
use serde::Serialize;
use stats::analysis::MetricId;

/// The page.
#[derive(Serialize)]
pub struct MethodologyPage {
    frame: Frame,
    text: String,
    metrics: Vec<MetricWords>,
    limits: Vec<LimitRow>,
    simulation: Option<Trial>,
    storytellers: Vec<Storyteller>,
}

#[derive(Serialize)]
struct LimitRow {
    precision: String,
    kl: String,
    tie: String,
    reason: String,
}

/// The page.
pub fn page(input: &Input) -> MethodologyPage {
    MethodologyPage {
        frame: place::frame(
            input,
            super::paths::METHODOLOGY,
            "Methodology",
            "What is measured, how, and what was rejected.",
        ),
        text: markdown::render(METHODOLOGY.of(input.authored), 2),
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
        simulation: input.simulation.map(trial::trial),
        storytellers: input.shipped.iter().map(stories::storyteller).collect(),
    }
}
