//! The data page: every number of the site in files, with their hashes, and every format described
//! from the source that defines it. The files that each run offers and the feed are made here too.

use crate::export::{self, COLUMNS};
use crate::fmt;
use crate::html::{escape, slug};
use crate::results;
use crate::view::Shown;
use crate::view::frame::{Frame, published};
use crate::view::paths::{self, run_path};
use crate::view::place;
use crate::words::plural;
use anyhow::Result;
use schema::document::{SOURCES, Type, types};
use schema::hash::sha256_hex;
use schema::run::Run;
use serde::Serialize;
use serde_json::json;

/// A file that the data page offers.
#[derive(Serialize)]
pub struct Download {
    /// Path from the root of the site.
    pub path: String,
    name: String,
    /// What the file holds, in one line.
    about: String,
    /// The media type.
    media: &'static str,
    size: usize,
    sha256: String,
    /// The content.
    #[serde(skip)]
    pub bytes: Vec<u8>,
}

impl Download {
    fn new(path: String, about: &str, media: &'static str, bytes: Vec<u8>) -> Self {
        Self {
            name: path.rsplit('/').next().unwrap_or_default().to_owned(),
            about: about.to_owned(),
            size: bytes.len(),
            sha256: sha256_hex(&bytes),
            path,
            media,
            bytes,
        }
    }
}

/// Make the files of one run.
pub fn downloads(shown: &Shown) -> Result<Vec<Download>> {
    let (run, analysis) = (shown.run, shown.analysis);
    let rows = export::rows(run, analysis);
    let dir = format!("data/{}", slug(&run.header.id));
    let mut all = vec![
        Download::new(
            format!("{dir}/results.json"),
            "Everything derived from the run’s engines: cells, metrics with intervals, comparisons, A/A pairs",
            "application/json",
            results::results_json(run, analysis, shown.baseline())?.into_bytes(),
        ),
        Download::new(
            format!("{dir}/results.csv"),
            "The same values as tidy rows, one per cell and metric (RFC 4180)",
            "text/csv",
            export::csv(&rows)?.into_bytes(),
        ),
        Download::new(
            format!("{dir}/records.sha256"),
            "sha256 of every record file, to be checked with sha256sum -c in the run’s directory",
            "text/plain",
            sha256_list(run).into_bytes(),
        ),
    ];
    if !run.header.plan.micro.is_empty() {
        all.push(suites_csv(shown)?);
    }
    let packed = shown.input.publishing.records;
    if let Some(records) = packed.and_then(|packed| packed.get(&run.header.id)) {
        all.push(Download::new(
            format!("{dir}/records.tar.zst"),
            "The raw records: every request with every stamp, and what surrounds them",
            "application/zstd",
            records.clone(),
        ));
    }
    Ok(all)
}

/// Make the file with the rows of a run's micro suites.
fn suites_csv(shown: &Shown) -> Result<Download> {
    let suites = shown.micro.iter();
    let rows: Vec<_> = suites
        .flat_map(|suite| export::suite_rows(shown.run, suite))
        .collect();
    Ok(Download::new(
        suites_path(shown.run),
        &format!(
            "What the micro suites of run {} give, as tidy rows with the same columns",
            shown.run.header.id
        ),
        "text/csv",
        export::csv(&rows)?.into_bytes(),
    ))
}

/// Path of the file that [`suites_csv`] makes.
fn suites_path(run: &Run) -> String {
    format!("data/{}/micro.csv", slug(&run.header.id))
}

/// Write a line `<sha256>  <file>` for each record file, as sha256sum prints it. A name with a line
/// break can't have been loaded as a record; its line breaks are replaced all the same.
fn sha256_list(run: &Run) -> String {
    let logs = run.launches.iter().chain(&run.twins);
    let logs = logs.map(|log| (&log.file, &log.sha256));
    let suites = run.micro.iter().map(|log| (&log.file, &log.sha256));
    logs.chain(suites)
        .map(|(file, sha256)| {
            let file = file.to_string_lossy().replace(['\n', '\r'], "\u{fffd}");
            format!("{sha256}  {file}\n")
        })
        .collect()
}

/// The data page.
#[derive(Serialize)]
pub struct DataPage<'a> {
    frame: Frame,
    answer: String,
    files: Vec<&'a Download>,
    runs: Vec<RunRow<'a>>,
    has_records: bool,
    columns: Vec<(&'static str, &'static str)>,
    /// Title and types of each format.
    formats: Vec<(&'static str, Vec<Type>)>,
    json_ld: String,
}

#[derive(Serialize)]
struct RunRow<'a> {
    id: String,
    started: String,
    profile: String,
    files: String,
    requests: String,
    shown: bool,
    downloads: &'a [Download],
}

