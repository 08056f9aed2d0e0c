//! Records → pages. Everything up to the last write is pure: equal input gives
//! equal bytes, because no clock, locale, environment or hash order is read.
//!
//! `view` decides what a page says, `chart` draws, `template` prints, and
//! [`write()`] is the only function that touches the disk. The pages make no
//! network request, need no script and work from file://.

pub mod chart;
pub mod fmt;
pub mod html;
pub mod markdown;
pub mod template;
pub mod theme;
pub mod view;
mod write;

pub use write::write;

use anyhow::{Context, Result, bail, ensure};
use schema::micro::Suite;
use schema::model::Models;
use schema::parity::ParityLimits;
use schema::profile::Profile;
use schema::registry::Registry;
use schema::run::Run;
use schema::scenario::Scenario;
use schema::simulation::Simulation;
use serde::Serialize;
use stats::analysis::Analysis;
use std::collections::BTreeMap;
use template::Templates;
use view::Shown;
use view::frame::{engine_path, run_path, scenario_path};

/// What a site is made from.
pub struct Input<'a> {
    /// Runs, newest first: the first is shown, all have a page.
    pub runs: &'a [Run],
    /// The scenarios' texts and metrics.
    pub scenarios: &'a [Scenario],
    /// The micro suites' texts.
    pub suites: &'a [Suite],
    /// The engines, and which target is the baseline.
    pub registry: &'a Registry,
    /// The models.
    pub models: &'a Models,
    /// The profiles: what each is for.
    pub profiles: &'a [Profile],
    /// Today's limits of the parity gate, where known.
    pub parity: Option<&'a ParityLimits>,
    /// How the statistics fared on data of known truth, where that was simulated.
    pub simulation: Option<&'a Simulation>,
}

/// All files of the site by relative path.
pub fn render(input: &Input) -> Result<BTreeMap<String, Vec<u8>>> {
    let analyses: Vec<Analysis> = input
        .runs
        .iter()
        .map(|run| {
            let baseline = input.registry.baseline_of(&run.header.plan.targets);
            stats::analyse(run, input.scenarios, baseline)
        })
        .collect();
    render_analysed(input, &analyses)
}

/// [`render`] with the analyses given, one for each run in order.
pub fn render_analysed(input: &Input, analyses: &[Analysis]) -> Result<BTreeMap<String, Vec<u8>>> {
    ensure!(
        input.runs.len() == analyses.len(),
        "{} runs but {} analyses",
        input.runs.len(),
        analyses.len()
    );
    let mut site = Site {
        templates: Templates::load()?,
        files: BTreeMap::new(),
    };
    site.add("assets/site.css".into(), theme::style_sheet().into_bytes())?;
    site.page(
        "methodology.html".into(),
        "methodology.html",
        &view::methodology::page(input),
    )?;
    let shown: Vec<Shown> = input
        .runs
        .iter()
        .zip(analyses)
        .map(|(run, analysis)| Shown::new(input, run, analysis))
        .collect();
    for (index, run) in shown.iter().enumerate() {
        let path = run_path(&run.run.header.id);
        site.page(path, "run.html", &view::run::page(run, index == 0))?;
    }
    let Some(newest) = shown.first() else {
        site.page(
            "index.html".into(),
            "empty.html",
            &view::index::empty(input),
        )?;
        return Ok(site.files);
    };
    site.page(
        "index.html".into(),
        "index.html",
        &view::index::index(newest),
    )?;
    site.page(
        "coverage.html".into(),
        "coverage.html",
        &view::coverage::page(newest),
    )?;
    if view::kernels::has_page(newest.run) {
        site.page(
            view::kernels::PATH.into(),
            "kernels.html",
            &view::kernels::page(newest),
        )?;
    }
    if view::micro::has_pages(newest.run) {
        let index = view::micro::index(newest);
        site.page(view::micro::PATH.into(), "micro_index.html", &index)?;
        for (path, page) in view::micro::pages(newest) {
            site.page(path, "micro.html", &page)?;
        }
    }
    for scenario in newest.scenarios() {
        site.page(
            scenario_path(&scenario.id),
            "scenario.html",
            &view::scenario::page(newest, scenario),
        )?;
    }
    for id in view::engine::shown_engines(newest) {
        site.page(
            engine_path(&id),
            "engine.html",
            &view::engine::page(newest, &id),
        )?;
    }
    Ok(site.files)
}

struct Site {
    templates: Templates,
    files: BTreeMap<String, Vec<u8>>,
}

impl Site {
    fn page(&mut self, path: String, template: &str, view: &impl Serialize) -> Result<()> {
        let html = self
            .templates
            .render(template, view)
            .with_context(|| format!("page {path}"))?;
        self.add(path, html)
    }

    fn add(&mut self, path: String, bytes: Vec<u8>) -> Result<()> {
        if self.files.contains_key(&path) {
            bail!("two pages want the path {path}: an id stands twice");
        }
        self.files.insert(path, bytes);
        Ok(())
    }
}
