//! A run's page: everything needed to judge the run, check it and repeat it.

mod comparisons;
mod disturbances;
mod gpus;
mod parity;
mod pins;
mod results_table;
mod steadiness;

use crate::chart::Figure;
use crate::fmt;
use crate::page::coverage;
use crate::page::data::Download;
use crate::view::cells::status_words;
use crate::view::frame::Frame;
use crate::view::paths::run_path;
use crate::view::{Shown, noise};
use crate::words::{by_key, plural};
use comparisons::Comparisons;
use disturbances::Disturbances;
use gpus::Gpus;
use results_table::ResultTable;
use schema::budget::about;
use schema::calibration::Calibration;
use schema::capacity::Capacity;
use schema::key::{Twin, TwinRole};
use schema::launch_log::LaunchLog;
use schema::micro::MicroLog;
use schema::record::{CheckRecord, End, Status};
use serde::Serialize;
use stats::alone::alone;
use stats::analysis::{Exceeded, MetricId};
use std::collections::BTreeMap;
use std::path::Path;

/// Maximum number of rows in a list that grows with the run. It keeps the page under 300 kB; what
/// isn't listed is in a file that the page offers.
const LISTED_MAX: usize = 120;

/// Maximum number of record files that are listed; a row takes 190 bytes.
const FILES_MAX: usize = 700;

