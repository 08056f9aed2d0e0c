//! `cargo xtask site`: renders records into `target/site`. The `site` crate makes the pages; this
//! module chooses the runs to show, and adds what a published site needs (raw records, a preview
//! picture) or a writer of pages (a server).
//!
//! With `--serve` it reads the hand-written files of the `site` crate from disk, so that an edit
//! shows without compiling.

mod picture;
mod serve;

use crate::publish;
use crate::results::Results;
use anyhow::{Context, Result, bail, ensure};
use base::repo::Repo;
use schema::DataError;
use schema::adapters::AdapterCosts;
use schema::error::read_json;
use schema::model::Models;
use schema::prices::Prices;
use schema::run::Run;
use schema::run_files::{RunFiles, SUFFIX};
use schema::simulation::Simulation;
use serde::de::DeserializeOwned;
use site::Publishing;
use site::authored::Authored;
use site::view::place::coverage_rank;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What `cargo xtask site` can be told.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Run to show first: its id, path, or `latest`. By default, of those that may be published, the
    /// one that ranks targets in the most scenarios; of several, that of the largest model, and
    /// then the newest.
    pub run: Option<String>,
    /// Directory of the runs, where it isn't runs and data/results.
    #[arg(long)]
    pub out: Option<PathBuf>,
    /// Serve it on this machine and render again whenever a page, a text or a record
    /// changes; for those who write pages.
    #[arg(long)]
    pub serve: bool,
    /// Port to serve on.
    #[arg(long, default_value_t = 8000, requires = "serve")]
    pub port: u16,
    /// The address that the site will have, for link previews and citations.
    #[arg(long, value_name = "URL", value_parser = base_url)]
    pub base_url: Option<String>,
    /// Put the packed raw records into the site: of the run shown, and of every other that
    /// lies as one packed file.
    #[arg(long)]
    pub records: bool,
}

/// Parse the address of a site, to which paths can be appended.
fn base_url(text: &str) -> Result<String> {
    let base = text.trim_end_matches('/');
    let host = base
        .strip_prefix("https://")
        .or_else(|| base.strip_prefix("http://"));
    let plain = |c: char| c.is_ascii_graphic() && !"<>\"'`?#\\".contains(c);
    ensure!(
        host.is_some_and(|host| !host.is_empty()) && base.chars().all(plain),
        "{text:?} is no address such as https://example.org/bench"
    );
    Ok(base.to_owned())
}

/// Run `cargo xtask site`.
pub fn command(repo: &Repo, options: &Options) -> Result<ExitCode> {
    let results = Results::new(repo, options.out.as_deref());
    if options.serve {
        return serve::serve(repo, &results, options);
    }
    base::interrupt::at_once()?;
    println!("{}", render_options(repo, &results, options)?.display());
    Ok(ExitCode::SUCCESS)
}

/// Render the site with the given options; return the path of the index page.
fn render_options(repo: &Repo, results: &Results, options: &Options) -> Result<PathBuf> {
    let runs = choose(repo, results, options.run.as_deref())?;
    let authored = match options.serve {
        true => read(&repo.root.join("site"))?,
        false => Authored::new(),
    };
    let records = match options.records {
        true => {
            let ids: Vec<&str> = runs.iter().map(|run| run.header.id.as_str()).collect();
            Some(packed(results, &ids, options.run.as_deref())?)
        }
        false => None,
    };
    let publishing = Publishing {
        base_url: options.base_url.as_deref(),
        records: records.as_ref(),
        ..Publishing::default()
    };
    let index = write(repo, &runs, publishing, &authored, &repo.site_dir())?;
    // The picture shows the finished page, so the page is rendered twice.
    let picture = match options.base_url {
        Some(_) => picture::of_page(&index)?,
        None => None,
    };
    let Some(picture) = picture else {
        return Ok(index);
    };
    let publishing = Publishing {
        picture: Some(&picture),
        ..publishing
    };
    write(repo, &runs, publishing, &authored, &repo.site_dir())
}

