//! Experiments whose truth is known, put through the functions that judge real ones:
//! how often the 95 % interval holds the truth, how often two equal targets are
//! called different, and how often a true difference is found.
//!
//! A sample is log-normal: `exp(b + e)` with `b` the launch's own, `e` an
//! autoregression of order 1 within the launch, and the variance of `b` the intraclass
//! correlation's share of the whole. Nothing is shared by a block: pairing then
//! helps nothing, which is the worst case for a comparison.
//!
//! Nothing of an engine is imitated here (batching, tails, failures): it is the
//! arithmetic from samples to verdict that is on trial.
//!
//! Random numbers are seeded, uniform and normal. The same seed gives
//! the same numbers anywhere, but for the last bit of a logarithm or a cosine.

use crate::analysis::Verdict;
use crate::ci::mean_interval;
use crate::compare::verdict;
use crate::describe::{mean, median};
use crate::noise::bound;
use crate::ratio::paired_ratio;
use schema::simulation::Found;

/// Standard deviation of a sample's logarithm. In the first published `cpu` run, on a
/// shared machine, that of the end-to-end latency was 0.18 in the median cell and
/// 0.29 in the ninth of ten.
pub const LOG_STDDEV: f64 = 0.3;
/// Autocorrelation at lag 1 within a launch; there 0.25 and 0.43.
pub const LAG1: f64 = 0.5;
/// The true difference to be found, a fraction.
pub const DIFFERENCE: f64 = 0.05;
/// Launches of which the truth is the mean: its error is then under a hundredth of
/// any interval's half width.
const TRUTH_LAUNCHES: u32 = 50_000;

/// One kind of experiment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setting {
    /// Launches per target.
    pub invocations: u32,
    /// Samples per launch.
    pub requests: u32,
    /// Share of the variance that lies between launches, 0…1.
    pub icc: f64,
}

/// What came of `experiments` of a kind; `None` with a single launch, which gives
/// neither an interval nor a verdict. The draws depend on the seed and the setting.
pub fn simulate(setting: &Setting, experiments: u32, seed: u64) -> Option<Found> {
    let mut random = Random::new(seed ^ key(setting));
    let truth = truth(setting, &mut random)?;
    let mut launches = || -> Vec<f64> {
        let launch = |_| launch_median(setting, &mut random);
        (0..setting.invocations).map(launch).collect()
    };
    count(experiments, truth, &mut launches)
}

/// The same where launches' statistics are drawn directly, log-normal with the given
/// standard deviation of the logarithm.
pub fn simulate_launches(
    invocations: u32,
    log_stddev: f64,
    experiments: u32,
    seed: u64,
) -> Option<Found> {
    let mut random = Random::new(seed ^ log_stddev.to_bits() ^ u64::from(invocations));
    let mut launches = || -> Vec<f64> {
        let launch = |_| (log_stddev * random.normal()).exp();
        (0..invocations).map(launch).collect()
    };
    let truth = (log_stddev * log_stddev / 2.0).exp();
    count(experiments, truth, &mut launches)
}

/// Draw experiments and judge them: two targets to compare, and two others that run
/// twice, whose pairs give the floor.
fn count(experiments: u32, truth: f64, launches: &mut impl FnMut() -> Vec<f64>) -> Option<Found> {
    let mut hits = [0_u32; 5];
    for _ in 0..experiments {
        let (a, b) = (launches(), launches());
        let mut floor = 1.0_f64;
        for _ in 0..2 {
            floor = floor.max(bound(&paired_ratio(&launches(), &launches())?)?);
        }
        let interval = mean_interval(&a)?;
        let better: Vec<f64> = b.iter().map(|x| x * (1.0 + DIFFERENCE)).collect();
        let equal = paired_ratio(&b, &a)?;
        let different = paired_ratio(&better, &a)?;
        let counts = [
            interval.low <= truth && truth <= interval.high,
            decided(verdict(equal.ratio, equal.p, None)),
            decided(verdict(equal.ratio, equal.p, Some(floor))),
            verdict(different.ratio, different.p, None) == Verdict::Better,
            verdict(different.ratio, different.p, Some(floor)) == Verdict::Better,
        ];
        for (hits, counts) in hits.iter_mut().zip(counts) {
            *hits += u32::from(counts);
        }
    }
    let share = |index: usize| f64::from(hits[index]) / f64::from(experiments);
    (experiments > 0).then(|| Found {
        coverage: share(0),
        false_positive_test: share(1),
        false_positive: share(2),
        power_test: share(3),
        power: share(4),
    })
}