/// The page of a run.
#[derive(Serialize)]
pub struct RunPage<'a> {
    frame: Frame,
    latest: bool,
    /// Id of the run that the report shows.
    shown_run: String,
    plan: Vec<(&'static str, String)>,
    identity: Vec<(&'static str, String)>,
    command: String,
    /// How many launches were made again after a stop, in words; empty where none.
    again: String,
    reproduce: String,
    pins: Vec<(String, String)>,
    environment: String,
    facts: &'a BTreeMap<String, String>,
    /// What each hash is of, the heading of the names, and the hashes by name.
    hashes: Vec<(&'static str, &'static str, &'a BTreeMap<String, String>)>,
    results: Vec<ResultTable>,
    comparisons: Comparisons,
    parity: Vec<parity::ParityRow>,
    checks: Vec<&'a CheckRecord>,
    checks_more: String,
    coverage: Figure,
    lag: Vec<(String, String)>,
    disturbances: Disturbances,
    gpus: Gpus,
    exceeded: Vec<String>,
    alone: Vec<(String, String)>,
    /// The harness's own error.
    calibration: Option<&'a Calibration>,
    capacities: &'a [Capacity],
    isa: Vec<(String, String)>,
    commands: Vec<(String, String)>,
    order: Vec<(String, String)>,
    files: Vec<FileRow>,
    /// Whether `files` has all; if not, it has those of launches that failed.
    all_files: bool,
    files_summary: String,
    downloads: &'a [Download],
}

#[derive(Serialize)]
struct FileRow {
    file: String,
    sha256: String,
    status: &'static str,
    ok: bool,
    requests: String,
    reason: String,
}

impl FileRow {
    fn new(file: &Path, sha256: &str, end: Option<&End>, requests: String) -> Self {
        let status = end.map(|end| end.status);
        Self {
            file: file.to_string_lossy().into_owned(),
            sha256: sha256.to_owned(),
            status: status.map_or("cut short", status_words),
            ok: status == Some(Status::Ok),
            requests,
            reason: end.map(|end| end.reason.clone()).unwrap_or_default(),
        }
    }
}

/// Make the page of one run with its `downloads`; `latest` where it is the run that the report
/// shows.
pub fn page<'a>(shown: &Shown<'a>, latest: bool, downloads: &'a [Download]) -> RunPage<'a> {
    let header = &shown.run.header;
    let provenance = &header.provenance;
    let command = command(&header.argv);
    let records = || shown.run.launches.iter().chain(&shown.run.twins);
    let again = records().filter(|log| log.launch.attempt > 0).count();
    let suites = shown.run.micro.iter().map(suite_row);
    let mut files: Vec<FileRow> = records().map(file_row).chain(suites).collect();
    let files_summary = plural(files.len() as u64, "record file", "record files");
    let all_files = files.len() <= FILES_MAX;
    if !all_files {
        files.retain(|file| !file.ok);
        files.truncate(FILES_MAX);
    }
    let (checks, checks_more) = parity::checks(shown);
    let of_report = shown.input.runs.first();
    let of_report = of_report.map_or("", |run| run.header.id.as_str());
    RunPage {
        frame: shown.frame(
            &run_path(&header.id),
            &format!("Run {}", header.id),
            "Results, environment, command, hashes, parity and record files of one run.",
        ),
        latest,
        shown_run: of_report.to_owned(),
        plan: plan_rows(shown),
        identity: identity(shown),
        again: match again {
            0 => String::new(),
            n => plural(n as u64, "launch was", "launches were"),
        },
        reproduce: reproduce(
            provenance.git_revision.as_deref(),
            &self::command(&whole(&header.argv)),
        ),
        command,
        pins: pins::rows(provenance),
        environment: provenance
            .pins
            .command(provenance.git_revision.as_deref().map(quote).as_deref()),
        facts: &provenance.facts,
        hashes: vec![
            ("Programs", "Target", &provenance.binaries),
            ("Model files", "File", &provenance.model_files),
            ("Lock files", "File", &provenance.lockfiles),
        ],
        results: results_table::tables(shown),
        comparisons: match latest {
            true => Comparisons::default(),
            false => Comparisons::new(shown),
        },
        parity: parity::rows(shown),
        checks,
        checks_more,
        coverage: coverage::map(shown),
        lag: disturbances::largest(shown, MetricId::ReportLagNs),
        disturbances: disturbances::view(shown),
        gpus: gpus::view(shown),
        exceeded: shown.analysis.exceeded.iter().map(exceeded).collect(),
        alone: alone_rows(shown),
        calibration: shown.run.calibration.as_ref(),
        capacities: &shown.run.capacities,
        isa: pins::instruction_limits(shown),
        commands: commands(shown),
        order: order(shown),
        files_summary,
        all_files,
        files,
        downloads,
    }
}

/// Compare what each target took for the same work alone and in turns (alone ÷ in turns).
fn alone_rows(shown: &Shown) -> Vec<(String, String)> {
    let all = alone(&shown.run.header.plan.scenarios, &shown.analysis.cells);
    all.into_iter()
        .map(|found| {
            let ratio = fmt::ratio(found.ratio.ratio, found.ratio.ci95);
            let cases = format!("{} ÷ {}", found.alone, found.in_turns);
            let label = format!("{} ({cases})", found.target);
            (label, fmt::joined(ratio))
        })
        .collect()
}

/// Say why no share of a limit is given.
fn exceeded(limit: &Exceeded) -> String {
    let title = limit.metric.describe().title;
    format!(
        "{title} is not given: {} would have {:.0} % of what this machine was measured to do at best, so that measurement is wrong, or was made while the machine was slow.",
        limit.target, limit.percent
    )
}

fn identity(shown: &Shown) -> Vec<(&'static str, String)> {
    let header = &shown.run.header;
    let revision = header.provenance.git_revision.clone();
    let unknown = || "could not be read".to_owned();
    vec![
        ("Run", header.id.clone()),
        ("Record format", header.format.to_string()),
        ("Hash of the plan (sha256)", header.plan_sha256.clone()),
        ("Revision", revision.unwrap_or_else(unknown)),
        (
            "Tracked files",
            match header.provenance.git_dirty {
                Some(true) => "differed from the revision".into(),
                Some(false) => "as in the revision".into(),
                None => unknown(),
            },
        ),
    ]
}

fn plan_rows(shown: &Shown) -> Vec<(&'static str, String)> {
    let plan = &shown.run.header.plan;
    let profile = shown.input.profiles.iter().find(|p| p.id == plan.profile);
    let about = profile
        .map(|p| format!(" – {}", p.about))
        .unwrap_or_default();
    let model = match shown.input.models.get(&plan.model) {
        Some(model) => format!(
            "{} ({}), {} parameters",
            model.name,
            model.id,
            fmt::count(model.parameters)
        ),
        None => plan.model.clone(),
    };
    vec![
        ("Profile", format!("{}{about}", plan.profile)),
        (
            "Publishable",
            if plan.publishable { "yes" } else { "no" }.into(),
        ),
        ("Model", model),
        ("Seed", plan.seed.to_string()),
        (
            "Seed of the prompts",
            match plan.prompt_seed {
                Some(seed) => format!("{seed}, drawn as the run began"),
                None => "the same".into(),
            },
        ),
        ("Threads per engine", plan.threads.to_string()),
        (
            "Launches per target and scenario",
            plan.invocations.to_string(),
        ),
        (
            "Untimed requests per case",
            plan.warmup_requests.to_string(),
        ),
        ("Request timeout", format!("{} s", plan.request_timeout_s)),
        ("Load timeout", format!("{} s", plan.load_timeout_s)),
        ("Run twice in every block", ran_twice(shown)),
        (
            "Baseline of ratios",
            match shown.target(shown.baseline()) {
                Some(baseline) => baseline.id.clone(),
                None => format!("none: {} is not in this run", shown.baseline()),
            },
        ),
        (
            "Smallest difference that matters",
            fmt::percent_more(plan.matters()),
        ),
        (
            "Reference of outputs",
            shown.input.registry.reference.clone(),
        ),
    ]
}

/// Say which targets ran twice in the run and how long that took.
fn ran_twice(shown: &Shown) -> String {
    let one = |twin: &Twin| {
        let role = match twin.role {
            TwinRole::Fastest => "the fastest",
            TwinRole::Median => "of middling pace",
            TwinRole::Slowest => "the slowest",
        };
        format!(
            "{} ({role} by the pilot, about {})",
            twin.target,
            about(twin.cost_s)
        )
    };
    match noise::twins(shown) {
        [] => "no target".into(),
        twins => twins.iter().map(one).collect::<Vec<_>>().join("; "),
    }
}

fn reproduce(revision: Option<&str>, command: &str) -> String {
    match revision {
        Some(revision) => format!("git checkout {}\n{command}", quote(revision)),
        None => command.to_owned(),
    }
}

/// The command line of every target's first launch, with the instruction limit that was set for it.
fn commands(shown: &Shown) -> Vec<(String, String)> {
    let rows = shown.targets().iter().filter_map(|target| {
        let log = shown.logs(&target.id).next()?;
        let limit = log.launch.isa_limit.as_ref();
        let set = limit.map_or(String::new(), |limit| {
            format!("{}={} ", limit.variable, quote(&limit.value))
        });
        let command = shell(&log.launch.argv);
        Some((target.id.clone(), format!("{set}{command}")))
    });
    rows.collect()
}

/// List the planned launches in order, one line per block.
fn order(shown: &Shown) -> Vec<(String, String)> {
    let launches = shown.run.header.plan.launches.iter();
    let texts = launches.map(|launch| {
        let cases = launch.cases.join(" ");
        let text = format!("{} {} ({cases})", launch.scenario, launch.target);
        (launch.invocation, text)
    });
    by_key(texts)
        .into_iter()
        .map(|(block, texts)| (format!("Block {block}"), texts.join(" → ")))
        .collect()
}

fn file_row(log: &LaunchLog) -> FileRow {
    let timed = log.requests.iter().filter(|r| !r.warmup).count() as u64;
    FileRow::new(&log.file, &log.sha256, log.end.as_ref(), fmt::count(timed))
}

/// A micro suite's launch times calls and sends no request.
fn suite_row(log: &MicroLog) -> FileRow {
    FileRow::new(&log.file, &log.sha256, log.end.as_ref(), fmt::NONE.into())
}

/// The arguments without those that stop a run before its end.
fn whole(argv: &[String]) -> Vec<String> {
    let mut words = argv.iter();
    let mut kept = Vec::new();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--stop-after" => {
                words.next();
            }
            word if word.starts_with("--stop-after=") => {}
            word => kept.push(word.to_owned()),
        }
    }
    kept
}

