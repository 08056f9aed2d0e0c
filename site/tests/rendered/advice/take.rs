//! Which of some cells' targets is taken: the test of differences, and the sizes to ship.

use super::{Measured, Rule};
use schema::run::Run;
use serde_json::Value;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// The target with the best mean and, going down, all before the first that is detectably worse.
pub(super) fn tied(results: &Value, rule: &Rule, mut cells: Vec<Measured>) -> Vec<String> {
    let sign = if rule.more_is_better { 1.0 } else { -1.0 };
    cells.sort_by(|a, b| (sign * b.value).total_cmp(&(sign * a.value)));
    let noise = results["noise"].as_array().unwrap().iter();
    let inflation = noise
        .filter(|noise| rule.metrics.contains(&noise["metric"].as_str().unwrap()))
        .find_map(|noise| noise["inflation"].as_f64())
        .unwrap_or(1.0);
    let matters = (results["matters_percent"].as_f64().unwrap() / 100.0).ln_1p();
    let others: Vec<(f64, f64)> = cells[1..]
        .iter()
        .map(|cell| {
            assert_eq!(cell.launches.len(), cells[0].launches.len(), "whole blocks");
            let pairs = cell.launches.iter().zip(&cells[0].launches);
            let logs: Vec<f64> = pairs.map(|(a, b)| sign * (a / b).ln()).collect();
            behind(&logs, inflation)
        })
        .collect();
    let adjusted = holm(others.iter().map(|(p, _)| *p).collect());
    let worse = |i: usize| adjusted[i] < 0.05 && others[i].1 < -matters;
    let end = (0..others.len()).find(|&i| worse(i));
    let end = end.unwrap_or(others.len());
    let tied = cells[..=end].iter();
    tied.map(|cell| cell.target.clone()).collect()
}

/// The two-sided p of a paired t test on logarithms of ratios, and the upper end of the mean's 95 %
/// interval.
fn behind(logs: &[f64], inflation: f64) -> (f64, f64) {
    let n = logs.len() as f64;
    let mean = logs.iter().sum::<f64>() / n;
    let squares: f64 = logs.iter().map(|log| (log - mean).powi(2)).sum();
    let error = inflation * (squares / (n - 1.0) / n).sqrt();
    let t = StudentsT::new(0.0, 1.0, n - 1.0).unwrap();
    let p = 2.0 * (1.0 - t.cdf((mean / error).abs()));
    (p, mean + t.inverse_cdf(0.975) * error)
}

/// Holm's step-down correction (1979); the result keeps the order of `p`.
fn holm(p: Vec<f64>) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&a, &b| p[a].total_cmp(&p[b]));
    let mut adjusted = vec![0.0; p.len()];
    let mut most: f64 = 0.0;
    for (place, &i) in order.iter().enumerate() {
        most = most.max((p.len() - place) as f64 * p[i]).min(1.0);
        adjusted[i] = most;
    }
    adjusted
}

/// Of tied targets, given best mean first, the one that is smallest to ship; where sizes are equal
/// or unknown, the one with the better mean.
pub(super) fn cheapest(run: &Run, tied: &[String]) -> String {
    let bytes = |target: &String| -> Option<u64> {
        let mut all = run.header.provenance.adoption.values();
        let cost = all.find(|cost| cost.targets.contains(target))?;
        cost.stripped_bytes.or(cost.packages_bytes)?;
        let own = cost.stripped_bytes.unwrap_or(0) + cost.packages_bytes.unwrap_or(0);
        Some(own + cost.libraries_bytes.unwrap_or(0))
    };
    let by = |target: &&String| bytes(target).unwrap_or(u64::MAX);
    tied.iter().min_by_key(by).unwrap().clone()
}
