//! Simulation of the intervals of percentiles: samples of known truth, pooled over launches of
//! which some may be slow.
//!
//! An interval is not given where no sample bounds it ([`percentile_interval`]), so its coverage is
//! that of the experiments that have one. These are the experiments whose launches happen to agree.

use crate::ci::percentile_interval;
use crate::describe::median;
use crate::percentile::{percentile_of_sorted, sorted};
use crate::random::Random;
use crate::simulate::{LOG_STDDEV, SLOW_TIMES, Setting, course, key, spreads};
use schema::simulation::PercentileOutcome;
use statrs::distribution::{ContinuousCDF, Normal};

/// Share of the variance that lies between launches.
pub const PERCENTILES_ICC: f64 = 0.1;

/// Simulate `experiments` of one setting, in which a share `slow` of the launches takes 1.7 times
/// as long, and count the intervals of the `p`-th percentile. `None` where no experiment has one.
pub fn simulate_percentile(
    setting: &Setting,
    slow: f64,
    p: u8,
    experiments: u32,
    seed: u64,
) -> Option<PercentileOutcome> {
    let mut random = Random::new(seed ^ key(setting) ^ slow.to_bits() ^ u64::from(p) << 40);
    let p = f64::from(p);
    let truth = truth(slow, p)?;
    let (mut covered, mut half_widths) = (0_u32, Vec::new());
    for _ in 0..experiments {
        let launches: Vec<Vec<f64>> = (0..setting.invocations)
            .map(|_| launch(setting, slow, &mut random))
            .collect();
        let ascending = sorted(&launches.concat())?;
        if let Some((low, high)) = percentile_interval(&launches, &ascending, p) {
            covered += u32::from((low..=high).contains(&truth));
            half_widths.push(50.0 * (high - low) / percentile_of_sorted(&ascending, p)?);
        }
    }
    let given = half_widths.len() as f64;
    Some(PercentileOutcome {
        half_width_percent: median(&half_widths)?,
        given: given / f64::from(experiments),
        coverage: f64::from(covered) / given,
    })
}

/// Draw the samples of a launch.
fn launch(setting: &Setting, slow: f64, random: &mut Random) -> Vec<f64> {
    let (between, _) = spreads(setting);
    let times = match random.unit() < slow {
        true => SLOW_TIMES,
        false => 1.0,
    };
    let of_launch = times * (between * random.normal()).exp();
    let samples = course(setting, random).into_iter();
    samples.map(|sample| of_launch * sample).collect()
}

/// Return the `p`-th percentile of all samples: of a mixture of two log-normal distributions.
fn truth(slow: f64, p: f64) -> Option<f64> {
    let usual = Normal::new(0.0, LOG_STDDEV).ok()?;
    let under = |log: f64| (1.0 - slow) * usual.cdf(log) + slow * usual.cdf(log - SLOW_TIMES.ln());
    // Ten standard deviations to each side, halved until no number lies between.
    let (mut low, mut high) = (-10.0 * LOG_STDDEV, 10.0 * LOG_STDDEV);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        match 100.0 * under(middle) < p {
            true => low = middle,
            false => high = middle,
        }
    }
    Some(low.exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTING: Setting = Setting {
        invocations: 5,
        requests: 72,
        icc: PERCENTILES_ICC,
    };

    #[test]
    fn the_truth_is_that_of_many_launches() {
        // The 90th percentile of the normal.
        let usual = (1.281_551_565_545 * LOG_STDDEV).exp();
        assert!((truth(0.0, 90.0).unwrap() - usual).abs() < 1e-9);
        assert!((truth(1.0, 90.0).unwrap() - SLOW_TIMES * usual).abs() < 1e-9);
        let mut random = Random::new(1);
        let draw = |_| launch(&SETTING, 0.25, &mut random);
        let launches: Vec<Vec<f64>> = (0..4000).map(draw).collect();
        let ascending = sorted(&launches.concat()).unwrap();
        for p in [50.0, 90.0] {
            let drawn = percentile_of_sorted(&ascending, p).unwrap();
            let truth = truth(0.25, p).unwrap();
            assert!((drawn / truth - 1.0).abs() < 0.025, "p{p}: {drawn} {truth}");
        }
    }

    #[test]
    fn launches_alike_are_covered_and_slow_ones_are_not() {
        let found = |slow, p| simulate_percentile(&SETTING, slow, p, 1000, 1).unwrap();
        assert_eq!(found(0.0, 90), found(0.0, 90));
        let middle = found(0.0, 50);
        assert!(middle.coverage > 0.925 && middle.given > 0.97, "{middle:?}");
        let tail = found(0.0, 90);
        assert!(tail.coverage > 0.89, "{tail:?}");
        assert!((0.4..0.95).contains(&tail.given), "{tail:?}");
        // The tail is that of the slow launches, and only a run that met none has an interval.
        let slow = found(0.25, 90);
        assert!(slow.coverage < 0.7 && slow.given < 0.5, "{slow:?}");
    }

    #[test]
    fn one_launch_has_no_interval() {
        let one = Setting {
            invocations: 1,
            ..SETTING
        };
        assert_eq!(simulate_percentile(&one, 0.0, 50, 10, 1), None);
    }
}
