//! The load: processes that compute without end, and that start and stop at random times.

use anyhow::{Context, Result, bail};
use harness::arrivals::exponential;
use harness::engine::start::launch;
use harness::telemetry::cpus_allowed;
use protocol::clock::now_ns;
use splitmix::SplitMix64;
use std::ops::Range;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Mean time that the load runs, mean time that it rests, and shortest time of either (s).
const RUNS_S: f64 = 8.0;
const RESTS_S: f64 = 16.0;
const LEAST_S: f64 = 2.0;

/// Return the first `wanted` cores that the engine may run on. Fail where `taskset` can't keep a
/// process to one of them.
pub(super) fn cores(wanted: usize) -> Result<Vec<usize>> {
    let mut cores = cpus_allowed();
    cores.truncate(wanted);
    let Some(first) = cores.first() else {
        bail!("which CPUs this process may run on isn't known, so no load can be kept to one");
    };
    let mut try_it = Command::new("taskset");
    try_it.args(["-c", &first.to_string(), "true"]);
    let status = try_it.status().context(
        "taskset, of util-linux, can't be started; it keeps the load to the engine's cores",
    )?;
    if !status.success() {
        bail!("taskset can't keep a process to CPU {first}: {status}");
    }
    Ok(cores)
}

/// A thread that starts and stops the processes until it is told to end.
pub(super) struct Load {
    stop: Sender<()>,
    thread: JoinHandle<Result<Vec<Range<u64>>>>,
}

impl Load {
    pub(super) fn begin(cores: Vec<usize>, seed: u64) -> Self {
        let (stop, stopped) = channel();
        let thread = std::thread::spawn(move || come_and_go(&cores, seed, &stopped));
        Self { stop, thread }
    }

    /// End the load; return the times during which it ran (ns).
    pub(super) fn end(self) -> Result<Vec<Range<u64>>> {
        // Sending fails where the thread has ended already, and then nothing is left to do.
        let _ = self.stop.send(());
        self.thread.join().expect("the load's thread returns")
    }
}

fn come_and_go(cores: &[usize], seed: u64, stopped: &Receiver<()>) -> Result<Vec<Range<u64>>> {
    let mut random = SplitMix64(seed);
    let mut ran = Vec::new();
    let mut is_kept_to_cores = false;
    let mut ends = |mean_s: f64| {
        let until = Instant::now() + duration(&mut random, mean_s);
        stopped.recv_timeout(until - Instant::now()) != Err(RecvTimeoutError::Timeout)
    };
    while !ends(RESTS_S) {
        let start_ns = now_ns();
        let busy = Busy::start(cores, is_kept_to_cores)?;
        let is_over = ends(RUNS_S);
        busy.end()?;
        ran.push(start_ns..now_ns());
        is_kept_to_cores = !is_kept_to_cores;
        if is_over {
            break;
        }
    }
    Ok(ran)
}

/// Draw an exponentially distributed duration, so that the load never falls into step with anything
/// periodic.
fn duration(random: &mut SplitMix64, mean_s: f64) -> Duration {
    Duration::from_secs_f64((exponential(random) * mean_s).max(LEAST_S))
}

/// Processes that compute without end. They are killed when this is dropped.
struct Busy(Vec<Child>);

impl Busy {
    /// Start one process for each of `cores`.
    fn start(cores: &[usize], is_kept_to_cores: bool) -> Result<Self> {
        let mut busy = Self(Vec::new());
        for core in cores {
            let mut argv = vec!["sh", "-c", "while :; do :; done"];
            let core = core.to_string();
            if is_kept_to_cores {
                argv.splice(0..0, ["taskset", "-c", &core]);
            }
            let mut command = Command::new(argv[0]);
            command.args(&argv[1..]).stdin(Stdio::null());
            let child = launch(command).with_context(|| format!("{} can't be started", argv[0]))?;
            busy.0.push(child);
        }
        Ok(busy)
    }

    /// Kill the processes. Fail where one had ended by itself, so that it was no load.
    fn end(mut self) -> Result<()> {
        for child in &mut self.0 {
            if let Some(status) = child.try_wait()? {
                bail!("a process that should compute without end has ended: {status}");
            }
        }
        Ok(())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // Killing fails where the process has ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stats::describe::mean;

    #[test]
    fn a_load_runs_until_it_is_told_to_end() {
        let cores = cores(1).unwrap();
        let load = Load::begin(cores.clone(), 1);
        assert_eq!(load.end().unwrap(), [], "it rests first");
        for is_kept_to_cores in [false, true] {
            Busy::start(&cores, is_kept_to_cores)
                .unwrap()
                .end()
                .unwrap();
        }
        let mut dead = Busy::start(&cores, false).unwrap();
        dead.0[0].kill().unwrap();
        dead.0[0].wait().unwrap();
        let said = dead.end().unwrap_err().to_string();
        assert!(said.contains("has ended"), "{said}");
    }

    #[test]
    fn rests_differ_and_are_never_short() {
        let mut random = SplitMix64(3);
        let drawn: Vec<f64> = (0..2000)
            .map(|_| duration(&mut random, RESTS_S).as_secs_f64())
            .collect();
        assert!(drawn.iter().all(|&s| s >= LEAST_S));
        let mean_s = mean(&drawn).unwrap();
        // The mean is a little over 16 s, because shorter times are raised to 2 s.
        assert!((15.0..18.0).contains(&mean_s), "{mean_s}");
    }
}
