//! Turns records into pages. Everything up to the last write is pure: equal input gives equal
//! bytes, because no clock, locale, environment or hash order is read.
//!
//! `page` decides what each page says, from parts in `view` that several share; `chart` draws,
//! `template` fills in the pages, and [`write()`] is the only function that writes to disk. The pages
//! make no network request, can be read without their script and work from file://.

pub mod authored;
pub mod chart;
pub mod export;
pub mod fmt;
pub mod html;
pub mod markdown;
pub mod page;
pub mod results;
pub mod template;
pub mod theme;
pub mod view;
pub mod words;
mod write;

pub use write::write;

use anyhow::{Context, Result, bail, ensure};
use authored::Authored;
use chart::Figure;
use page::data::Download;
use page::guide::GuidePage;
use schema::adapters::AdapterCosts;
use schema::claims::Claims;
use schema::golden::ParityLimits;
use schema::hypothesis::Hypotheses;
use schema::maturity::Maturity;
use schema::micro::Suite;
use schema::model::Models;
use schema::plan::PlannedScenario;
use schema::prices::Prices;
use schema::profile::Profile;
use schema::registry::Registry;
use schema::run::Run;
use schema::scenario::Scenario;
use schema::simulation::Simulation;
use schema::train::Shipped;
use serde::Serialize;
use stats::analysis::Analysis;
use std::collections::BTreeMap;
use template::Templates;
use view::Shown;
use view::paths::{self, engine_path, run_path, scenario_path};

/// Everything that a site is made from.
pub struct Input<'a> {
    /// The runs: the one that the report shows, then the others, newest first; each has a page.
    pub runs: &'a [Run],
    /// The scenarios, with their texts and the metrics they report.
    pub scenarios: &'a [Scenario],
    /// The micro suites, with their texts.
    pub suites: &'a [Suite],
    /// The registry: the engines, and which target is the baseline.
    pub registry: &'a Registry,
    /// The models.
    pub models: &'a Models,
    /// The models that were trained here: their training, and the stories that they write.
    pub shipped: &'a [Shipped],
    /// The profiles, with their descriptions.
    pub profiles: &'a [Profile],
    /// The current limits of the parity gate, where known.
    pub parity: Option<&'a ParityLimits>,
    /// Results of the statistics on data of known truth, where that was simulated.
    pub simulation: Option<&'a Simulation>,
    /// What the adapters cost their engines, where that was measured.
    pub adapters: Option<&'a AdapterCosts>,
    /// The specification's predictions, where they are known.
    pub hypotheses: Option<&'a Hypotheses>,
    /// Prices of machines, electricity and APIs, where there is a price file.
    pub prices: Option<&'a Prices>,
    /// Facts about the engines that no run measures, where the file was read.
    pub maturity: Option<&'a Maturity>,
    /// What the engines' projects say of their speed, where the file was read.
    pub claims: Option<&'a Claims>,
    /// How the site is published; the default for a site that is read from files.
    pub publishing: Publishing<'a>,
    /// Templates, texts and assets read from disk instead of those compiled in.
    pub authored: &'a Authored,
}

impl<'a> Input<'a> {
    /// The text of a planned scenario, if there is one ([`PlannedScenario::text`]).
    pub fn text(&self, planned: &PlannedScenario) -> Option<&'a Scenario> {
        planned.text(self.scenarios)
    }

    /// An engine's name, or its id where the registry has it no more.
    pub fn engine_name<'n>(&'n self, id: &'n str) -> &'n str {
        let known = self.registry.engine(id);
        known.map_or(id, |engine| engine.name.as_str())
    }
}

/// What only a published site has, or a preview of an unfinished run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Publishing<'a> {
    /// The address at which it will be published, without a slash at its end.
    pub base_url: Option<&'a str>,
    /// A picture of the index for link previews (PNG), where one was taken.
    pub picture: Option<&'a [u8]>,
    /// The packed raw records (`.tar.zst`) by run id, where they were asked for.
    pub records: Option<&'a BTreeMap<String, Vec<u8>>>,
    /// A warning above everything on every page. It replaces the warning that a profile has too few
    /// samples.
    pub banner: Option<&'a str>,
}

/// Path of [`Publishing::picture`] in the site.
pub const PICTURE: &str = "assets/preview.png";

/// Render all files of the site, by relative path.
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

