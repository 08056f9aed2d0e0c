//! The Universal Scalability Law: how throughput grows with concurrency, where it
//! stops, and why (contention or coherency).
//!
//! `X(N) = λ·N / (1 + σ·(N − 1) + κ·N·(N − 1))`: λ is the throughput of one request in flight, σ
//! the share of work that is serial (Amdahl's), κ the cost of every pair. Source: N. J. Gunther, "A
//! General Theory of Computational Scalability Based on Rational Functions", arXiv:0808.1431
//! (2008).
//!
//! Few loads would be interpolated rather than fitted, so a fit needs [`LOADS_MIN`] of them. σ and
//! κ are not held at 0 or above: a negative one says that the law doesn't hold here, and the
//! interval shows it.

use crate::ci::{Interval, mean_interval};

/// Minimum number of loads for a fit; 1 must be among them.
pub const LOADS_MIN: usize = 6;

/// Coefficients of the law, as fitted to one invocation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Coefficients {
    /// Throughput of one request in flight, in the unit of the data.
    pub lambda: f64,
    /// Contention: the share of work that is serial.
    pub sigma: f64,
    /// Coherency: the cost of every pair of requests.
    pub kappa: f64,
}

/// The law over all invocations: mean and 95 % t interval of each coefficient over the invocations,
/// which are independent of each other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Usl {
    /// Throughput of one request in flight.
    pub lambda: Interval,
    /// Contention: the share of work that is serial.
    pub sigma: Interval,
    /// Coherency: the cost of every pair of requests.
    pub kappa: Interval,
}

impl Coefficients {
    /// Return the throughput at a load.
    pub fn throughput(&self, load: f64) -> f64 {
        let waits = self.sigma * (load - 1.0) + self.kappa * load * (load - 1.0);
        self.lambda * load / (1.0 + waits)
    }
}

/// Fit one invocation's (load, throughput) points.
///
/// `N/X = c₀ + c₁·(N − 1) + c₂·N·(N − 1)` is linear in c, with λ = 1/c₀, σ = c₁/c₀, κ = c₂/c₀. Each
/// equation is weighted by X/N, so that the residuals are relative errors of the throughput and
/// small loads count as much as large ones. `None` with fewer than [`LOADS_MIN`] different loads,
/// without load 1, or where a load or a throughput isn't positive and finite.
pub fn fit(points: &[(f64, f64)]) -> Option<Coefficients> {
    let usable = |x: f64| x.is_finite() && x > 0.0;
    let mut loads: Vec<f64> = points.iter().map(|point| point.0).collect();
    loads.sort_by(f64::total_cmp);
    loads.dedup();
    let enough = loads.len() >= LOADS_MIN && loads[0] == 1.0;
    if !enough || !points.iter().all(|&(n, x)| usable(n) && usable(x)) {
        return None;
    }
    let rows = points
        .iter()
        .map(|&(n, x)| [x / n, x * (n - 1.0) / n, x * (n - 1.0)]);
    let c = solve(rows.collect())?;
    let fitted = Coefficients {
        lambda: 1.0 / c[0],
        sigma: c[1] / c[0],
        kappa: c[2] / c[0],
    };
    let finite = [fitted.lambda, fitted.sigma, fitted.kappa];
    (c[0] > 0.0 && finite.iter().all(|x| x.is_finite())).then_some(fitted)
}

/// Fit every invocation; `None` with fewer than two, or where one can't be fitted.
pub fn fit_all(invocations: &[Vec<(f64, f64)>]) -> Option<Usl> {
    let fits: Vec<Coefficients> = invocations
        .iter()
        .map(|points| fit(points))
        .collect::<Option<_>>()?;
    let interval = |of: fn(&Coefficients) -> f64| {
        let values: Vec<f64> = fits.iter().map(of).collect();
        mean_interval(&values)
    };
    Some(Usl {
        lambda: interval(|c| c.lambda)?,
        sigma: interval(|c| c.sigma)?,
        kappa: interval(|c| c.kappa)?,
    })
}

/// Solve `rows · c = 1` by least squares: modified Gram–Schmidt with the right-hand side as one
/// more column, which is as stable as Householder's (Björck 1967); normal equations would lose half
/// the digits. `None` where the columns are dependent.
fn solve(mut rows: Vec<[f64; 3]>) -> Option<[f64; 3]> {
    let mut right = vec![1.0; rows.len()];
    let mut upper = [[0.0; 3]; 3];
    let mut projected = [0.0; 3];
    for k in 0..3 {
        let before: f64 = rows.iter().map(|row| row[k] * row[k]).sum();
        upper[k][k] = before.sqrt();
        if upper[k][k] <= 0.0 {
            return None;
        }
        for row in &mut rows {
            row[k] /= upper[k][k];
        }
        for j in k + 1..3 {
            upper[k][j] = rows.iter().map(|row| row[k] * row[j]).sum();
            for row in &mut rows {
                row[j] -= upper[k][j] * row[k];
            }
        }
        projected[k] = rows.iter().zip(&right).map(|(row, y)| row[k] * y).sum();
        for (row, y) in rows.iter().zip(&mut right) {
            *y -= projected[k] * row[k];
        }
    }
    let mut c = [0.0; 3];
    for k in (0..3).rev() {
        let known: f64 = (k + 1..3).map(|j| upper[k][j] * c[j]).sum();
        c[k] = (projected[k] - known) / upper[k][k];
    }
    c.iter().all(|x| x.is_finite()).then_some(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAW: Coefficients = Coefficients {
        lambda: 995.65,
        sigma: 0.02671,
        kappa: 7.690e-4,
    };

    const LOADS: [f64; 6] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0];

    fn points(loads: &[f64], factor: f64) -> Vec<(f64, f64)> {
        let at = |&n: &f64| (n, factor * LAW.throughput(n));
        loads.iter().map(at).collect()
    }

    #[test]
    fn what_follows_the_law_gives_it_back() {
        let got = fit(&points(&LOADS, 1.0)).unwrap();
        for (got, want) in [
            (got.lambda, LAW.lambda),
            (got.sigma, LAW.sigma),
            (got.kappa, LAW.kappa),
        ] {
            assert!((got / want - 1.0).abs() < 1e-9, "{got} {want}");
        }
    }

    #[test]
    fn too_few_loads_or_none_of_one_give_no_fit() {
        assert_eq!(fit(&points(&LOADS[..5], 1.0)), None);
        let twice = [1.0, 2.0, 4.0, 8.0, 16.0, 16.0];
        assert_eq!(fit(&points(&twice, 1.0)), None);
        assert_eq!(fit(&points(&[2.0, 3.0, 4.0, 8.0, 16.0, 32.0], 1.0)), None);
        let mut broken = points(&LOADS, 1.0);
        broken[3].1 = 0.0;
        assert_eq!(fit(&broken), None);
    }

    #[test]
    fn intervals_are_over_invocations() {
        let three = [0.9, 1.0, 1.1].map(|factor| points(&LOADS, factor));
        let usl = fit_all(&three).unwrap();
        assert!((usl.lambda.mean / LAW.lambda - 1.0).abs() < 1e-9);
        assert!(usl.lambda.low < 0.8 * LAW.lambda, "{:?}", usl.lambda);
        // A machine that is slower as a whole has the same contention.
        assert!((usl.sigma.high - usl.sigma.low).abs() < 1e-9);
        assert_eq!(fit_all(&three[..1]), None);
    }
}
