//! The micro suites: a page for each, one that lists them, and what an engine's page
//! takes from them. Each variant stands against the suite's baseline, with what its
//! output differed from the reference's by.

use super::Shown;
use super::cells::{mark, rests_on, status_words, verdict};
use super::frame::{Frame, engine_path};
use crate::chart::forest::{Forest, Group, Outcome, Row};
use crate::chart::scale::Kind;
use crate::chart::style::Style;
use crate::chart::{Estimate, Figure, Table};
use crate::fmt::{self, NONE, Unit, quantity};
use crate::html::slug;
use crate::markdown;
use schema::micro::{DIR, PlannedSuite, Suite, SuiteCase, Variant, Work};
use schema::record::Status;
use schema::run::Run;
use serde::Serialize;
use stats::analysis::{Cell, Comparison, Metric, MetricId, Role};
use stats::micro::SuiteAnalysis;

/// Path of the page that lists the suites.
pub const PATH: &str = "micro.html";

/// Path of a suite's page.
pub fn suite_path(suite: &str) -> String {
    format!("{DIR}/{}.html", slug(suite))
}

/// Whether a run has any.
pub fn has_pages(run: &Run) -> bool {
    !run.header.plan.micro.is_empty()
}

/// The list of suites.
#[derive(Serialize)]
pub struct MicroIndex {
    frame: Frame,
    suites: Vec<Card>,
}

#[derive(Serialize)]
struct Card {
    title: String,
    path: String,
    text: String,
    finding: String,
}

/// A suite's page.
#[derive(Serialize)]
pub struct MicroPage {
    frame: Frame,
    id: String,
    version: u32,
    question: String,
    analysis: String,
    baseline: String,
    protocol: String,
    variants: Table,
    chart: Figure,
    cases: Vec<CaseView>,
    records: Vec<(String, String)>,
}

#[derive(Serialize)]
struct CaseView {
    anchor: String,
    label: String,
    params: String,
    rate: &'static str,
    noise_floor: String,
    rows: Vec<VariantRow>,
    failures: Vec<Failure>,
}

#[derive(Serialize)]
struct VariantRow {
    swatch: String,
    id: String,
    path: String,
    time: String,
    interval: String,
    rate: String,
    rank: String,
    ratio: String,
    ratio_interval: String,
    verdict: String,
    tone: &'static str,
    first_call: String,
    memory: String,
    error: String,
    rests_on: String,
}

#[derive(Serialize)]
struct Failure {
    swatch: String,
    id: String,
    status: &'static str,
    reason: String,
}

/// A suite's results of one engine, for its page.
#[derive(Serialize)]
pub struct Below {
    title: String,
    path: String,
    question: String,
    table: Table,
}

/// The page that lists the suites.
pub fn index(shown: &Shown) -> MicroIndex {
    let about = "What lies below the engines, measured by itself: the pieces that explain why one \
                 engine is faster than another.";
    MicroIndex {
        frame: Frame::new(
            shown.input,
            Some(shown.run),
            PATH,
            "Below the engines",
            about,
        ),
        suites: suites(shown)
            .map(|suite| Card {
                title: suite.title().into(),
                path: suite_path(&suite.planned.id),
                text: suite.question().into(),
                finding: suite.finding(),
            })
            .collect(),
    }
}

/// The pages of all suites, by path.
pub fn pages(shown: &Shown) -> Vec<(String, MicroPage)> {
    suites(shown)
        .map(|suite| (suite_path(&suite.planned.id), suite.page(shown)))
        .collect()
}

/// What the suites measured of an engine.
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
            table: Table {
                head: [
                    "Variant",
                    "Case",
                    "Time of a call",
                    "95 % interval",
                    "Times better",
                ]
                .map(String::from)
                .into_iter()
                .chain(["95 % interval".into(), "Verdict".into()])
                .collect(),
                rows,
            },
        })
    };
    suites(shown).filter_map(of_engine).collect()
}

/// A suite of a run with its analysis and its text.
struct SuiteView<'a> {
    planned: &'a PlannedSuite,
    analysis: &'a SuiteAnalysis,
    /// `None` where its file is gone or has another version than the run's.
    text: Option<&'a Suite>,
}

