//! Measures what the dashboard costs on this machine: emits samples at a given rate for some
//! seconds, as a run does, and prints the time that the emitting thread spent on it. The dashboard
//! itself reports the time spent on drawing.
//!
//!     cargo run --release -p xtask --example dashboard_overhead [SECONDS] [PER_SECOND]
//!
//! Every run with `--tui` records the same figure (`dashboard_cpu_ns`).

use protocol::clock::now_ns;
use stats::percentile::percentile;
use std::process::ExitCode;
use std::time::Duration;
use watch::event::{Begin, Event, REQUEST_METERS, Sample, Stage};

fn main() -> ExitCode {
    let argument = |index| std::env::args().nth(index)?.parse::<u64>().ok();
    let seconds = argument(1).unwrap_or(10);
    let per_second = argument(2).unwrap_or(1000).max(1);
    let mut took_ns = Vec::new();
    let told = watch::session(true, |_| {
        watch::stage(Stage::Measure);
        watch::emit(Event::Begin(Begin {
            group: "overhead".into(),
            item: "samples".into(),
            detail: String::new(),
            meters: &REQUEST_METERS,
            skippable: false,
        }));
        let part = "one".to_owned();
        watch::emit(Event::Part {
            name: part,
            samples: 0,
        });
        for i in 0..seconds * per_second {
            std::thread::sleep(Duration::from_secs(1) / per_second as u32);
            let t_ns = now_ns();
            let ms = 1.0 + (i % 10) as f64 / 10.0;
            watch::emit(Event::Sample(Sample {
                t_ns,
                timed: true,
                values: [Some(ms), Some(2.0 * ms), Some(9.0 * ms)],
                work: 8.0,
            }));
            took_ns.push((now_ns() - t_ns) as f64);
        }
        watch::end("");
        Ok(ExitCode::SUCCESS)
    });
    if let (Some(median), Some(p99)) = (percentile(&took_ns, 50.0), percentile(&took_ns, 99.0)) {
        println!(
            "{} samples told, {median:.0} ns each, 99 % of them in at most {p99:.0} ns",
            took_ns.len()
        );
    }
    watch::conclude(told)
}