/// Like [`render`], with the analyses given, one for each run in order.
pub fn render_analysed(input: &Input, analyses: &[Analysis]) -> Result<BTreeMap<String, Vec<u8>>> {
    ensure!(
        input.runs.len() == analyses.len(),
        "{} runs but {} analyses",
        input.runs.len(),
        analyses.len()
    );
    let mut site = Site {
        templates: Templates::load(input.authored)?,
        files: BTreeMap::new(),
    };
    let css = theme::style_sheet(input.authored);
    site.add("assets/site.css".into(), css.into_bytes())?;
    let script = theme::script(input.authored);
    site.add("assets/site.js".into(), script.into_bytes())?;
    if let Some(picture) = input.publishing.picture {
        site.add(PICTURE.into(), picture.to_vec())?;
    }
    let changes = page::methodology::changelog(input);
    site.page(paths::CHANGELOG.into(), "text.html", &changes)?;
    site.top(paths::GLOSSARY, &page::glossary::page(input))?;
    site.top(paths::METHODOLOGY, &page::methodology::page(input))?;
    let shown: Vec<Shown> = input
        .runs
        .iter()
        .zip(analyses)
        .map(|(run, analysis)| Shown::new(input, run, analysis))
        .collect();
    let downloads = shown
        .iter()
        .map(page::data::downloads)
        .collect::<Result<Vec<_>>>()?;
    for (index, (run, files)) in shown.iter().zip(&downloads).enumerate() {
        let path = run_path(&run.run.header.id);
        site.page(path, "run.html", &page::run::page(run, index == 0, files))?;
    }
    if let Some(feed) = page::data::feed(&shown) {
        site.add(paths::FEED.into(), feed.into_bytes())?;
    }
    let guide = page::guide::page(input, &shown);
    site.several(input, &shown, &guide)?;
    let Some(newest) = shown.first() else {
        let empty = page::index::empty(input);
        site.page(paths::INDEX.into(), "empty.html", &empty)?;
        return Ok(site.files);
    };
    let index = page::index::index(newest, &shown, &guide);
    site.top(paths::INDEX, &index)?;
    site.charts(newest, paths::INDEX, index.figures())?;
    site.top(paths::COVERAGE, &page::coverage::page(newest))?;
    if paths::has_kernels(newest.run) {
        site.top(paths::KERNELS, &page::kernels::page(newest))?;
    }
    let below = paths::micro_run(input.runs);
    let below = below.and_then(|run| shown.iter().find(|s| s.run.header.id == run.header.id));
    if let Some(below) = below {
        let index = page::micro::index(below);
        site.page(paths::MICRO.into(), "micro_index.html", &index)?;
        for (path, page) in page::micro::pages(below) {
            site.page(path, "micro.html", &page)?;
        }
    }
    for scenario in newest.scenarios() {
        let path = scenario_path(&scenario.id);
        let page = page::scenario::page(newest, &shown, scenario);
        site.charts(newest, &path, page.figures())?;
        site.page(path, "scenario.html", &page)?;
    }
    site.report_pages(newest, &shown, below, downloads)?;
    site.top(paths::ENGINES, &page::index::engines::page(newest, &shown))?;
    for id in view::nav::engines_of(input, newest.run) {
        let page = page::engine::page(newest, &shown, below, guide.taken(&id), &id);
        site.page(engine_path(&id), "engine.html", &page)?;
    }
    Ok(site.files)
}

struct Site {
    templates: Templates,
    files: BTreeMap<String, Vec<u8>>,
}

impl Site {
    /// Add the pages that are about all runs; they exist without any run too.
    fn several(&mut self, input: &Input, shown: &[Shown], guide: &GuidePage) -> Result<()> {
        use page::{hypotheses, roadmap};
        self.top(paths::GUIDE, guide)?;
        if let Some(all) = input.hypotheses {
            self.top(paths::HYPOTHESES, &hypotheses::page(input, shown, all))?;
        }
        self.top(paths::ROADMAP, &roadmap::page(input, shown))
    }

    /// Add comparison and cost of the run that is shown, and the data of all runs (`shown`).
    fn report_pages(
        &mut self,
        newest: &Shown,
        shown: &[Shown],
        below: Option<&Shown>,
        downloads: Vec<Vec<Download>>,
    ) -> Result<()> {
        let pairs = page::compare::AllPairs::new(newest);
        self.top(paths::COMPARE, &page::compare::overview(newest, &pairs))?;
        self.top(paths::SEARCH, &page::search::page(newest, shown, &pairs))?;
        let others = page::compare::others::OtherRuns::new(newest, shown);
        for target in pairs.paged() {
            let path = page::compare::target_page_path(&target.id);
            let page = page::compare::target::page(newest, &pairs, &others, target);
            self.page(path, "compare_target.html", &page)?;
        }
        self.top(paths::COST, &page::cost::page(newest))?;
        let script = authored::COST_JS.text(newest.input.authored);
        self.add("assets/cost.js".into(), script.into())?;
        self.top(paths::DATA, &page::data::page(newest, below, &downloads))?;
        for download in downloads.into_iter().flatten() {
            self.add(download.path, download.bytes)?;
        }
        Ok(())
    }

    /// Add the charts of the page at `path` as files of their own.
    fn charts<'f>(
        &mut self,
        shown: &Shown,
        path: &str,
        figures: impl Iterator<Item = &'f Figure>,
    ) -> Result<()> {
        let source = view::place::source(shown, path);
        let style = theme::chart_style(shown.input.authored);
        for figure in figures {
            let file = chart::alone::file(figure, &source, &style)
                .with_context(|| format!("chart {} of {path}", figure.id))?;
            let prefix = paths::chart_prefix(path);
            self.add(format!("{prefix}{}.svg", figure.id), file.into_bytes())?;
        }
        Ok(())
    }

    /// Add a page whose path is also the name of its template.
    fn top(&mut self, path: &str, view: &impl Serialize) -> Result<()> {
        self.page(path.into(), path, view)
    }

    fn page(&mut self, path: String, template: &str, view: &impl Serialize) -> Result<()> {
        let html = self
            .templates
            .render(template, view)
            .with_context(|| format!("page {path}"))?;
        self.add(path, html)
    }

    fn add(&mut self, path: String, bytes: Vec<u8>) -> Result<()> {
        if self.files.contains_key(&path) {
            bail!("two files have the path {path}: an id is used twice");
        }
        self.files.insert(path, bytes);
        Ok(())
    }
}
