//! How long a large run takes to become a site, and in how much memory: a synthetic
//! run of a million timed requests, `cargo run --release -p site --example million`.
//! No number in it was measured but its own time. A benchmark, not a test: it asserts
//! nothing of the clock.

#[path = "../tests/common/mod.rs"]
mod common;

use anyhow::{Context, Result};
use std::time::Instant;

/// Requests per case and launch that make a million in all.
const REQUESTS: u32 = 1900;

fn main() -> Result<()> {
    let requests = match std::env::args().nth(1) {
        Some(text) => text.parse().context("requests per case and launch")?,
        None => REQUESTS,
    };
    let world = common::world(vec![common::run("cpu", 5, requests)]);
    let timed = world.runs[0].launches.iter().flat_map(|log| &log.requests);
    let (mut count, mut tokens) = (0u64, 0u64);
    for request in timed.filter(|request| !request.warmup) {
        count += 1;
        tokens += request.token_ns.len() as u64;
    }
    println!("{count} timed requests, {tokens} token stamps");
    println!("{} MiB peak with the run in memory", peak_mib()?);
    let start = Instant::now();
    let run = &world.runs[0];
    let analysis = stats::analyse(run, &world.scenarios, &world.registry.baseline);
    println!("{:.2} s to analyse", start.elapsed().as_secs_f64());
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

/// Largest resident set of this process so far.
fn peak_mib() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|rest| rest.split_whitespace().next());
    Ok(kib.context("no VmHWM")?.parse::<u64>()? / 1024)
}
