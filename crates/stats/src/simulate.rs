//! Experiments of known truth, judged by the functions that judge real runs: how often the 95 %
//! interval contains the true value, how often two equal targets are called different, and how
//! often a true difference is found.
//!
//! A sample is log-normal: `exp(b + e)`, where `b` is the launch's own deviation, `e` an
//! autoregression of order 1 within the launch, and the variance of `b` a share of the whole, the
//! intraclass correlation. The launches of a block share nothing: then pairing helps nothing, which
//! is the worst case for a comparison. Launches that don't fit this model are simulated too: see
//! [`Shape`].
//!
//! No engine is imitated (batching, tails, failures): only the arithmetic from samples to verdict
//! is tested.
//!
//! Random numbers are seeded, uniform and normal. The same seed gives the same numbers anywhere,
//! but for the last bit of a logarithm or a cosine.

use crate::analysis::Verdict;
use crate::ci::{CONFIDENCE, mean_interval};
use crate::compare::{MATTERS, verdict};
use crate::describe::{mean, median};
use crate::noise::inflation;
use crate::random::Random;
use crate::ratio::{PairedRatio, paired_ratio, paired_ratio_at};
use schema::simulation::Outcome;

/// Standard deviation of a sample's logarithm. In the first published `cpu` run, on a shared
/// machine, that of the end-to-end latency was 0.18 in the median cell and 0.29 at the ninth decile
/// of cells.
pub const LOG_STDDEV: f64 = 0.3;
/// Autocorrelation at lag 1 within a launch; in that run it was 0.25 and 0.43.
pub const LAG1: f64 = 0.5;
/// True difference to be found, a fraction.
pub const DIFFERENCE: f64 = 0.05;
/// True difference to be found where launches are of an awkward [`Shape`], a fraction.
pub const SHAPES_DIFFERENCE: f64 = 0.2;
/// Smallest difference that matters in the test for equality, as a ratio. Few launches can't show
/// equality within the usual one.
const EQUAL_WITHIN: f64 = 1.05;
/// Number of A/A pairs in an experiment: those of two targets in three cases.
pub(crate) const PAIRS: usize = 6;
/// Standard deviation of the logarithm of a launch's statistic in awkward shapes.
const SHAPES_STDDEV: f64 = 0.03;
/// Number of launches over which the truth is averaged: its error is then under a hundredth of any
/// interval's half width.
const TRUTH_LAUNCHES: u32 = 50_000;

/// The size of an experiment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setting {
    /// Number of launches per target.
    pub invocations: u32,
    /// Number of samples per launch.
    pub requests: u32,
    /// Share of the variance that lies between launches, 0…1.
    pub icc: f64,
}

/// A distribution of launches, undisturbed or awkward.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    /// Undisturbed: log-normal with this standard deviation of the logarithm.
    Spread(f64),
    /// This share of launches takes 1.7 times as long, as on a shared machine.
    Slow(f64),
    /// Blocks differ in speed by up to this fraction, for all targets alike.
    Drift(f64),
    /// Each name has a factor of its own in all blocks, with this standard deviation of the
    /// logarithm, as from its place in memory, or in the order of launches.
    Named(f64),
    /// A target's launch resembles its own one block before: autocorrelation at lag 1.
    Correlated(f64),
}

impl Shape {
    /// The awkward shapes.
    pub const AWKWARD: [Shape; 6] = [
        Shape::Slow(0.1),
        Shape::Slow(0.25),
        Shape::Drift(0.2),
        Shape::Named(0.01),
        Shape::Named(0.03),
        Shape::Correlated(0.3),
    ];

    /// Describe the shape in words.
    pub fn words(self) -> String {
        match self {
            Self::Spread(spread) => format!("launches vary by {} %", 100.0 * spread),
            Self::Slow(share) => {
                format!("{} % of launches take 1.7 times as long", 100.0 * share)
            }
            Self::Drift(by) => format!("blocks differ by up to {} %", 100.0 * by),
            Self::Named(spread) => {
                format!(
                    "each name has a factor of its own of about {} %",
                    100.0 * spread
                )
            }
            Self::Correlated(lag1) => {
                format!("a launch is like the one before it (autocorrelation {lag1})")
            }
        }
    }

    /// Return the standard deviation of the logarithm of launches, apart from the shape's own
    /// effect.
    fn spread(self) -> f64 {
        match self {
            Self::Spread(spread) => spread,
            _ => SHAPES_STDDEV,
        }
    }

    /// Return the mean of a launch's statistic, for a name without a factor of its own.
    pub(crate) fn truth(self) -> f64 {
        let factor = match self {
            Self::Slow(share) => 1.0 + share * (SLOW_TIMES - 1.0),
            // The mean of (1 + by) to the power of a uniform number in ±½.
            Self::Drift(by) => 2.0 * (by.ln_1p() / 2.0).sinh() / by.ln_1p(),
            Self::Spread(_) | Self::Named(_) | Self::Correlated(_) => 1.0,
        };
        factor * (self.spread().powi(2) / 2.0).exp()
    }
}

