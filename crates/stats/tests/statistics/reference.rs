//! Tests of the basics against published values, of their edge cases, and of unpaired ratios
//! against SciPy 1.17.1. `scipy.rs` compares everything else with NumPy and SciPy.
//!
//! Each constant names its source; those of SciPy came from the call quoted beside them, printed
//! with `repr`.

use crate::common::assert_close;
use stats::ci::{mean_interval, t_quantile, t_two_sided_p};
use stats::describe::{cv, describe, mean, median, stddev};
use stats::family::holm;
use stats::percentile::{POINTS_MAX, percentile, printable, quantiles_of_sorted, sorted};
use stats::ratio::{cliffs_delta, paired_ratio, unpaired_ratio};

#[test]
fn description_agrees_with_nist() {
    // NIST Statistical Reference Datasets, univariate summary: NumAcc1 is
    // 10000001, 10000003, 10000002 (certified mean 10000002, s 1); NumAcc2 is
    // 1.2, then 500 times 1.1, 1.3 (certified mean 1.2, s 0.1).
    let acc1 = [10000001.0, 10000003.0, 10000002.0];
    assert_close(mean(&acc1).unwrap(), 10000002.0);
    assert_close(stddev(&acc1).unwrap(), 1.0);
    let mut acc2 = vec![1.2];
    acc2.extend([1.1, 1.3].repeat(500));
    assert_close(mean(&acc2).unwrap(), 1.2);
    assert_close(stddev(&acc2).unwrap(), 0.1);
}

#[test]
fn a_percentile_is_of_0_to_100() {
    for p in [-0.1, 100.1, f64::NAN] {
        assert_eq!(percentile(&[1.0, 2.0], p), None);
    }
}

#[test]
fn a_percentile_is_printed_only_with_ten_requests_beyond_it() {
    for (p, from) in [(90, 100), (95, 200), (99, 1000)] {
        assert!(!printable(p, from - 1), "p{p}");
        assert!(printable(p, from), "p{p}");
    }
    assert!(!printable(100, u64::MAX));
}

#[test]
fn a_t_quantile_needs_a_probability_and_degrees_of_freedom() {
    for (p, df) in [
        (0.0, 4.0),
        (1.0, 4.0),
        (f64::NAN, 4.0),
        (0.5, 0.0),
        (0.5, f64::NAN),
    ] {
        assert_eq!(t_quantile(p, df), None);
    }
}

#[test]
fn a_t_tail_of_infinity_is_nothing() {
    assert_eq!(t_two_sided_p(f64::INFINITY, 4.0), Some(0.0));
    assert_eq!(t_two_sided_p(f64::NAN, 4.0), None);
}

#[test]
fn the_paired_test_agrees_with_students_sleep_data() {
    // Student (1908); in R: t.test(extra ~ group, data = sleep, paired = TRUE) gives p = 0.002833
    // and the interval −2.4598858 … −0.7001142 of the difference. The log ratios of the values'
    // exponentials are those differences.
    let one = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0];
    let two = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4];
    let r = paired_ratio(&one.map(f64::exp), &two.map(f64::exp)).unwrap();
    assert!((r.p.unwrap() - 0.002833).abs() < 5e-7);
    let (low, high) = r.ci95.unwrap();
    assert!((low.ln() - -2.4598858).abs() < 5e-8);
    assert!((high.ln() - -0.7001142).abs() < 5e-8);
}

#[test]
fn a_paired_test_without_variance_is_certain() {
    let same = paired_ratio(&[2.0, 3.0, 4.0], &[2.0, 3.0, 4.0]).unwrap();
    assert_eq!((same.ratio, same.p), (1.0, Some(1.0)));
    assert_eq!(same.ci95, Some((1.0, 1.0)));
    let twice = paired_ratio(&[2.0, 2.0, 2.0], &[1.0, 1.0, 1.0]).unwrap();
    assert_close(twice.ratio, 2.0);
    assert_eq!(twice.p, Some(0.0));
    let single = paired_ratio(&[2.0], &[1.0]).unwrap();
    assert_eq!((single.blocks, single.ci95, single.p), (1, None, None));
}

#[test]
fn holm_agrees_with_published_examples() {
    // The example of pingouin.holm's documentation.
    let adjusted = holm(&[0.50, 0.003, 0.32, 0.054, 0.0003]).unwrap();
    for (got, want) in adjusted.iter().zip([0.64, 0.012, 0.64, 0.162, 0.0015]) {
        assert_close(*got, want);
    }
    // By hand, with α = 0.05 the textbook case of four: 0.005·4, 0.01·3, 0.03·2,
    // and 0.04·1, which the step before it lifts to 0.06.
    let adjusted = holm(&[0.01, 0.04, 0.03, 0.005]).unwrap();
    for (got, want) in adjusted.iter().zip([0.03, 0.06, 0.06, 0.02]) {
        assert_close(*got, want);
    }
    assert_eq!(holm(&[]), Some(vec![]));
    assert_eq!(holm(&[0.9, 0.8]), Some(vec![1.0, 1.0]));
    assert_eq!(holm(&[0.5, f64::NAN]), None);
    assert_eq!(holm(&[1.5]), None);
}

