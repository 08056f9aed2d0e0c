//! The micro suites: a page for each, a page that lists them, and sections for engines' pages. Each
//! variant is compared with the suite's baseline; the table also gives the error of its outputs
//! against the reference.

mod case;
mod page;

pub use page::MicroPage;

use crate::chart::Table;
use crate::chart::style::Style;
use crate::fmt;
use crate::page::index::Card;
use crate::view::Shown;
use crate::view::frame::Frame;
use crate::view::paths::{self, suite_path};
use crate::words::by_key;
use schema::micro::{PlannedSuite, Suite, Variant};
use serde::Serialize;
use stats::analysis::{Cell, Comparison, Metric, MetricId, Role, Verdict};
use stats::micro::SuiteAnalysis;

/// The page that lists the suites.
#[derive(Serialize)]
pub struct MicroIndex {
    frame: Frame,
    suites: Vec<Card>,
}

/// A suite's results for one engine, for the engine's page.
#[derive(Serialize)]
pub struct Below {
    title: String,
    path: String,
    question: String,
    table: Table,
}

/// Make the page that lists the suites.
pub fn index(shown: &Shown) -> MicroIndex {
    let about = "What lies below the engines, measured by itself: the pieces that explain why one \
                 engine is faster than another.";
    MicroIndex {
        frame: shown.frame(paths::MICRO, "Micro-benchmarks", about),
        suites: suites(shown)
            .map(|suite| Card {
                title: suite.title().into(),
                path: suite_path(&suite.planned.id),
                text: format!("{} {}.", suite.question(), suite.finding()),
            })
            .collect(),
    }
}

/// Make the pages of all suites, by path.
pub fn pages<'a>(shown: &'a Shown<'a>) -> Vec<(String, MicroPage<'a>)> {
    suites(shown)
        .map(|suite| (suite_path(&suite.planned.id), suite.page(shown)))
        .collect()
}

/// Make a section for each suite that measured a variant of an engine.
pub fn below(shown: &Shown, engine: &str) -> Vec<Below> {
    let of_engine = |suite: SuiteView| {
        let rows: Vec<Vec<String>> = suite
            .planned
            .variants
            .iter()
            .filter(|variant| variant.engine == engine)
            .flat_map(|variant| suite.planned.cases.iter().map(move |case| (variant, case)))
            .filter_map(|(variant, case)| suite.below_row(variant, case))
            .collect();
        (!rows.is_empty()).then(|| Below {
            title: suite.title().into(),
            path: suite_path(&suite.planned.id),
            question: suite.question().into(),
            table: Table::new(HEAD, rows),
        })
    };
    suites(shown).filter_map(of_engine).collect()
}

const HEAD: [&str; 7] = [
    "Variant",
    "Case",
    "Time of a call",
    "95 % interval",
    "Times better",
    "95 % interval",
    "Verdict",
];

/// A suite of a run with its plan, analysis and text.
struct SuiteView<'a> {
    planned: &'a PlannedSuite,
    suite: &'a SuiteAnalysis,
    /// The suite's text; `None` where its file is gone or has another version than the run's.
    text: Option<&'a Suite>,
}

fn suites<'a>(shown: &'a Shown<'a>) -> impl Iterator<Item = SuiteView<'a>> {
    let planned = shown.run.header.plan.micro.suites.iter();
    planned.filter_map(|planned| {
        let mut suites = shown.micro.iter();
        let mut texts = shown.input.suites.iter();
        Some(SuiteView {
            planned,
            suite: suites.find(|suite| suite.id == planned.id)?,
            text: texts.find(|text| text.id == planned.id && text.version == planned.version),
        })
    })
}

impl SuiteView<'_> {
    fn title(&self) -> &str {
        self.text.map_or(&self.planned.id, |text| &text.title)
    }

    fn question(&self) -> &str {
        self.text.map_or("", |text| &text.question)
    }

    /// The look of a variant: those of an engine share a colour; without an engine each has its
    /// own.
    fn style(&self, variant: &Variant) -> Style {
        let group = |v: &Variant| match v.engine.as_str() {
            "" => format!(".{}", v.id),
            engine => engine.to_owned(),
        };
        let variants = self.planned.variants.iter();
        let groups = by_key(variants.map(|v| (group(v), v.id.as_str())));
        let style = groups.iter().enumerate().find_map(|(engine, (_, ids))| {
            let target = ids.iter().position(|id| *id == variant.id)?;
            Some(Style { engine, target })
        });
        style.unwrap_or_default()
    }

    /// Name the largest detectable advantage over the baseline among variants of the baseline's
    /// precision.
    fn finding(&self) -> String {
        let baseline = &self.planned.baseline;
        let precision = |id: &str| self.planned.variant(id).map(|v| v.precision.as_str());
        let alike: Vec<&Comparison> = self
            .suite
            .analysis
            .comparisons
            .iter()
            .filter(|c| c.role == Role::Baseline && precision(&c.target) == precision(baseline))
            .collect();
        let better = alike.iter().filter(|c| c.verdict == Verdict::Better);
        let best = better.max_by(|a, b| a.ratio.total_cmp(&b.ratio));
        let Some(best) = best else {
            return match alike.iter().any(|c| c.verdict != Verdict::Unknown) {
                true => format!("Nothing of equal precision is better than {baseline} anywhere"),
                false if alike.is_empty() => {
                    format!("Nothing of equal precision could be compared with {baseline}")
                }
                false => format!("Too few launches to say what is better than {baseline}"),
            };
        };
        let ratio = fmt::joined(fmt::ratio(best.ratio, best.ci95));
        let mut cases = self.planned.cases.iter();
        let case = cases.find(|case| case.id == best.case);
        format!(
            "Largest advantage over {baseline}: {} with {}, {ratio}",
            best.target,
            case.map_or(&best.case, |case| &case.label)
        )
    }
}

fn call_ns(cell: &Cell) -> Option<&Metric> {
    cell.metric(MetricId::CallNs)
}
