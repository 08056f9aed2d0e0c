//! Tests of every function of `stats` against NumPy and SciPy on the same data, to 1e-9.
//!
//! The values come from `scipy/make.py`, run by hand; its header says what neither library has and
//! is written down there from its source instead. Where a number is the small difference of large
//! ones, the tolerance is relative to those, and the test says so.

use crate::common::assert_close;
use serde_json::Value;
use stats::ci::{mean_interval, t_quantile, t_two_sided_p};
use stats::describe::{cv, describe};
use stats::family::{holm, tie_ranks};
use stats::percentile::{percentile, quantiles_of_sorted, sorted};
use stats::ratio::{PairedRatio, cliffs_delta, paired_ratio};
use stats::stationarity::{autocovariance, drift, effective_size, integrated_time, lag1};
use stats::tie::apart_at_most;
use stats::usl::fit;

struct Fixture(Value);

fn fixture() -> Fixture {
    Fixture(serde_json::from_str(include_str!("scipy/expected.json")).expect("it is JSON"))
}

impl Fixture {
    /// Return the entries of a part; there is at least one.
    fn part(&self, name: &str) -> &[Value] {
        let part = self.0[name].as_array().expect("a part is a list");
        assert!(!part.is_empty(), "{name} is empty");
        part
    }

    /// Return the sample that an entry names under `key`.
    fn sample(&self, entry: &Value, key: &str) -> Vec<f64> {
        let name = entry[key].as_str().expect("an entry names its sample");
        numbers(&self.0["samples"][name])
    }
}

fn number(value: &Value) -> f64 {
    value.as_f64().expect("it is a number")
}

fn numbers(value: &Value) -> Vec<f64> {
    let list = value.as_array().expect("it is a list");
    list.iter().map(number).collect()
}

/// Assert equality to 1e-9 of `scale`, for a number that is a small difference of such large ones.
#[track_caller]
fn assert_close_on(scale: f64, got: f64, want: f64) {
    assert!(
        (got - want).abs() <= 1e-9 * scale.abs(),
        "got {got:e}, want {want:e}"
    );
}

#[track_caller]
fn assert_paired(got: &PairedRatio, want: &Value) {
    assert_close(got.ratio, number(&want["ratio"]));
    let (low, high) = got.ci95.expect("there are several blocks");
    assert_close(low, number(&want["low"]));
    assert_close(high, number(&want["high"]));
    assert_close(got.p.expect("likewise"), number(&want["p"]));
    let largest = number(&want["high"]).max(1.0 / number(&want["low"]));
    assert_close(apart_at_most(got.ci95).expect("likewise"), largest);
}

#[test]
fn descriptions() {
    let fixture = fixture();
    for entry in fixture.part("describe") {
        let sample = fixture.sample(entry, "of");
        let d = describe(&sample).unwrap();
        assert_eq!(d.n, sample.len());
        assert_close(d.mean, number(&entry["mean"]));
        assert_close(d.median, number(&entry["median"]));
        assert_close(d.min, number(&entry["min"]));
        assert_close(d.max, number(&entry["max"]));
        // Deviations of values near 1e9 and 1e15 carry those values' rounding: the
        // last bit of 1e9 is 1.2e-7, and no formula can know the deviation better.
        let coarse = d.mean.abs() > 1e6 * d.stddev;
        for (got, want) in [(d.stddev, "stddev"), (d.mad, "mad")] {
            match coarse {
                true => assert_close_on(1e-6 * d.mean, got, number(&entry[want])),
                false => assert_close(got, number(&entry[want])),
            }
        }
    }
}

#[test]
fn percentiles_and_quantiles() {
    let fixture = fixture();
    for entry in fixture.part("percentile") {
        let sample = fixture.sample(entry, "of");
        let got = percentile(&sample, number(&entry["p"])).unwrap();
        assert_close(got, number(&entry["value"]));
    }
    for entry in fixture.part("quantiles") {
        let ascending = sorted(&fixture.sample(entry, "of")).unwrap();
        let got = quantiles_of_sorted(&ascending);
        let want = numbers(&entry["values"]);
        assert_eq!(got.len(), want.len());
        for (got, want) in got.into_iter().zip(want) {
            assert_close(got, want);
        }
    }
}

