//! One rate that a kernel of ours reached.

use serde::Serialize;

/// One measured rate.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// The best repetition: what interrupts and neighbours took least from.
    pub best: f64,
    /// The middle one: how far the best is from the usual.
    pub median: f64,
    /// How many there were.
    pub repetitions: usize,
    /// Threads that worked.
    pub threads: usize,
    /// Instructions used.
    pub kernel: String,
}

impl Measured {
    /// Rates from the seconds each repetition of `work` units took.
    pub(super) fn new(work: f64, seconds: &[f64], threads: usize, kernel: &str) -> Self {
        let mut rates: Vec<f64> = seconds.iter().map(|s| work / s.max(1e-9)).collect();
        rates.sort_by(f64::total_cmp);
        let middle = rates.len() / 2;
        let median = match rates.len() {
            0 => f64::NAN,
            n if n % 2 == 1 => rates[middle],
            _ => (rates[middle - 1] + rates[middle]) / 2.0,
        };
        Self {
            best: rates.last().copied().unwrap_or(f64::NAN),
            median,
            repetitions: rates.len(),
            threads,
            kernel: kernel.to_owned(),
        }
    }
}
