//! Tests of numbers as text: digits, units, intervals, dashes, and labels of axes.

use super::*;

#[test]
fn how_much_more_is_rounded_up() {
    let said = |ratio| percent_more(ratio);
    assert_eq!(said(1.0), "0.0 %");
    assert_eq!(said(1.0311), "3.2 %");
    assert_eq!(said(1.05), "5.0 %");
    assert_eq!(said(1.221), "23 %");
    assert_eq!(said(2.31), "2.31×");
}

#[test]
fn times_have_three_digits_and_the_fitting_unit() {
    let cases = [
        (0.0, "0 ns"),
        (1.0, "1.00 ns"),
        (999.0, "999 ns"),
        (999.9, "1.00 µs"),
        (12_345.0, "12.3 µs"),
        (999_950.0, "1.00 ms"),
        (1.5e9, "1.50 s"),
        (7.2e12, "7200 s"),
        (1.234e13, "12\u{202f}340 s"),
        (-2.5e6, "−2.50 ms"),
    ];
    for (value, text) in cases {
        let expected = text.replace("12\u{202f}340", "12\u{202f}300");
        assert_eq!(quantity(Unit::Ns, value), expected, "{value}");
    }
}

#[test]
fn every_metric_has_a_unit_known_here() {
    for metric in MetricId::ALL {
        assert_ne!(Unit::from_metric(metric), Unit::Plain, "{metric:?}");
    }
}

#[test]
fn other_units() {
    assert_eq!(quantity(Unit::Bytes, 1536.0), "1.50 KiB");
    assert_eq!(quantity(Unit::Bytes, 3.0 * 1024f64.powi(3)), "3.00 GiB");
    assert_eq!(quantity(Unit::TokPerS, 1234.5), "1230 tok/s");
    assert_eq!(quantity(Unit::Joules, 0.0345), "34.5 mJ");
    assert_eq!(quantity(Unit::Joules, 12.34), "12.3 J");
    assert_eq!(quantity(Unit::Celsius, 71.04), "71.0 °C");
    assert_eq!(quantity(Unit::Mhz, 975.0), "975 MHz");
    assert_eq!(quantity(Unit::Mhz, 1980.0), "1.98 GHz");
    assert_eq!(quantity(Unit::FlopPerS, 6.21e10), "62.1 GFLOP/s");
    assert_eq!(percent(0.0312), "3.12 %");
    assert_eq!(p_value(0.0004), "< 0.001");
    assert_eq!(p_value(0.0341), "0.034");
    assert_eq!(delta(-0.104), "−0.10");
    assert_eq!(delta(0.834), "+0.83");
    assert_eq!(count(1_234_567), "1\u{202f}234\u{202f}567");
    assert_eq!(count(1234), "1234");
}

#[test]
fn what_is_not_finite_is_a_dash_and_what_is_huge_stays_short() {
    for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        assert_eq!(quantity(Unit::Ns, value), NONE);
        assert_eq!(tick(Unit::Ns, value), NONE);
        assert_eq!(ratio(value, None).0, NONE);
        assert_eq!(p_value(value), NONE);
        assert_eq!(delta(value), NONE);
    }
    assert_eq!(ratio(2.0, Some((1.0, f64::INFINITY))).1, None);
    assert_eq!(quantity(Unit::TokPerS, 1e308), "1.00e308 tok/s");
    assert_eq!(quantity(Unit::Ratio, 1e-300), "1.00e−300×");
}

#[test]
fn an_interval_shares_its_values_unit_and_never_collapses() {
    assert_eq!(
        with_interval(Unit::Ns, 12.3e6, Some((9.0e5, 12.8e6))),
        ("12.3 ms".into(), Some("[0.9, 12.8]".into()))
    );
    assert_eq!(
        with_interval(Unit::Ns, 123.40e6, Some((123.38e6, 123.42e6))),
        ("123.40 ms".into(), Some("[123.38, 123.42]".into()))
    );
    assert_eq!(
        ratio(1.0, Some((0.9994, 1.0042))),
        ("1.000×".into(), Some("[0.999, 1.004]".into()))
    );
    assert_eq!(
        with_interval(Unit::Ns, 20.0e6, Some((-3.0e6, 43.0e6))).1,
        Some("[−3.0, 43.0]".into())
    );
    assert_eq!(
        with_interval(Unit::Count, 4_460_006.0, Some((2_899_697.0, 6_020_316.0))),
        ("4.46 M".into(), Some("[2.90, 6.02]".into()))
    );
    assert_eq!(quantity(Unit::Count, 9_999.0), "10.0 k");
    let wide = joined(ratio(2.0, Some((1.9, 2.1))));
    assert_eq!(
        (wide, joined(ratio(2.0, None))),
        ("2.00× [1.90, 2.10]".into(), "2.00×".into())
    );
    assert_eq!(
        with_interval(Unit::Ns, 1e300, Some((0.0, 1e301))).1,
        Some("[0, 1.00e292]".into())
    );
}

#[test]
fn a_time_of_a_launch_has_a_range_where_its_interval_would_reach_below_zero() {
    let of = |id, launches: [f64; 5]| {
        let found = stats::ci::mean_interval(&launches).unwrap();
        metric(&Metric {
            ci95: Some((found.low, found.high)),
            ..Metric::of(id, found.mean, launches.into())
        })
    };
    let uneven = [0.903e9, 1.0e9, 0.914e9, 6.47e9, 0.837e9];
    let said = |value: &str, interval: &str| (value.to_owned(), Some(interval.to_owned()));
    let range = said("2.02 s", "(837 ms to 6.47 s in 5 launches)");
    for id in [MetricId::ColdStartNs, MetricId::LoadNs] {
        assert_eq!(of(id, uneven), range, "{id:?}");
    }
    let even = [4.02e9, 4.78e9, 4.73e9, 4.04e9, 4.90e9];
    let interval = said("4.49 s", "[3.96, 5.03]");
    assert_eq!(of(MetricId::ColdStartNs, even), interval);
    // The median of a launch's requests is no time that a launch has once.
    assert_eq!(
        of(MetricId::TtftNs, uneven),
        said("2.02 s", "[−1.06, 5.11]")
    );
}

#[test]
fn moments_are_short_where_they_are_moments() {
    assert_eq!(moment("2026-11-21T10:30:59Z"), "2026-11-21 10:30 UTC");
    assert_eq!(moment("2026-11-21T10:30:59.123Z"), "2026-11-21 10:30 UTC");
    assert_eq!(moment("yesterday"), "yesterday");
    assert_eq!(moment("éééé-11-21T10:30:59Z"), "éééé-11-21T10:30:59Z");
}

#[test]
fn a_ticks_label_is_its_value() {
    assert_eq!(tick(Unit::Ns, 2e6), "2 ms");
    assert_eq!(tick(Unit::Ns, 1.025e9), "1.025 s");
    assert_eq!(tick(Unit::Ratio, 0.1 + 0.2), "0.3×");
    assert_eq!(tick(Unit::Percent, 0.0), "0");
    assert_eq!(tick(Unit::Plain, 512.0), "512");
}

#[test]
fn prices_are_written_as_they_are_quoted() {
    for (usd, text) in [
        (1.0, "$1.00"),
        (0.34, "$0.34"),
        (0.0816, "$0.0816"),
        (55.04, "$55.04"),
    ] {
        assert_eq!(money(usd), text);
    }
    assert_eq!(money(f64::NAN), NONE);
    assert_eq!(money(1e308), "$1.00e308");
}