#[test]
fn students_t() {
    let fixture = fixture();
    for entry in fixture.part("t_quantile") {
        let (p, df) = (number(&entry["p"]), number(&entry["df"]));
        // At the median the quantile is 0, which allows no relative tolerance.
        assert_close_on(
            number(&entry["value"]).abs().max(1e-3),
            t_quantile(p, df).unwrap(),
            number(&entry["value"]),
        );
    }
    for entry in fixture.part("t_two_sided_p") {
        let got = t_two_sided_p(number(&entry["t"]), number(&entry["df"])).unwrap();
        assert_close(got, number(&entry["value"]));
    }
}

#[test]
fn intervals_and_variation() {
    let fixture = fixture();
    for entry in fixture.part("mean_interval") {
        let sample = fixture.sample(entry, "of");
        let got = mean_interval(&sample).unwrap();
        let scale = got.low.abs().max(got.high.abs());
        let mut described = fixture.part("describe").iter();
        let described = described.find(|other| other["of"] == entry["of"]);
        assert_close_on(scale, got.mean, number(&described.unwrap()["mean"]));
        assert_close_on(scale, got.low, number(&entry["low"]));
        assert_close_on(scale, got.high, number(&entry["high"]));
    }
    for entry in fixture.part("cv") {
        let sample = fixture.sample(entry, "of");
        let got = cv(&sample).unwrap();
        match got < 1e-6 {
            // As in `descriptions`, only the rounding of the values is seen.
            true => assert_close_on(1e-6, got, number(&entry["value"])),
            false => assert_close(got, number(&entry["value"])),
        }
    }
}

#[test]
fn paired_ratios_and_how_far_apart_two_can_be() {
    let fixture = fixture();
    for entry in fixture.part("paired_ratio") {
        let (a, b) = (fixture.sample(entry, "a"), fixture.sample(entry, "b"));
        assert_paired(&paired_ratio(&a, &b).unwrap(), entry);
    }
    for entry in fixture.part("drift") {
        let invocations = entry["invocations"].as_array().unwrap();
        let invocations: Vec<Vec<f64>> = invocations.iter().map(numbers).collect();
        assert_paired(&drift(&invocations).unwrap(), entry);
    }
}

#[test]
fn families_sizes_and_ranks() {
    let fixture = fixture();
    for entry in fixture.part("holm") {
        let got = holm(&numbers(&entry["p"])).unwrap();
        for (got, want) in got.into_iter().zip(numbers(&entry["adjusted"])) {
            assert_close(got, want);
        }
    }
    for entry in fixture.part("cliffs_delta") {
        let (a, b) = (fixture.sample(entry, "a"), fixture.sample(entry, "b"));
        // 2U/nm − 1 loses the digits under the last bit of 1.
        assert_close_on(1.0, cliffs_delta(&a, &b).unwrap(), number(&entry["value"]));
    }
    for entry in fixture.part("ranks") {
        // Where only equal values tie, our ranking is SciPy's with the method `min`.
        let values = numbers(&entry["values"]);
        let got = tie_ranks(values.len(), |leader, rest| {
            rest.map(|i| values[i] > values[leader]).collect()
        });
        let got: Vec<f64> = got.into_iter().map(f64::from).collect();
        assert_eq!(got, numbers(&entry["ranks"]));
    }
}

#[test]
fn courses() {
    let fixture = fixture();
    for entry in fixture.part("autocorrelation") {
        let sample = fixture.sample(entry, "of");
        // A correlation is a share of 1, and may lie near 0.
        assert_close_on(1.0, lag1(&sample).unwrap(), number(&entry["lag1"]));
        assert_close_on(
            autocovariance(&sample, 0).unwrap(),
            autocovariance(&sample, 7).unwrap(),
            number(&entry["autocovariance_7"]),
        );
        let tau = number(&entry["integrated_time"]);
        assert_close_on(tau.max(1.0), integrated_time(&sample).unwrap(), tau);
        let effective = sample.len() as f64 / tau.max(1.0);
        assert_close(effective_size(&sample).unwrap(), effective);
    }
}

#[test]
fn scalability_laws() {
    for entry in fixture().part("usl") {
        let points: Vec<(f64, f64)> = numbers(&entry["loads"])
            .into_iter()
            .zip(numbers(&entry["throughputs"]))
            .collect();
        let got = fit(&points).unwrap();
        assert_close(got.lambda, number(&entry["lambda"]));
        assert_close(got.sigma, number(&entry["sigma"]));
        assert_close(got.kappa, number(&entry["kappa"]));
    }
}