/// Factor by which a slow launch takes longer.
pub(crate) const SLOW_TIMES: f64 = 1.7;

/// Simulate `experiments` of one setting; `None` with a single launch, which gives neither an
/// interval nor a verdict. The draws depend on the seed and the setting.
pub fn simulate(setting: &Setting, experiments: u32, seed: u64) -> Option<Outcome> {
    let mut random = Random::new(seed ^ key(setting));
    let truth = truth(setting, &mut random)?;
    let (between, _) = spreads(setting);
    let mut launches = |_: &[f64]| -> Vec<f64> {
        let launch = |_| (between * random.normal()).exp() * course_median(setting, &mut random);
        (0..setting.invocations).map(launch).collect()
    };
    let blocks = vec![1.0; setting.invocations as usize];
    count(
        experiments,
        truth,
        DIFFERENCE,
        &mut || blocks.clone(),
        &mut launches,
    )
}

/// Simulate experiments in which launches' statistics are drawn directly, of a shape, with a true
/// `difference` to be found.
pub fn simulate_launches(
    invocations: u32,
    shape: Shape,
    difference: f64,
    experiments: u32,
    seed: u64,
) -> Option<Outcome> {
    let named = |salt: u64| {
        let of_shape = shape.words().bytes().fold(salt, |hash, byte| {
            hash.wrapping_mul(31).wrapping_add(u64::from(byte))
        });
        Random::new(seed ^ of_shape ^ u64::from(invocations))
    };
    let (mut random, mut of_blocks) = (named(1), named(2));
    let mut launches = |blocks: &[f64]| -> Vec<f64> {
        let name = match shape {
            Shape::Named(spread) => (spread * random.normal()).exp(),
            _ => 1.0,
        };
        let lag1 = match shape {
            Shape::Correlated(lag1) => lag1,
            _ => 0.0,
        };
        let mut like_before = Autoregression::new(lag1, &mut random);
        let launch = |block: &f64| {
            let slow = match shape {
                Shape::Slow(share) if random.unit() < share => SLOW_TIMES,
                _ => 1.0,
            };
            like_before.go_on(&mut random);
            block * name * slow * (shape.spread() * like_before.state).exp()
        };
        blocks.iter().map(launch).collect()
    };
    let mut blocks = || -> Vec<f64> {
        let block = |_| match shape {
            Shape::Drift(by) => drifted(by, &mut of_blocks),
            _ => 1.0,
        };
        (0..invocations).map(block).collect()
    };
    count(
        experiments,
        shape.truth(),
        difference,
        &mut blocks,
        &mut launches,
    )
}

/// Draw experiments and judge them. Each has two targets to compare, and others that run twice,
/// whose pairs say how large errors are.
fn count(
    experiments: u32,
    truth: f64,
    difference: f64,
    blocks: &mut impl FnMut() -> Vec<f64>,
    launches: &mut impl FnMut(&[f64]) -> Vec<f64>,
) -> Option<Outcome> {
    let mut hits = [0_u32; 6];
    let (mut intervals, mut covered) = (0_u32, 0_u32);
    for _ in 0..experiments {
        let of_blocks = blocks();
        // Draw a target's launches, and count whether their interval contains the true value.
        let mut target = || -> Option<Vec<f64>> {
            let drawn = launches(&of_blocks);
            let interval = mean_interval(&drawn)?;
            intervals += 1;
            covered += u32::from(interval.low <= truth && truth <= interval.high);
            Some(drawn)
        };
        let (a, b) = (target()?, target()?);
        let pairs: Option<Vec<PairedRatio>> = (0..PAIRS)
            .map(|_| paired_ratio(&target()?, &target()?))
            .collect();
        let inflation = inflation(&pairs?)?;
        // Compare `b`, slower by a fraction, with `a`; `inflation` is 1 without the A/A pairs.
        let slower = |by: f64, inflation: f64| {
            let slower: Vec<f64> = b.iter().map(|x| x * (1.0 + by)).collect();
            paired_ratio_at(&slower, &a, CONFIDENCE, inflation)
        };
        let said =
            |by: f64, matters: f64| slower(by, inflation).map(|r| verdict(r.p, r.ci95, matters));
        let significant = |by: f64| slower(by, 1.0).and_then(|r| r.p).is_some_and(|p| p < 0.05);
        let equal = |by: f64| said(by, EQUAL_WITHIN) == Some(Verdict::Equal);
        let counts = [
            significant(0.0),
            said(0.0, MATTERS)?.is_difference(),
            significant(difference),
            said(difference, MATTERS)? == Verdict::Better,
            equal(0.0),
            equal(EQUAL_WITHIN - 1.0),
        ];
        for (hits, counts) in hits.iter_mut().zip(counts) {
            *hits += u32::from(counts);
        }
    }
    let share = |index: usize| f64::from(hits[index]) / f64::from(experiments);
    (experiments > 0).then(|| Outcome {
        coverage: f64::from(covered) / f64::from(intervals),
        false_positive_test: share(0),
        false_positive: share(1),
        power_test: share(2),
        power: share(3),
        equal: share(4),
        false_equal: share(5),
    })
}