/// Make the data page. `below` is the run whose micro suites the site shows; `downloads` holds the
/// files of every run, in the order of the runs.
pub fn page<'a>(
    shown: &Shown,
    below: Option<&Shown>,
    downloads: &'a [Vec<Download>],
) -> DataPage<'a> {
    let input = shown.input;
    let run = shown.run;
    let suites = below.map(|below| suites_path(below.run));
    let others = downloads.iter().skip(1).flatten();
    let others = others.filter(|download| suites.as_ref() == Some(&download.path));
    let listed: Vec<&Download> = downloads.iter().take(1).flatten().chain(others).collect();
    let (files, requests) = counts(run);
    let answer = format!(
        "Every number of these pages is computed from {} with {} of run {}; here they are for \
         programs, with what each field means and the hashes to check them by.",
        plural(files, "record file", "record files"),
        plural(requests, "timed request", "timed requests"),
        run.header.id
    );
    DataPage {
        frame: shown.frame(paths::DATA, "The data", &answer),
        runs: input
            .runs
            .iter()
            .zip(downloads)
            .map(|(other, files)| run_row(other, run, files))
            .collect(),
        has_records: input.publishing.records.is_some(),
        columns: COLUMNS.to_vec(),
        formats: formats(),
        json_ld: json_ld(shown, &listed, &answer),
        files: listed,
        answer,
    }
}

/// Count the record files, those of the micro suites too, and the timed requests in them.
fn counts(run: &Run) -> (u64, u64) {
    let logs = || run.launches.iter().chain(&run.twins);
    let timed = logs().map(|log| log.requests.iter().filter(|r| !r.warmup).count() as u64);
    ((logs().count() + run.micro.len()) as u64, timed.sum())
}

fn run_row<'a>(run: &Run, shown: &Run, downloads: &'a [Download]) -> RunRow<'a> {
    let (files, requests) = counts(run);
    RunRow {
        id: run.header.id.clone(),
        started: run.header.started.clone(),
        profile: run.header.plan.profile.clone(),
        files: fmt::count(files),
        requests: fmt::count(requests),
        shown: run.header.id == shown.header.id,
        downloads,
    }
}

fn formats() -> Vec<(&'static str, Vec<Type>)> {
    let results: Vec<Type> = results::SOURCES.into_iter().flat_map(types).collect();
    let others = SOURCES
        .into_iter()
        .map(|(title, source)| (title, types(source)));
    std::iter::once(("results.json", results))
        .chain(others)
        .collect()
}

/// Write an Atom feed of the runs (RFC 4287), newest first; `None` where the site's address isn't
/// known, because a feed's links must be absolute.
pub fn feed(all: &[Shown]) -> Option<String> {
    let input = all.first()?.input;
    input.publishing.base_url?;
    let mut runs: Vec<&Shown> = all.iter().collect();
    runs.sort_by(|a, b| b.run.header.started.cmp(&a.run.header.started));
    let entries: String = runs
        .iter()
        .map(|shown| {
            let header = &shown.run.header;
            let page = escape(&published(input, &run_path(&header.id)));
            let about = format!(
                "{} on {}",
                plural(shown.targets().len() as u64, "target", "targets"),
                place::place(shown)
            );
            format!(
                "<entry><title>Run {id}</title><id>{page}</id><link href=\"{page}\"/>\
                 <updated>{started}</updated><summary>{about}</summary></entry>\n",
                id = escape(&header.id),
                started = escape(&header.started),
                about = escape(&about)
            )
        })
        .collect();
    let home = escape(&published(input, paths::INDEX));
    Some(format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n\
         <feed xmlns=\"http://www.w3.org/2005/Atom\"><title>LLM inference in Rust, measured: runs</title>\
         <id>{home}</id><link href=\"{home}\"/><author><name>llm-engine-bench</name></author>\
         <updated>{updated}</updated>\n{entries}</feed>\n",
        updated = escape(&runs.first()?.run.header.started)
    ))
}

/// Describe the run as a schema.org Dataset in JSON-LD, for a script element that no browser runs.
fn json_ld(shown: &Shown, downloads: &[&Download], about: &str) -> String {
    let header = &shown.run.header;
    let at = |path: &str| match shown.input.publishing.base_url {
        Some(_) => published(shown.input, path),
        None => path.to_owned(),
    };
    let metrics: Vec<&str> = stats::analysis::MetricId::ALL
        .iter()
        .map(|id| id.describe().name)
        .collect();
    let dataset = json!({
        "@context": "https://schema.org/",
        "@type": "Dataset",
        "name": format!("LLM inference in Rust, measured: run {}", header.id),
        "description": about,
        "identifier": header.plan_sha256,
        "dateCreated": header.started,
        "url": at(paths::DATA),
        "isAccessibleForFree": true,
        "variableMeasured": metrics,
        "distribution": downloads.iter().map(|download| json!({
            "@type": "DataDownload",
            "contentUrl": at(&download.path),
            "encodingFormat": download.media,
            "contentSize": format!("{} B", download.size),
            "sha256": download.sha256,
        })).collect::<Vec<_>>(),
    });
    // In a script element, only these characters could end it or start something else.
    dataset
        .to_string()
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
}
