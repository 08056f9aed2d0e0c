//! One run against another: Welch's t-test and interval on the logarithms of
//! per-invocation statistics.
//!
//! Blocks of two runs have nothing in common but their number, so pairing them would
//! only throw degrees of freedom away. Welch rather than Student: a change can
//! change the spread too, and the runs may have different numbers of invocations.
//! Logarithms, because changes are ratios and because they make "twice as fast" and
//! "half as fast" opposites. Deliberately not here: rank tests, which with five
//! invocations on each side can't reach the p that a table of cells asks for (the
//! least two-sided Mann–Whitney p of 5 against 5 is 0.008).
//!
//! What no test on two runs can see: a machine that was another one on that day. Its
//! shift moves all invocations of a run alike and so looks like a change.

use crate::ci::{CONFIDENCE, t_quantile, t_two_sided_p};
use crate::describe::{mean, stddev};

/// What two runs say about a ratio.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UnpairedRatio {
    /// Geometric mean of `a` over geometric mean of `b`.
    pub ratio: f64,
    /// 95 % interval of the ratio.
    pub ci95: (f64, f64),
    /// Two-sided p that the ratio is 1.
    pub p: f64,
}

/// Compare `a` with `b`, each one value an invocation, in any order and number.
///
/// `d = mean(ln a) − mean(ln b)`, `se² = s²ₐ/nₐ + s²_b/n_b`, `t = d/se`, with
/// `ν = se⁴ / ((s²ₐ/nₐ)²/(nₐ−1) + (s²_b/n_b)²/(n_b−1))` degrees of freedom
/// (B. L. Welch, "The generalization of 'Student's' problem when several different
/// population variances are involved", Biometrika 34, 1947).
///
/// `None` where a side has fewer than two values or one that isn't finite and
/// positive, and where `inflation`, by which the error is multiplied (1 or more, see
/// [`crate::noise`]), is infinite. Where neither side varies, the interval has width 0, and p
/// is 1 or 0.
pub fn unpaired_ratio(a: &[f64], b: &[f64], inflation: f64) -> Option<UnpairedRatio> {
    let (a, b) = (Logs::of(a)?, Logs::of(b)?);
    let difference = a.mean - b.mean;
    let squared_error = a.squared_error + b.squared_error;
    if !inflation.is_finite() {
        return None;
    }
    let (half, p) = if squared_error == 0.0 {
        (0.0, if difference == 0.0 { 1.0 } else { 0.0 })
    } else {
        let term = |side: &Logs| side.squared_error.powi(2) / side.degrees;
        // Between the smaller side's degrees of freedom and both together; rounding
        // must not take it under 1, where there is no quantile.
        let degrees = (squared_error.powi(2) / (term(&a) + term(&b))).max(1.0);
        let error = inflation * squared_error.sqrt();
        (
            t_quantile(0.5 + CONFIDENCE / 2.0, degrees)? * error,
            t_two_sided_p(difference / error, degrees)?,
        )
    };
    let ratio = |log: f64| Some(log.exp()).filter(|x| x.is_finite() && *x > 0.0);
    Some(UnpairedRatio {
        ratio: ratio(difference)?,
        ci95: (ratio(difference - half)?, ratio(difference + half)?),
        p,
    })
}

/// One side's logarithms.
struct Logs {
    mean: f64,
    /// Of the mean: s²/n.
    squared_error: f64,
    degrees: f64,
}

impl Logs {
    fn of(values: &[f64]) -> Option<Self> {
        if !values.iter().all(|x| x.is_finite() && *x > 0.0) {
            return None;
        }
        let logs: Vec<f64> = values.iter().map(|x| x.ln()).collect();
        Some(Self {
            mean: mean(&logs)?,
            squared_error: stddev(&logs)?.powi(2) / logs.len() as f64,
            degrees: logs.len() as f64 - 1.0,
        })
    }
}
