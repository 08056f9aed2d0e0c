//! `fake-micro`: a micro program with a known output that fails in every way on request, by the
//! name of its variant: `ok`, `noisy` (within a limit), `wrong`, `stale` (right before it is
//! timed, wrong after), `refuse`, `panic`, `crash`, `hang`, `slow`, `full` (only half of its
//! output can be written), `cut` (dies while writing it). Only cases with the parameter `fails`
//! fail. `sigill` dies of an illegal instruction in every case, unless `FAKE_MAX_ISA` is set. It
//! sums the numbers up to `n`.

use protocol::engine::EngineError;
use protocol::micro::wire::{Hello, Load, Prepare};
use protocol::micro::{Suite, parameter, unknown_variant};
use std::process::ExitCode;

fn main() -> ExitCode {
    protocol::micro::main::<Summing>()
}

#[derive(Default)]
struct Summing {
    variant: String,
    fails: bool,
    n: u64,
    calls: u64,
    sum: u64,
}

const VARIANTS: [&str; 12] = [
    "ok", "noisy", "wrong", "stale", "refuse", "panic", "crash", "hang", "slow", "full", "cut",
    "sigill",
];

impl Suite for Summing {
    fn open(load: &Load) -> Result<(Self, Hello), EngineError> {
        if !VARIANTS.contains(&load.variant.as_str()) {
            return Err(unknown_variant(load));
        }
        let summing = Self {
            variant: load.variant.clone(),
            ..Self::default()
        };
        Ok((summing, Hello::default()))
    }

    fn prepare(&mut self, case: &Prepare) -> Result<f64, EngineError> {
        self.n = parameter(case, "n")? as u64;
        self.fails = parameter(case, "fails")? != 0;
        self.calls = 0;
        limit_files(libc::RLIM_INFINITY);
        if self.fails && self.variant == "refuse" {
            return Err(EngineError::unsupported("it was told to refuse"));
        }
        Ok(self.n as f64)
    }

    fn call(&mut self) -> Result<(), EngineError> {
        self.calls += 1;
        self.sum = std::hint::black_box((1..=self.n).sum());
        match self.variant.as_str() {
            "panic" if self.fails => panic!("it was told to panic"),
            "crash" if self.fails => std::process::abort(),
            "hang" if self.fails => loop {
                std::thread::park();
            },
            "sigill" if std::env::var_os("FAKE_MAX_ISA").is_none() => {
                // SAFETY: no handler of ours: the process ends here.
                unsafe { libc::raise(libc::SIGILL) };
                unreachable!("it is dead")
            }
            "slow" if self.fails => {
                std::thread::sleep(std::time::Duration::from_millis(100));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn output(&mut self) -> Result<Vec<f64>, EngineError> {
        match self.variant.as_str() {
            "full" if self.fails => {
                // SAFETY: no handler of ours: the signal is only ignored.
                unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
                limit_files(8);
            }
            "cut" if self.fails => limit_files(8),
            _ => {}
        }
        let error = match self.variant.as_str() {
            "noisy" => 1e-6,
            "wrong" if self.fails => 1e-2,
            "stale" if self.fails && self.calls > 1 => 1e-2,
            _ => 0.0,
        };
        Ok(vec![1.0, self.sum as f64 * (1.0 + error)])
    }
}

/// Limit the size of the files written from here on: a write beyond it is refused if SIGXFSZ is
/// ignored, and ends the process otherwise.
fn limit_files(bytes: libc::rlim_t) {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: both take a limit that is ours and whole.
    unsafe {
        libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit);
        limit.rlim_cur = bytes.min(limit.rlim_max);
        libc::setrlimit(libc::RLIMIT_FSIZE, &limit);
    }
}
