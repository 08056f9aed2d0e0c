//! Tests of properties that must hold for every sample, on a few hundred seeded ones.

use crate::common::{assert_close, unit};
use splitmix::SplitMix64;
use stats::ci::{mean_interval, t_quantile, t_two_sided_p};
use stats::describe::{cv, describe};
use stats::family::{holm, tie_ranks};
use stats::percentile::{POINTS_MAX, percentile, quantiles_of_sorted, sorted};
use stats::ratio::{cliffs_delta, paired_ratio, unpaired_ratio};

/// Draw samples that are skewed, positive and with ties, as latencies are.
fn latencies(prng: &mut SplitMix64, n: usize) -> Vec<f64> {
    (0..n)
        .map(|_| (1.0 - unit(prng)).ln().abs().mul_add(40.0, 10.0).round())
        .collect()
}

#[test]
fn order_does_not_matter_to_the_last_bit() {
    let mut prng = SplitMix64(1);
    for round in 0..100 {
        let x = latencies(&mut prng, 1 + round);
        let mut shuffled = x.clone();
        prng.shuffle(&mut shuffled);
        assert_eq!(describe(&x), describe(&shuffled));
        assert_eq!(percentile(&x, 95.0), percentile(&shuffled, 95.0));
        let y = latencies(&mut prng, 20);
        assert_eq!(cliffs_delta(&x, &y), cliffs_delta(&shuffled, &y));
    }
}

#[test]
fn statistics_scale_with_the_unit() {
    let mut prng = SplitMix64(2);
    for _ in 0..100 {
        let x = latencies(&mut prng, 30);
        let us: Vec<f64> = x.iter().map(|x| x * 1000.0).collect();
        let (a, b) = (describe(&x).unwrap(), describe(&us).unwrap());
        for (a, b) in [
            (a.mean, b.mean),
            (a.stddev, b.stddev),
            (a.mad, b.mad),
            (a.median, b.median),
        ] {
            assert!((b - 1000.0 * a).abs() <= 1e-9 * b.abs(), "{a} {b}");
        }
        assert_close(cv(&us).unwrap(), cv(&x).unwrap());
        let (a, b) = (mean_interval(&x).unwrap(), mean_interval(&us).unwrap());
        assert_close(b.low, 1000.0 * a.low);
        assert_close(b.high, 1000.0 * a.high);
        // A ratio has no unit.
        let y = latencies(&mut prng, 30);
        let z: Vec<f64> = y.iter().map(|y| y * 1000.0).collect();
        let (a, b) = (
            paired_ratio(&x, &y).unwrap(),
            paired_ratio(&us, &z).unwrap(),
        );
        assert_close(b.ratio, a.ratio);
        assert_close(b.p.unwrap(), a.p.unwrap());
    }
}

#[test]
fn a_ratio_turned_round_is_its_reciprocal() {
    let mut prng = SplitMix64(3);
    for _ in 0..100 {
        let (x, y) = (latencies(&mut prng, 5), latencies(&mut prng, 5));
        let (there, back) = (paired_ratio(&x, &y).unwrap(), paired_ratio(&y, &x).unwrap());
        assert_close(back.ratio, 1.0 / there.ratio);
        assert_close(back.p.unwrap(), there.p.unwrap());
        let (low, high) = there.ci95.unwrap();
        assert!(low <= there.ratio && there.ratio <= high);
        assert_close(back.ci95.unwrap().0, 1.0 / high);
        // The interval and the test agree.
        assert_eq!(there.p.unwrap() < 0.05, low > 1.0 || high < 1.0);
    }
}

#[test]
fn cliffs_delta_is_what_counting_pairs_gives() {
    let mut prng = SplitMix64(4);
    for round in 0..100 {
        let (x, y) = (latencies(&mut prng, 1 + round), latencies(&mut prng, 37));
        let mut net = 0_i64;
        for a in &x {
            for b in &y {
                net += i64::from(a > b) - i64::from(a < b);
            }
        }
        let brute = net as f64 / (x.len() * y.len()) as f64;
        assert_eq!(cliffs_delta(&x, &y), Some(brute));
        assert_eq!(cliffs_delta(&y, &x), Some(-brute));
    }
}

#[test]
fn percentiles_ascend_within_the_sample() {
    let mut prng = SplitMix64(5);
    for round in 0..100 {
        let x = sorted(&latencies(&mut prng, 1 + 7 * round)).unwrap();
        let ladder: Vec<f64> = (0..=100)
            .map(|p| percentile(&x, f64::from(p)).unwrap())
            .collect();
        assert!(ladder.is_sorted());
        assert_eq!((ladder[0], ladder[100]), (x[0], x[x.len() - 1]));
        let points = quantiles_of_sorted(&x);
        assert!(points.is_sorted() && points.len() <= POINTS_MAX);
        assert_eq!(points.first(), x.first());
        assert_eq!(points.last(), x.last());
    }
}

