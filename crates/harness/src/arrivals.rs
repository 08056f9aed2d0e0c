//! Computes when the requests of an open loop are due. Pure: a seed and names give unit-rate gaps,
//! gaps and a rate give a schedule. All targets get the same gaps, so that none has an easier
//! burst; each invocation gets its own.

use base::random::{SplitMix64, hash};
use schema::scenario::LoadShape;

/// How many requests an open-loop case sends, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Untimed requests before the timed ones.
    pub warmup: usize,
    /// Timed requests.
    pub timed: usize,
    /// Untimed requests after the timed ones, so that the last timed ones run under load too.
    pub fillers: usize,
}

impl Counts {
    /// The number of all requests, timed or not.
    pub fn all(self) -> usize {
        self.warmup + self.timed + self.fillers
    }

    /// Whether the request at `index` is timed.
    pub fn is_timed(self, index: usize) -> bool {
        (self.warmup..self.warmup + self.timed).contains(&index)
    }
}

/// Gaps before each request at a rate of 1; their mean over the timed requests is exactly 1.
///
/// A Poisson load has exponential gaps, of which the timed ones are scaled so that their sum is
/// their number. The result is a Poisson process whose last timed arrival is known to fall where it
/// is due on average (given the n-th arrival, the earlier ones are distributed like sorted
/// uniforms: Ross, *Introduction to Probability Models*, 5.3). Rejected: unscaled gaps, whose
/// realised rate is off by 1/√n, 22 % with 20 requests, so that a case called 50 % would offer
/// anything from 30 to 70 %.
pub fn unit_gaps(load: LoadShape, seed: u64, name: &str, counts: Counts) -> Vec<f64> {
    if load != LoadShape::Poisson {
        return vec![1.0; counts.all()];
    }
    let mut random = SplitMix64(seed ^ hash(name));
    let mut gaps: Vec<f64> = (0..counts.all())
        .map(|_| exponential(&mut random))
        .collect();
    let timed = &mut gaps[counts.warmup..counts.warmup + counts.timed];
    let mean = timed.iter().sum::<f64>() / timed.len() as f64;
    timed.iter_mut().for_each(|gap| *gap /= mean);
    gaps
}

/// An exponential variate of mean 1, by inversion.
pub fn exponential(random: &mut SplitMix64) -> f64 {
    let uniform = (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64; // [0, 1)
    -(1.0 - uniform).ln()
}

/// When each request is due (ns from the start), at `rate_per_s` requests per second.
pub fn due_ns(gaps: &[f64], rate_per_s: f64) -> Vec<u64> {
    let mut at = 0.0;
    gaps.iter()
        .map(|gap| {
            at += gap;
            (at / rate_per_s * 1e9).round() as u64
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNTS: Counts = Counts {
        warmup: 3,
        timed: 400,
        fillers: 5,
    };

    fn poisson(seed: u64, name: &str) -> Vec<f64> {
        unit_gaps(LoadShape::Poisson, seed, name, COUNTS)
    }

    #[test]
    fn the_seed_and_the_name_alone_decide_the_gaps() {
        assert_eq!(poisson(1, "a"), poisson(1, "a"));
        assert_ne!(poisson(1, "a"), poisson(2, "a"));
        assert_ne!(poisson(1, "a"), poisson(1, "b"));
    }

    #[test]
    fn timed_gaps_have_mean_one_exactly_and_are_exponential_in_shape() {
        let gaps = poisson(7, "x");
        assert_eq!(gaps.len(), COUNTS.all());
        let timed = &gaps[3..403];
        let mean = timed.iter().sum::<f64>() / 400.0;
        assert!((mean - 1.0).abs() < 1e-12);
        // An exponential's standard deviation is its mean, and 1/e of it lies beyond it.
        let variance = timed.iter().map(|g| (g - 1.0) * (g - 1.0)).sum::<f64>() / 399.0;
        assert!((variance.sqrt() - 1.0).abs() < 0.15, "{variance}");
        let beyond = timed.iter().filter(|g| **g > 1.0).count() as f64 / 400.0;
        assert!((beyond - (-1.0f64).exp()).abs() < 0.08, "{beyond}");
    }

    #[test]
    fn a_rate_scales_the_schedule_and_rounding_does_not_add_up() {
        assert_eq!(
            due_ns(&[1.0, 0.5, 2.0], 4.0),
            [250_000_000, 375_000_000, 875_000_000]
        );
        let constant = unit_gaps(LoadShape::ConstantRate, 1, "x", COUNTS);
        // At 3 requests/s a gap is no whole number of ns; the 300th is still due at 100 s.
        assert_eq!(due_ns(&constant, 3.0)[299], 100_000_000_000);
    }

    #[test]
    fn what_is_timed_lies_between_warm_up_and_fillers() {
        let timed: Vec<usize> = (0..COUNTS.all()).filter(|&i| COUNTS.is_timed(i)).collect();
        assert_eq!((timed[0], timed.len(), timed[399]), (3, 400, 402));
    }
}