fn decided(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Better | Verdict::Worse)
}

/// The expected statistic of a launch. Launch and course are independent factors:
/// `E[exp(b)] = exp(σ²/2)` is known, the median of a course is averaged over many.
fn truth(setting: &Setting, random: &mut Random) -> Option<f64> {
    let (between, _) = spreads(setting);
    let medians: Vec<f64> = (0..TRUTH_LAUNCHES)
        .map(|_| course_median(setting, random))
        .collect();
    Some(mean(&medians)? * (between * between / 2.0).exp())
}

fn launch_median(setting: &Setting, random: &mut Random) -> f64 {
    let (between, _) = spreads(setting);
    (between * random.normal()).exp() * course_median(setting, random)
}

/// The median of one launch's samples, but for the launch's own factor.
fn course_median(setting: &Setting, random: &mut Random) -> f64 {
    let (_, within) = spreads(setting);
    let fresh = (1.0 - LAG1 * LAG1).sqrt();
    let mut state = random.normal();
    let samples: Vec<f64> = (0..setting.requests)
        .map(|_| {
            let sample = (within * state).exp();
            state = LAG1 * state + fresh * random.normal();
            sample
        })
        .collect();
    median(&samples).expect("exponentials of moderate numbers are finite, and there is one")
}

/// Standard deviation of the logarithm between launches, and within one.
fn spreads(setting: &Setting) -> (f64, f64) {
    let part = |share: f64| LOG_STDDEV * share.sqrt();
    (part(setting.icc), part(1.0 - setting.icc))
}

fn key(setting: &Setting) -> u64 {
    let size = u64::from(setting.invocations) << 32 | u64::from(setting.requests);
    size ^ setting.icc.to_bits()
}

/// A stream of random numbers.
pub struct Random {
    state: u64,
    spare: Option<f64>,
}

impl Random {
    /// The stream of a seed.
    pub fn new(seed: u64) -> Self {
        Self {
            state: seed,
            spare: None,
        }
    }

    /// The next 64 bits: SplitMix64 (Steele, Lea & Flood, "Fast splittable
    /// pseudorandom number generators", 2014).
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Uniform in (0, 1], so that it has a logarithm.
    pub fn unit(&mut self) -> f64 {
        ((self.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// Standard normal (Box & Muller 1958), two at a time.
    pub fn normal(&mut self) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        let radius = (-2.0 * self.unit().ln()).sqrt();
        let (sin, cos) = (std::f64::consts::TAU * self.unit()).sin_cos();
        self.spare = Some(radius * sin);
        radius * cos
    }
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
        // Of 1000 at 95 % the standard deviation is 0.7 points; 3.5 of them allowed.
        let found = simulate(&setting(5, 0.1), 1000, 1).unwrap();
        assert!((0.925..=0.975).contains(&found.coverage), "{found:?}");
        assert!(found.false_positive_test <= 0.075, "{found:?}");
        assert!(found.false_positive <= found.false_positive_test);
        assert!(found.power <= found.power_test);
    }

    #[test]
    fn quiet_launches_show_a_difference_and_noisy_ones_hide_it() {
        let power = |spread| simulate_launches(5, spread, 500, 1).unwrap().power;
        assert!(power(0.002) > 0.99);
        assert!(power(0.1) < 0.2);
    }

    #[test]
    fn one_launch_says_nothing() {
        assert_eq!(simulate(&setting(1, 0.5), 10, 1), None);
    }

    #[test]
    fn normals_have_the_moments_of_the_normal() {
        let mut random = Random::new(1);
        let n = 200_000;
        let mut sums = [0.0; 4];
        for _ in 0..n {
            let x = random.normal();
            for (power, sum) in sums.iter_mut().enumerate() {
                *sum += x.powi(power as i32 + 1) / f64::from(n);
            }
        }
        // 0, 1, 0, 3, with errors of √(1, 2, 15, 96)/√n; five of them allowed.
        let limits = [(0.0, 1.0), (1.0, 2.0), (0.0, 15.0), (3.0, 96.0)];
        for (sum, (want, variance)) in sums.into_iter().zip(limits) {
            assert!((sum - want).abs() < 5.0 * f64::sqrt(variance / f64::from(n)));
        }
    }

    #[test]
    fn a_seed_is_a_stream() {
        let draw = |seed| {
            let mut random = Random::new(seed);
            [random.normal(), random.normal(), random.unit()]
        };
        assert_eq!(draw(3), draw(3));
        assert_ne!(draw(3), draw(4));
    }
}