#[test]
fn holm_lies_between_the_raw_values_and_bonferroni() {
    let mut prng = SplitMix64(6);
    for round in 1..60 {
        let p: Vec<f64> = (0..round).map(|_| unit(&mut prng).powi(3)).collect();
        let adjusted = holm(&p).unwrap();
        for (p, adjusted) in p.iter().zip(&adjusted) {
            assert!(p <= adjusted && *adjusted <= (p * f64::from(round)).min(1.0));
        }
        let mut order: Vec<usize> = (0..p.len()).collect();
        order.sort_by(|&a, &b| p[a].total_cmp(&p[b]));
        assert!(order.is_sorted_by(|&a, &b| adjusted[a] <= adjusted[b]));
    }
}

#[test]
fn the_quantile_of_t_is_the_inverse_of_its_tail() {
    for df in 1..200 {
        for p in [0.6, 0.9, 0.95, 0.975, 0.995, 0.9995] {
            let t = t_quantile(p, f64::from(df)).unwrap();
            assert_close(t_two_sided_p(t, f64::from(df)).unwrap(), 2.0 * (1.0 - p));
            let mirrored = t_quantile(1.0 - p, f64::from(df)).unwrap();
            assert_close(mirrored, -t);
        }
    }
}

#[test]
fn ninety_five_in_a_hundred_intervals_cover_the_mean() {
    // Irwin–Hall(12) − 6 is nearly normal; 4000 intervals of k = 5 over it cover
    // 0 in 95 % ± 1.4 % (4 standard errors).
    let mut prng = SplitMix64(7);
    let covered = (0..4000)
        .filter(|_| {
            let values: Vec<f64> = (0..5)
                .map(|_| (0..12).map(|_| unit(&mut prng)).sum::<f64>() - 6.0)
                .collect();
            let interval = mean_interval(&values).unwrap();
            interval.low <= 0.0 && 0.0 <= interval.high
        })
        .count();
    assert!((3744..=3856).contains(&covered), "{covered} of 4000");
}

#[test]
fn ranks_start_at_one_and_never_fall() {
    let mut prng = SplitMix64(8);
    for _ in 0..200 {
        let count = prng.below(12);
        let ranks = tie_ranks(count, |_, rest| {
            rest.map(|_| unit(&mut prng) < 0.4).collect()
        });
        assert_eq!(ranks.len(), count);
        assert!(ranks.is_sorted());
        for (place, rank) in ranks.iter().enumerate() {
            let first = ranks.iter().position(|r| r == rank).unwrap();
            assert_eq!(*rank as usize, first + 1, "place {place} of {ranks:?}");
        }
    }
}

#[test]
fn tie_groups_by_hand() {
    // Two values are apart if the second is more than 2 above the group's leader.
    let values: [f64; 6] = [1.0, 2.0, 2.9, 3.5, 5.0, 9.0];
    let ranks = tie_ranks(values.len(), |leader, rest| {
        rest.map(|i| values[i] - values[leader] > 2.0).collect()
    });
    assert_eq!(ranks, [1, 1, 1, 4, 4, 6]);
    assert_eq!(tie_ranks(0, |_, _| vec![]), Vec::<u32>::new());
    assert_eq!(tie_ranks(1, |_, _| vec![]), [1]);
}

/// Draw a normal deviate (Box & Muller 1958).
fn normal(prng: &mut SplitMix64) -> f64 {
    let radius = (-2.0 * (1.0 - unit(prng)).ln()).sqrt();
    radius * (std::f64::consts::TAU * unit(prng)).cos()
}

#[test]
fn welch_errs_as_often_as_it_is_known_to_with_unequal_spreads_and_numbers() {
    // Log-normal invocations of one true ratio, as few as profiles have. The levels are those of
    // scipy.stats.ttest_ind(…, equal_var=False) over 100 000 experiments: where the smaller sample
    // has the larger spread, Welch is a little over its 5 %.
    let settings = [
        (5, 0.02, 5, 0.02, 0.0435),
        (5, 0.01, 5, 0.04, 0.0537),
        (10, 0.02, 5, 0.05, 0.0548),
    ];
    for (a_size, a_spread, b_size, b_spread, level) in settings {
        let mut prng = SplitMix64(20_260_101);
        let (mut found, mut missed) = (0, 0);
        let experiments = 4000;
        for _ in 0..experiments {
            let mut draw = |size: usize, spread: f64, times: f64| -> Vec<f64> {
                let one = |_| times * (spread * normal(&mut prng)).exp();
                (0..size).map(one).collect()
            };
            let same = unpaired_ratio(
                &draw(a_size, a_spread, 1.0),
                &draw(b_size, b_spread, 1.0),
                1.0,
            );
            found += usize::from(same.unwrap().p < 0.05);
            let slow = unpaired_ratio(
                &draw(a_size, a_spread, 1.1),
                &draw(b_size, b_spread, 1.0),
                1.0,
            );
            let (low, high) = slow.unwrap().ci95;
            missed += usize::from(1.1 < low || high < 1.1);
        }
        for count in [found, missed] {
            // Four standard errors of a share of 4000.
            let share = count as f64 / f64::from(experiments);
            assert!((share - level).abs() < 0.0145, "{share} is not {level}");
        }
    }
}