#[test]
fn cliffs_delta_by_hand() {
    assert_eq!(cliffs_delta(&[2.0, 3.0], &[0.0, 1.0]), Some(1.0));
    assert_eq!(cliffs_delta(&[0.0, 1.0], &[2.0, 3.0]), Some(-1.0));
    assert_eq!(cliffs_delta(&[1.0, 1.0], &[1.0]), Some(0.0));
}

#[test]
fn of_many_values_there_are_only_so_many_quantiles() {
    let few: Vec<f64> = (0..POINTS_MAX).map(|i| i as f64).collect();
    assert_eq!(quantiles_of_sorted(&few), few);
    let many: Vec<f64> = (0..1000_u32).map(f64::from).collect();
    assert_eq!(quantiles_of_sorted(&many).len(), POINTS_MAX);
}

#[test]
fn empty_and_non_finite_input_has_no_answer() {
    let bad: [&[f64]; 4] = [
        &[],
        &[1.0, f64::NAN],
        &[1.0, f64::INFINITY],
        &[f64::NEG_INFINITY],
    ];
    for bad in bad {
        assert_eq!(sorted(bad), None);
        assert_eq!(describe(bad), None);
        assert_eq!(median(bad), None);
        assert_eq!(mean(bad), None);
        assert_eq!(stddev(bad), None);
        assert_eq!(percentile(bad, 50.0), None);
        assert_eq!(mean_interval(bad), None);
        assert_eq!(cv(bad), None);
        assert_eq!(cliffs_delta(bad, &[1.0]), None);
        assert_eq!(cliffs_delta(&[1.0], bad), None);
        assert_eq!(paired_ratio(bad, bad), None);
    }
    assert_eq!(paired_ratio(&[1.0, 2.0], &[1.0]), None);
    assert_eq!(paired_ratio(&[1.0, 0.0], &[1.0, 1.0]), None);
    assert_eq!(paired_ratio(&[1.0, -1.0], &[1.0, 1.0]), None);
    assert_eq!(cv(&[1.0, -1.0]), None, "the mean is 0");
    assert_eq!(mean_interval(&[1.0]), None);
    // Sums that overflow give no result either.
    assert_eq!(describe(&[-f64::MAX, f64::MAX]), None);
}

#[test]
fn unpaired_ratios_agree_with_scipy() {
    // r = scipy.stats.ttest_ind(np.log(a), np.log(b), equal_var=False);
    // np.exp of the difference of means and of r.confidence_interval(0.95), r.pvalue
    let agrees = |a: &[f64], b: &[f64], ratio: f64, ci95: (f64, f64), p: f64| {
        let got = unpaired_ratio(a, b, 1.0).unwrap();
        assert_close(got.ratio, ratio);
        assert_close(got.ci95.0, ci95.0);
        assert_close(got.ci95.1, ci95.1);
        assert_close(got.p, p);
    };
    agrees(
        &[10.0, 10.4, 9.9, 10.1, 10.2],
        &[11.2, 11.0, 11.5, 11.1, 10.9],
        0.9084612573215659,
        (0.8826259339998235, 0.9350528057953547),
        6.0468833789888584e-05,
    );
    // Unequal numbers: 2.2003801418619306 degrees of freedom.
    agrees(
        &[3.1, 2.9, 3.3, 3.0, 3.05, 2.95, 3.2],
        &[3.0, 3.4, 2.6],
        1.0290296345530618,
        (0.7521529724482405, 1.4078279652897026),
        0.7501984004556269,
    );
    // Two against two, one of them nearly still: 1.0173374193295732 degrees.
    agrees(
        &[1.0, 2.0],
        &[1.5, 1.6],
        0.9128709291752768,
        (0.0130411016208952, 63.900532145084945),
        0.8363621810016441,
    );
}

#[test]
fn unpaired_ratios_of_odd_input() {
    let still = |a: f64, b: f64| unpaired_ratio(&[a, a, a], &[b, b], 1.0).unwrap();
    assert_eq!(still(2.0, 2.0).p, 1.0);
    assert_eq!(still(2.0, 2.0).ci95, (1.0, 1.0));
    assert_eq!(still(4.0, 2.0).p, 0.0);
    assert_close(still(4.0, 2.0).ratio, 2.0);
    for (a, b) in [
        (&[1.0][..], &[1.0, 2.0][..]),
        (&[1.0, 2.0], &[]),
        (&[1.0, 0.0], &[1.0, 2.0]),
        (&[1.0, f64::NAN], &[1.0, 2.0]),
        (&[1.0, 2.0], &[1.0, f64::INFINITY]),
    ] {
        assert_eq!(unpaired_ratio(a, b, 1.0), None, "{a:?} {b:?}");
    }
    let (a, b) = ([1.0, 1.1, 0.9], [2.0, 2.1]);
    assert_eq!(unpaired_ratio(&a, &b, f64::INFINITY), None);
    let width = |inflation| {
        let (low, high) = unpaired_ratio(&a, &b, inflation).unwrap().ci95;
        (high / low).ln()
    };
    assert_close(width(3.0), 3.0 * width(1.0));
}