/// Return the expected statistic of a launch. The launch's own factor and its course are
/// independent: `E[exp(b)] = exp(σ²/2)` is known, the median of a course is averaged over many.
fn truth(setting: &Setting, random: &mut Random) -> Option<f64> {
    let (between, _) = spreads(setting);
    let medians: Vec<f64> = (0..TRUTH_LAUNCHES)
        .map(|_| course_median(setting, random))
        .collect();
    Some(mean(&medians)? * (between * between / 2.0).exp())
}

/// Return the median of one launch's samples, without the launch's own factor.
fn course_median(setting: &Setting, random: &mut Random) -> f64 {
    median(&course(setting, random))
        .expect("exponentials of moderate numbers are finite, and there is one")
}

/// Draw one launch's samples, without the launch's own factor.
pub(crate) fn course(setting: &Setting, random: &mut Random) -> Vec<f64> {
    let (_, within) = spreads(setting);
    let mut course = Autoregression::new(LAG1, random);
    let sample = |_| {
        let sample = (within * course.state).exp();
        course.go_on(random);
        sample
    };
    (0..setting.requests).map(sample).collect()
}

/// An autoregression of order 1, of variance 1.
struct Autoregression {
    lag1: f64,
    state: f64,
}

impl Autoregression {
    fn new(lag1: f64, random: &mut Random) -> Self {
        let state = random.normal();
        Self { lag1, state }
    }

    fn go_on(&mut self, random: &mut Random) {
        let fresh = (1.0 - self.lag1 * self.lag1).sqrt();
        self.state = self.lag1 * self.state + fresh * random.normal();
    }
}

/// Draw the factor of a block, where blocks differ by up to the fraction `by`.
pub(crate) fn drifted(by: f64, random: &mut Random) -> f64 {
    (1.0 + by).powf(random.unit() - 0.5)
}

/// Return the standard deviations of the logarithm between launches, and within one.
pub(crate) fn spreads(setting: &Setting) -> (f64, f64) {
    let part = |share: f64| LOG_STDDEV * share.sqrt();
    (part(setting.icc), part(1.0 - setting.icc))
}

/// Return a number of the setting, to which the seed is added.
pub(crate) fn key(setting: &Setting) -> u64 {
    let size = u64::from(setting.invocations) << 32 | u64::from(setting.requests);
    size ^ setting.icc.to_bits()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(invocations: u32, icc: f64) -> Setting {
        Setting {
            invocations,
            requests: 20,
            icc,
        }
    }

    #[test]
    fn equal_seeds_give_equal_shares() {
        let run = |seed| simulate(&setting(5, 0.5), 200, seed).unwrap();
        assert_eq!(run(1), run(1));
        assert_ne!(run(1), run(2));
    }

    #[test]
    fn the_interval_covers_and_the_verdict_seldom_errs() {
        // The standard deviation of 1000 trials at 95 % is 0.7 points; 3.5 of these are allowed.
        let found = simulate(&setting(5, 0.1), 1000, 1).unwrap();
        assert!((0.925..=0.975).contains(&found.coverage), "{found:?}");
        assert!(found.false_positive_test <= 0.075, "{found:?}");
        assert!(found.false_positive <= found.false_positive_test);
        assert!(found.power <= found.power_test);
        assert!(found.false_equal <= 0.05, "{found:?}");
    }

    #[test]
    fn quiet_launches_show_a_difference_and_noisy_ones_hide_it() {
        let found =
            |spread| simulate_launches(5, Shape::Spread(spread), DIFFERENCE, 500, 1).unwrap();
        assert!(found(0.002).power > 0.99 && found(0.002).equal > 0.99);
        assert!(found(0.1).power < 0.2 && found(0.1).equal < 0.2);
    }

    #[test]
    fn what_all_blocks_share_misleads_the_test_and_not_the_verdict() {
        let shape = Shape::Named(0.05);
        let found = simulate_launches(5, shape, DIFFERENCE, 1000, 1).unwrap();
        assert!(found.false_positive_test > 0.2, "{found:?}");
        assert!(found.false_positive < 0.08, "{found:?}");
    }

    #[test]
    fn one_launch_says_nothing() {
        assert_eq!(simulate(&setting(1, 0.5), 10, 1), None);
    }
}
