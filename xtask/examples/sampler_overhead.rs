//! Measures what reading the counters costs on this machine: samples this process for some seconds,
//! as a run samples an engine's, and prints the sampler's own CPU time.
//!
//!     cargo run --release -p xtask --example sampler_overhead [SECONDS] [PID]
//!
//! Every run records the same figure (`sampler_cpu_ns`); this is for a machine on
//! which nothing has run yet.

use harness::gpu::device_of;
use harness::telemetry::Sampler;
use schema::record::{Readings, Telemetry};
use std::time::Duration;

fn main() {
    let argument = |index| std::env::args().nth(index)?.parse::<u32>().ok();
    let seconds = argument(1).unwrap_or(10);
    let pid = argument(2).unwrap_or_else(std::process::id);
    let sampler = Sampler::start(pid, device_of("cuda"));
    sampler.begin("overhead");
    std::thread::sleep(Duration::from_secs(seconds.into()));
    let readings = sampler.take();
    drop(sampler);
    let (Some(first), Some(last)) = (readings.first(), readings.last()) else {
        println!("no readings in {seconds} s");
        return;
    };
    let cpu_ns = |reading: &Telemetry| reading.sampler_cpu_ns.unwrap_or(0) as f64;
    let wall_ns = (last.t_ns - first.t_ns) as f64;
    let used_ns = cpu_ns(last) - cpu_ns(first);
    let gaps = readings.windows(2).map(|two| two[1].t_ns - two[0].t_ns);
    let packed = Readings::pack("overhead", &readings);
    let bytes = serde_json::to_vec(&packed).map_or(0, |line| line.len());
    println!(
        "{:.2} readings/s, longest gap {:.1} ms",
        (readings.len() - 1) as f64 / (wall_ns / 1e9),
        gaps.max().unwrap_or(0) as f64 / 1e6
    );
    println!(
        "{:.3} % of a core, {:.0} µs a reading",
        100.0 * used_ns / wall_ns,
        used_ns / (readings.len() - 1).max(1) as f64 / 1e3
    );
    println!("{} bytes a reading in a record", bytes / readings.len());
    println!(
        "counters: {}",
        packed.columns.into_keys().collect::<Vec<_>>().join(", ")
    );
}