/// The command that made a run, as one would type it in a checkout. A record has only the harness's
/// arguments; `cargo xtask` is put before them.
fn command(argv: &[String]) -> String {
    match argv.first().map(String::as_str) {
        Some("cargo") => shell(argv),
        _ => format!("cargo xtask {}", shell(argv)),
    }
}

/// Join a command line, quoted for a shell.
fn shell(argv: &[String]) -> String {
    argv.iter()
        .map(|word| quote(word))
        .collect::<Vec<_>>()
        .join(" ")
}

fn quote(word: &str) -> String {
    let plain = !word.is_empty()
        && word
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"-_./=:,+@%".contains(&b));
    if plain {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_repeated_by_what_can_be_typed() {
        let argv = ["bench-all", "--profile", "cpu"].map(String::from);
        assert_eq!(command(&argv), "cargo xtask bench-all --profile cpu");
        let whole = ["cargo", "xtask", "bench-all"].map(String::from);
        assert_eq!(command(&whole), "cargo xtask bench-all");
    }

    #[test]
    fn commands_are_quoted_for_a_shell() {
        let argv = ["cargo", "xtask", "a b", "it's", ""].map(String::from);
        assert_eq!(shell(&argv), r"cargo xtask 'a b' 'it'\''s' ''");
    }
}