/// Return packed records by run id: those of the first run, which the user may have `named`, and of
/// every other run that is stored as a packed file.
fn packed(
    results: &Results,
    ids: &[&str],
    named: Option<&str>,
) -> Result<BTreeMap<String, Vec<u8>>> {
    let mut all = BTreeMap::new();
    for (index, &id) in ids.iter().enumerate() {
        let file = format!("{id}{SUFFIX}");
        let mut files = results.dirs().iter().map(|dir| dir.join(&file));
        // Links are not followed.
        let regular = |file: &PathBuf| file.symlink_metadata().is_ok_and(|m| m.is_file());
        let place = match index {
            0 => Some(results.find(named.unwrap_or(id))?),
            _ => files.find(regular),
        };
        let Some(place) = place else { continue };
        let bytes = match place.is_dir() {
            true => publish::pack(&RunFiles::open(&place)?)?,
            false => {
                std::fs::read(&place).with_context(|| format!("reading {}", place.display()))?
            }
        };
        all.insert(id.to_owned(), bytes);
    }
    Ok(all)
}

/// Render the site of all runs into a directory. The run shown first is the broadest that may be
/// published, or else the broadest.
pub fn site(repo: &Repo, results: &Results, dir: &Path) -> Result<PathBuf> {
    let runs = choose(repo, results, None)?;
    write(repo, &runs, Publishing::default(), &Authored::new(), dir)
}

/// Return all runs that can be shown; the first is the one to show first.
fn choose(repo: &Repo, results: &Results, run: Option<&str>) -> Result<Vec<Run>> {
    if let Some(run) = run {
        let run = Run::load(&results.find(run)?)?.as_far_as_measured();
        return Ok(before_others(results, run));
    }
    let mut runs = load_all(results, None);
    let models = repo.listed_models()?;
    // Among equally broad runs take the newest, which is first; the others stay newest first.
    let breadths = runs.iter().map(|run| Reverse(coverage_rank(run, &models)));
    let Some((broadest, _)) = breadths
        .enumerate()
        .min_by_key(|(_, coverage_rank)| *coverage_rank)
    else {
        bail!(
            "{} holds no run to show: make one with `cargo xtask bench-all`",
            results.dir().display()
        );
    };
    runs[..=broadest].rotate_right(1);
    Ok(runs)
}

fn before_others(results: &Results, first: Run) -> Vec<Run> {
    let others = load_all(results, Some(&first.header.id));
    std::iter::once(first).chain(others).collect()
}

/// Render the site with `first` as the run shown first; return the path of the index page.
pub fn render_with(repo: &Repo, results: &Results, first: Run) -> Result<PathBuf> {
    let runs = before_others(results, first);
    let publishing = Publishing::default();
    write(repo, &runs, publishing, &Authored::new(), &repo.site_dir())
}

/// Render one run into a directory of its own, with a banner at the top of every page; return the
/// path of the index page.
pub fn render_apart(repo: &Repo, run: Run, dir: &Path, banner: &str) -> Result<PathBuf> {
    let publishing = Publishing {
        banner: Some(banner),
        ..Publishing::default()
    };
    write(repo, &[run], publishing, &Authored::new(), dir)
}

fn write(
    repo: &Repo,
    runs: &[Run],
    publishing: Publishing,
    authored: &Authored,
    dir: &Path,
) -> Result<PathBuf> {
    let (scenarios, registry) = (repo.scenarios()?, repo.registry()?);
    let models = with_brought(repo.listed_models()?, runs);
    let (suites, shipped) = (repo.suites()?, repo.shipped()?);
    let (profiles, parity) = (repo.profiles()?, repo.parity_limits()?);
    let simulation = read_if_exists::<Simulation>(&repo.simulation_path())?;
    let adapters = read_if_exists::<AdapterCosts>(&repo.adapters_path())?;
    let hypotheses = repo.hypotheses(&registry, &scenarios)?;
    let prices = Prices::newest(&repo.prices_dir())?;
    let maturity = repo.maturity(&registry)?;
    let claims = repo.claims(&registry)?;
    let input = site::Input {
        runs,
        scenarios: &scenarios,
        suites: &suites,
        registry: &registry,
        models: &models,
        shipped: &shipped,
        profiles: &profiles,
        parity: Some(&parity),
        simulation: simulation.as_ref(),
        adapters: adapters.as_ref(),
        hypotheses: hypotheses.as_ref(),
        prices: prices.as_ref(),
        maturity: maturity.as_ref(),
        claims: claims.as_ref(),
        publishing,
        authored,
    };
    site::write(&site::render(&input)?, dir)?;
    Ok(dir.join("index.html"))
}

