//! Measures how long the records of a large run take to become a site, and how much memory that
//! takes: `cargo run --release -p site --example million`. The run is synthetic, with a million
//! timed requests; no number in it was measured. It is a benchmark, not a test: it asserts nothing
//! about times.

#[path = "../tests/rendered/common/mod.rs"]
mod common;

use anyhow::{Context, Result};
use schema::launch_log::LaunchLog;
use schema::record::RecordEvent;
use schema::run::Run;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::Instant;

/// Requests per case and launch that make a million in all.
const REQUESTS: u32 = 1900;

fn main() -> Result<()> {
    let requests = match std::env::args().nth(1) {
        Some(text) => text.parse().context("requests per case and launch")?,
        None => REQUESTS,
    };
    let mut world = common::world(vec![common::run("cpu", 5, requests)]);
    let dir = tempfile::tempdir()?;
    let dir = dir.path().join(&world.runs[0].header.id);
    let bytes = write(&world.runs[0], &dir)?;
    world.runs[0].launches.clear();
    println!("{} MiB peak while the records were made up", peak_mib()?);

    let start = Instant::now();
    let files = Run::load(&dir)?;
    println!(
        "{:.2} s to read {bytes} bytes",
        start.elapsed().as_secs_f64()
    );
    let timed = files.launches.iter().flat_map(|log| &log.requests);
    let (mut count, mut tokens) = (0u64, 0u64);
    for request in timed.filter(|request| !request.warmup) {
        count += 1;
        tokens += request.token_ns.len() as u64;
    }
    println!("{count} timed requests, {tokens} token stamps");
    // What a record keeps beside the launches (gate, budget) exists only in memory here.
    world.runs[0].launches = files.launches;
    let run = &world.runs[0];
    let analysis = stats::analyse(run, &world.scenarios, &world.registry.baseline);
    println!("{:.2} s until analysed", start.elapsed().as_secs_f64());
    let pages = site::render_analysed(&world.input(), &[analysis])?;
    let bytes: usize = pages.values().map(Vec::len).sum();
    println!(
        "{:.2} s in all, {} files of {bytes} bytes",
        start.elapsed().as_secs_f64(),
        pages.len()
    );
    println!("{} MiB peak", peak_mib()?);
    Ok(())
}

/// Write the run's header and launches as records below `dir`; return their size (bytes).
fn write(run: &Run, dir: &Path) -> Result<u64> {
    std::fs::create_dir_all(dir)?;
    serde_json::to_writer(File::create(dir.join("run.json"))?, &run.header)?;
    let mut bytes = 0;
    for log in &run.launches {
        let path = dir.join(&log.file);
        std::fs::create_dir_all(path.parent().context("a file of a directory")?)?;
        let mut out = BufWriter::new(File::create(&path)?);
        for event in events(log) {
            serde_json::to_writer(&mut out, &event)?;
            out.write_all(b"\n")?;
        }
        out.flush()?;
        bytes += out.get_ref().metadata()?.len();
    }
    Ok(bytes)
}

/// The lines of a launch's record, in order.
fn events(log: &LaunchLog) -> impl Iterator<Item = RecordEvent> + '_ {
    let head = std::iter::once(RecordEvent::Launch(log.launch.clone()));
    let ready = log.ready.iter().cloned().map(RecordEvent::Ready);
    let requests = log.requests.iter().cloned().map(RecordEvent::Request);
    let readings = log.telemetry.iter().cloned();
    let readings = readings.map(|reading| RecordEvent::Telemetry(Box::new(reading)));
    let ends = log.case_ends.iter().cloned().map(RecordEvent::CaseEnd);
    let end = log.end.iter().cloned().map(RecordEvent::End);
    head.chain(ready)
        .chain(requests)
        .chain(readings)
        .chain(ends)
        .chain(end)
}

/// Largest resident set of this process so far (MiB).
fn peak_mib() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|rest| rest.split_whitespace().next());
    Ok(kib.context("no VmHWM")?.parse::<u64>()? / 1024)
}