fn suites<'a>(shown: &'a Shown<'a>) -> impl Iterator<Item = SuiteView<'a>> {
    let planned = shown.run.header.plan.micro.suites.iter();
    planned.filter_map(|planned| {
        let mut analyses = shown.micro.iter();
        let mut texts = shown.input.suites.iter();
        Some(SuiteView {
            planned,
            analysis: analyses.find(|analysis| analysis.id == planned.id)?,
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

    fn comparison(&self, case: &str, variant: &str) -> Option<&Comparison> {
        self.analysis
            .comparisons
            .iter()
            .find(|c| c.role == Role::Baseline && c.case == case && c.target == variant)
    }

    /// Variants of an engine share a colour; without an engine each has its own.
    fn style(&self, variant: &Variant) -> Style {
        let group = |v: &Variant| match v.engine.as_str() {
            "" => format!(".{}", v.id),
            engine => engine.to_owned(),
        };
        let mut groups: Vec<String> = Vec::new();
        let mut within = 0;
        for other in &self.planned.variants {
            if !groups.contains(&group(other)) {
                groups.push(group(other));
            }
            if other.id == variant.id {
                break;
            }
            within += usize::from(group(other) == group(variant));
        }
        let engine = groups.iter().position(|g| *g == group(variant));
        Style {
            engine: engine.unwrap_or_default(),
            target: within,
        }
    }

    /// The largest advantage over the baseline.
    fn finding(&self) -> String {
        let comparisons = self.analysis.comparisons.iter();
        let best = comparisons
            .filter(|c| c.role == Role::Baseline && c.ratio.is_finite())
            .max_by(|a, b| a.ratio.total_cmp(&b.ratio));
        match best {
            None => format!("Nothing could be compared with {}", self.planned.baseline),
            Some(best) => {
                let (ratio, interval) = fmt::ratio(best.ratio, best.ci95);
                let cases = self.planned.cases.iter();
                let label = cases
                    .filter(|case| case.id == best.case)
                    .map(|case| case.label.as_str())
                    .next();
                format!(
                    "Largest advantage over {}: {} with {}, {ratio} {}",
                    self.planned.baseline,
                    best.target,
                    label.unwrap_or(&best.case),
                    interval.unwrap_or_else(|| "(a single launch gives no interval)".into())
                )
            }
        }
    }

    fn page(&self, shown: &Shown) -> MicroPage {
        let planned = self.planned;
        let analysis = match self.text {
            Some(text) => markdown::render(&text.analysis, 3),
            None => "<p>The text of this version of the suite is no longer in the repository.</p>"
                .into(),
        };
        let path = suite_path(&planned.id);
        let question = self.question();
        MicroPage {
            frame: Frame::new(shown.input, Some(shown.run), &path, self.title(), question),
            id: schema::micro::scenario_id(&planned.id),
            version: planned.version,
            question: question.into(),
            analysis,
            baseline: planned.baseline.clone(),
            protocol: format!(
                "{} launches of each variant in randomised blocks; in each, {} readings of at least {} \
                 after {} of untimed calls",
                shown.run.header.plan.invocations,
                planned.samples,
                quantity(Unit::Ns, planned.sample_ns as f64),
                quantity(Unit::Ns, planned.warmup_ns as f64)
            ),
            variants: self.variants(shown),
            chart: self.chart(),
            cases: planned.cases.iter().map(|case| self.case(case)).collect(),
            records: self.records(shown),
        }
    }

    /// The record files, with their hashes.
    fn records(&self, shown: &Shown) -> Vec<(String, String)> {
        let logs = shown.run.micro.iter();
        logs.filter(|log| log.launch.suite == self.planned.id)
            .map(|log| (log.file.display().to_string(), log.sha256.clone()))
            .collect()
    }

    /// Who ran, and what their programs said of themselves.
    fn variants(&self, shown: &Shown) -> Table {
        let rows = self.planned.variants.iter().map(|variant| {
            let ready = shown.run.micro.iter().find_map(|log| {
                let is_it = log.launch.suite == self.planned.id && log.launch.variant == variant.id;
                log.ready.as_ref().filter(|_| is_it)
            });
            let said = |of: fn(&schema::micro::record::MicroReady) -> String| {
                ready.map(of).filter(|text| !text.is_empty())
            };
            vec![
                variant.id.clone(),
                variant.about.clone(),
                variant.backend.clone(),
                variant.precision.clone(),
                said(|r| r.version.clone()).unwrap_or_else(|| NONE.into()),
                said(|r| r.notes.join("; ")).unwrap_or_else(|| NONE.into()),
            ]
        });
        Table {
            head: [
                "Variant",
                "What it is",
                "Backend",
                "Precision",
                "Version",
                "Notes",
            ]
            .map(String::from)
            .to_vec(),
            rows: rows.collect(),
        }
    }

    fn chart(&self) -> Figure {
        let baseline = &self.planned.baseline;
        let groups = self.planned.cases.iter().map(|case| {
            let others = self.planned.variants.iter().filter(|v| v.id != *baseline);
            let mut rows: Vec<(f64, Row)> = others
                .map(|variant| {
                    let cell = self.analysis.cell(&case.id, &variant.id);
                    let measured = cell.and_then(|cell| Some((cell, call_ns(cell)?)));
                    let (order, outcome) = match (self.comparison(&case.id, &variant.id), measured)
                    {
                        (Some(c), Some((cell, metric))) => {
                            let estimate = Estimate {
                                value: c.ratio,
                                ci: c.ci95,
                            };
                            (c.ratio, Outcome::Measured(estimate, rests_on(cell, metric)))
                        }
                        (None, Some(_)) => (-1.0, Outcome::Missing("baseline has no value".into())),
                        (_, None) => (-2.0, Outcome::Missing(why(cell))),
                    };
                    let row = Row {
                        label: variant.id.clone(),
                        style: self.style(variant),
                        outcome,
                    };
                    (order, row)
                })
                .collect();
            rows.sort_by(|a, b| b.0.total_cmp(&a.0));
            let floor = self.floor(case);
            Group {
                heading: format!("{}{}", case.label, suffix(floor)),
                band: floor.map(|ratio| (1.0 / ratio, ratio)),
                rows: rows.into_iter().map(|(_, row)| row).collect(),
            }
        });
        Forest {
            id: "ratios".into(),
            finding: self.finding(),
            reading: format!(
                "Marker: geometric mean over blocks of how many times faster than {baseline}; whiskers: 95 % \
                 interval. The dashed line is {baseline} itself (1×). Inside the shaded band, the noise \
                 floor, nothing is called a difference. The axis is logarithmic."
            ),
            axis_label: format!("times faster than {baseline}"),
            unit: Unit::Ratio,
            kind: Kind::Log,
            reference: Some(1.0),
            groups: groups.collect(),
        }
        .draw()
    }

    fn floor(&self, case: &SuiteCase) -> Option<f64> {
        let mut floors = self.analysis.floors.iter();
        let of_case = floors.find(|f| f.case == case.id && f.metric == MetricId::CallNs);
        of_case.map(|floor| floor.ratio)
    }

    fn case(&self, case: &SuiteCase) -> CaseView {
        let mut measured: Vec<(&Variant, &Cell, &Metric)> = Vec::new();
        let mut failures = Vec::new();
        for variant in &self.planned.variants {
            let cell = self.analysis.cell(&case.id, &variant.id);
            match cell.and_then(|cell| Some((cell, call_ns(cell)?))) {
                Some((cell, metric)) => measured.push((variant, cell, metric)),
                None => failures.push(Failure {
                    swatch: mark(self.style(variant)),
                    id: variant.id.clone(),
                    status: cell.map_or("not planned", |cell| status_words(cell.status)),
                    reason: cell.map(|cell| cell.reason.clone()).unwrap_or_default(),
                }),
            }
        }
        measured.sort_by(|a, b| a.2.value.total_cmp(&b.2.value));
        let params = case
            .params
            .iter()
            .map(|(name, value)| format!("{name} {value}"));
        CaseView {
            anchor: slug(&case.id),
            label: case.label.clone(),
            params: params.collect::<Vec<_>>().join(", "),
            rate: rate_unit(self.planned.work).0,
            noise_floor: match self.floor(case) {
                Some(ratio) => format!(
                    "Noise floor: {}, the upper 95 % bound of what lay between {} and itself, run twice in \
                     every block. A difference under it is not called one.",
                    fmt::ratio(ratio, None).0,
                    self.planned.baseline
                ),
                None => "No noise floor was measured: the verdicts rest on the test alone.".into(),
            },
            rows: measured
                .into_iter()
                .map(|(variant, cell, metric)| self.row(case, variant, cell, metric))
                .collect(),
            failures,
        }
    }

    fn row(&self, case: &SuiteCase, variant: &Variant, cell: &Cell, metric: &Metric) -> VariantRow {
        let (time, interval) = fmt::with_interval(Unit::Ns, metric.value, metric.ci95);
        let per = rate_unit(self.planned.work).1;
        let rate = self.analysis.rate(cell);
        let facts = self
            .analysis
            .facts
            .get(&(case.id.clone(), variant.id.clone()));
        let of = |id: MetricId| {
            let metric = cell.metrics.iter().find(|metric| metric.id == id);
            metric.map_or(NONE.into(), |m| quantity(Unit::of(id), m.value))
        };
        let same_rank = self.analysis.cells.iter();
        let same_rank = same_rank.filter(|c| c.case == cell.case && c.rank == cell.rank);
        let shared = if same_rank.count() > 1 { "=" } else { "" };
        let mut row = VariantRow {
            swatch: mark(self.style(variant)),
            id: variant.id.clone(),
            path: match variant.engine.as_str() {
                "" => String::new(),
                engine => engine_path(engine),
            },
            time,
            interval: interval.unwrap_or_else(|| NONE.into()),
            rate: rate.map_or(NONE.into(), |rate| quantity(Unit::Plain, rate / per)),
            rank: cell
                .rank
                .map_or(NONE.into(), |rank| format!("{rank}{shared}")),
            ratio: NONE.into(),
            ratio_interval: NONE.into(),
            verdict: "too few launches to say".into(),
            tone: "even",
            first_call: of(MetricId::FirstCallNs),
            memory: of(MetricId::PeakRssBytes),
            error: match facts.map(|facts| facts.error_max) {
                None => NONE.into(),
                Some(0.0) => "none".into(),
                Some(error) => format!("{error:.1e}"),
            },
            rests_on: rests_on(cell, metric),
        };
        if variant.id == self.planned.baseline {
            row.ratio = "1×".into();
            row.verdict = "the baseline".into();
        } else if let Some(comparison) = self.comparison(&case.id, &variant.id) {
            let (ratio, interval) = fmt::ratio(comparison.ratio, comparison.ci95);
            row.ratio = ratio;
            row.ratio_interval = interval.unwrap_or_else(|| NONE.into());
            (row.verdict, row.tone) = verdict(comparison);
        }
        row
    }

    /// A measured cell for an engine's page.
    fn below_row(&self, variant: &Variant, case: &SuiteCase) -> Option<Vec<String>> {
        let cell = self.analysis.cell(&case.id, &variant.id)?;
        let row = self.row(case, variant, cell, call_ns(cell)?);
        Some(vec![
            row.id,
            case.label.clone(),
            row.time,
            row.interval,
            row.ratio,
            row.ratio_interval,
            row.verdict,
        ])
    }
}

fn call_ns(cell: &Cell) -> Option<&Metric> {
    super::metric(cell, MetricId::CallNs)
}

/// Heading and divisor of a rate.
fn rate_unit(work: Work) -> (&'static str, f64) {
    match work {
        Work::Bytes => ("MB/s", 1e6),
        Work::Flop => ("GFLOP/s", 1e9),
        Work::Tokens => ("tok/s", 1.0),
    }
}

fn suffix(floor: Option<f64>) -> String {
    floor.map_or(String::new(), |ratio| {
        format!(" · noise floor {}", fmt::ratio(ratio, None).0)
    })
}

fn why(cell: Option<&Cell>) -> String {
    match cell {
        Some(cell) if cell.status == Status::Ok => "no value".into(),
        Some(cell) => status_words(cell.status).into(),
        None => "not planned".into(),
    }
}