/// Load a file of the checkout; `None` where there is no such file.
fn read_if_exists<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, DataError> {
    path.exists().then(|| read_json(path)).transpose()
}

/// Return the listed models and those that users brought to these runs, as the records describe
/// them, so that the same records give the same pages in every checkout.
fn with_brought(mut models: Models, runs: &[Run]) -> Models {
    for model in runs
        .iter()
        .filter_map(|run| run.header.provenance.model.as_ref())
    {
        if models.get(&model.id).is_none() {
            models.models.push(model.clone());
        }
    }
    models
}

/// Load all runs but `except`, newest first. A run that can't be loaded causes a warning and is
/// left out: an old record must not keep a new one from being shown.
fn load_all(results: &Results, except: Option<&str>) -> Vec<Run> {
    let mut runs = Vec::new();
    for (id, place) in results.places().into_iter().rev() {
        if except == Some(&id) {
            continue;
        }
        match Run::load(&place) {
            Ok(run) if run.header.origin.shard.is_some() => {
                watch::warn(format!(
                    "left out of the report: {id} is a shard; merge it with the others"
                ));
            }
            Ok(run) => runs.push(run.as_far_as_measured()),
            Err(error) => watch::warn(format!("left out of the report: {error}")),
        }
    }
    runs
}

/// Directories of the `site` crate that hold hand-written files.
pub const DIRS: [&str; 3] = ["templates", "pages", "assets"];

/// Read all text files in those directories, by their path in the crate. Other files (pictures) are
/// left out.
pub fn read(site: &Path) -> Result<Authored> {
    let mut all = Authored::new();
    for dir in DIRS {
        let path = site.join(dir);
        let entries =
            std::fs::read_dir(&path).with_context(|| format!("listing {}", path.display()))?;
        for entry in entries {
            let path = entry?.path();
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
                continue;
            };
            if let Ok(text) = std::fs::read_to_string(&path) {
                all.insert(format!("{dir}/{name}"), text);
            }
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use schema::model::Model;
    use schema::plan::PlannedScenario;
    use schema::scenario::Axis;

    #[test]
    fn a_base_url_is_an_address_and_nothing_else() {
        assert_eq!(
            base_url("https://a.example/b/").unwrap(),
            "https://a.example/b"
        );
        for wrong in [
            "",
            "a.example",
            "javascript:alert(1)",
            "https://",
            "https://a\" x",
            "https://a?b",
        ] {
            assert!(base_url(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn packed_records_are_copied_for_every_run_that_has_them() {
        let dir = tempfile::tempdir().unwrap();
        for id in ["a", "b"] {
            std::fs::write(dir.path().join(format!("{id}{SUFFIX}")), id).unwrap();
        }
        let results = Results::at(dir.path());
        let all = packed(&results, &["b", "not-published", "a"], None).unwrap();
        let expected = ["a", "b"].map(|id| (id.to_owned(), id.as_bytes().to_vec()));
        assert_eq!(all, BTreeMap::from(expected));
    }

    #[test]
    fn a_scenario_without_ranks_does_not_put_a_tiny_model_s_run_first() {
        let models = [("tiny", 1), ("large", 2)].map(|(id, parameters)| Model {
            id: id.into(),
            parameters,
            ..Model::default()
        });
        let models = Models {
            models: models.into(),
        };
        let of = |model: &str, axes: &[Axis]| {
            let mut run = Run::default();
            run.header.plan.model = model.into();
            let scenarios = axes.iter().map(|&axis| PlannedScenario {
                axis,
                ..PlannedScenario::default()
            });
            run.header.plan.scenarios = scenarios.collect();
            coverage_rank(&run, &models)
        };
        let large = of("large", &[Axis::Users]);
        assert!(of("tiny", &[Axis::Users, Axis::LoadPercent]) < large);
        assert!(of("tiny", &[Axis::Users, Axis::Batch]) > large);
        assert!(of("large", &[Axis::Users, Axis::LoadPercent]) > large);
    }

    #[test]
    fn texts_are_read_and_pictures_are_not() {
        let site = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../site");
        let all = read(&site).unwrap();
        assert!(all.contains_key("templates/base.html") && all.contains_key("pages/glossary.md"));
        assert!(all.contains_key("assets/site.css") && !all.contains_key("assets/report.png"));
    }
}
