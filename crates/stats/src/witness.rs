//! Estimates of how far an engine's stamps are off, from looks at the tokens that it had committed.
//!
//! An engine stamps a token and commits it to memory that the harness reads at random moments
//! ([`AuditResult`]). Suppose that K looks over a time W find S tokens in all that were not
//! committed, although by their stamps they should have been. Poisson arrivals see time averages
//! (R. W. Wolff, Operations Research 30, 1982), so on average S/K tokens are missing at any time,
//! and the times for which they are missing add up to S/K·W. Of N tokens, each is therefore stamped
//! early by S/K·W/N on average (J. D. C. Little's law, Operations Research 9, 1961).
//!
//! The limits are one-sided at 95 %. The upper limit is exact for the number of looks that saw any
//! such token (F. Garwood, Biometrika 28, 1936: half the 95 % quantile of χ² with 2·(n + 1) degrees
//! of freedom). Each of these looks is counted as if it had found the most tokens that any look
//! found, or as many as may be missing at once if that is more. The lower limit, by which cells are
//! judged, is 1.645 standard errors under the mean.

use crate::describe::mean;
use crate::evidence::Attempt;
use crate::timing::{ms, ns_between, tpot_ns};
use schema::record::{AuditResult, RequestRecord, StampComparison, Sum};
use statrs::distribution::{ChiSquared, ContinuousCDF};

/// Number of standard deviations above the mean under which 95 % of a normal distribution lie.
const SIGMAS: f64 = 1.645;
/// Mean error of stamps that is always allowed (ns).
pub const ERROR_NS: f64 = 20_000.0;
/// Mean error of first tokens' stamps that is allowed, as a fraction of the mean time from sending
/// a request to its first token.
pub const FIRST_FRACTION: f64 = 0.05;
/// Mean error of all other stamps that is allowed, as a fraction of the mean time between tokens.
pub const LATER_FRACTION: f64 = 0.20;

/// Result of the audit of a cell's stamps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Audit {
    /// Number of looks.
    pub looks: u64,
    /// Errors of the first tokens' stamps.
    pub first: StampErrors,
    /// Errors of all other tokens' stamps.
    pub later: StampErrors,
}

/// Mean errors of stamps, by direction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StampErrors {
    /// Error of stamps that lie before their token's commit.
    pub early: StampError,
    /// Error of stamps that lie after their token's commit.
    pub late: StampError,
}

impl StampErrors {
    /// Return the larger mean of the two directions (ns).
    pub fn mean_ns(&self) -> f64 {
        self.early.mean_ns.max(self.late.mean_ns)
    }

    /// Return the larger upper limit of the two directions (ns).
    pub fn high_ns(&self) -> f64 {
        self.early.high_ns.max(self.late.high_ns)
    }
}

/// A mean and its one-sided 95 % limits (ns).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StampError {
    /// Mean (ns).
    pub mean_ns: f64,
    /// Lower limit (ns).
    pub low_ns: f64,
    /// Upper limit (ns).
    pub high_ns: f64,
}

/// Audit the stamps of a cell over all its launches that were watched; `None` where none was, or
/// where nothing was committed.
pub(crate) fn audit(attempts: &[Attempt]) -> Option<Audit> {
    audit_of(&joined(attempts)?)
}

fn audit_of(all: &AuditResult) -> Option<Audit> {
    let commits = all.uncommitted < all.first.tokens + all.later.tokens;
    (commits && all.looks > 0).then(|| Audit {
        looks: all.looks,
        first: errors(all, all.first),
        later: errors(all, all.later),
    })
}

fn joined(attempts: &[Attempt]) -> Option<AuditResult> {
    let watched = attempts.iter().filter_map(|attempt| attempt.end.witnessed);
    let watched: Vec<AuditResult> = watched.filter(|one| !one.lost).collect();
    let mut all = *watched.first()?;
    for one in &watched[1..] {
        all.batch = all.batch.max(one.batch);
        all.looks += one.looks;
        all.watched_ns += one.watched_ns;
        all.contradicted += one.contradicted;
        all.uncommitted += one.uncommitted;
        for (all, one) in [(&mut all.first, one.first), (&mut all.later, one.later)] {
            all.tokens += one.tokens;
            all.early.join(one.early);
            all.late.join(one.late);
        }
    }
    Some(all)
}

fn errors(all: &AuditResult, claims: StampComparison) -> StampErrors {
    StampErrors {
        early: error(all, claims.tokens, claims.early),
        // A piece of streamed text may bring no token, so a commit before its stamp is no error.
        late: match all.pieces {
            true => StampError::default(),
            false => error(all, claims.tokens, claims.late),
        },
    }
}

fn error(all: &AuditResult, tokens: u64, seen: Sum) -> StampError {
    let looks = all.looks as f64;
    // The factor from a mean count per look to the mean error of a stamp; 0 without tokens.
    let ns = match tokens {
        0 => 0.0,
        tokens => all.watched_ns as f64 / tokens as f64,
    };
    let mean = seen.sum as f64 / looks;
    let variance = (seen.squares as f64 / looks - mean * mean).max(0.0);
    let half = SIGMAS * (variance / looks).sqrt();
    let most = seen.most.max(all.batch).max(1) as f64;
    let high = upper(seen.looks) / looks * most;
    StampError {
        mean_ns: mean * ns,
        low_ns: (mean - half).max(0.0) * ns,
        high_ns: high * ns,
    }
}

/// Return the upper 95 % limit of the mean of a Poisson distribution from which `events` were
/// counted.
fn upper(events: u64) -> f64 {
    let degrees = 2.0 * (events as f64 + 1.0);
    let quantile = ChiSquared::new(degrees).map(|law| law.inverse_cdf(0.95));
    quantile.map_or(f64::INFINITY, |quantile| quantile / 2.0)
}

/// Check the stamps of a cell. `Err` is the reason, with numbers. A cell without an audit passes.
pub(crate) fn check(attempts: &[Attempt]) -> Result<(), String> {
    let requests = attempts.iter().flat_map(|attempt| &attempt.timed);
    joined(attempts).map_or(Ok(()), |all| judge(&all, requests.copied()))
}

/// Check the stamps of `requests` against what the looks found. `Err` is the reason, with numbers.
/// Where there is nothing to audit, the check passes.
pub fn judge<'a>(
    all: &AuditResult,
    requests: impl Iterator<Item = &'a RequestRecord> + Clone,
) -> Result<(), String> {
    let Some(audit) = audit_of(all) else {
        return Ok(());
    };
    let tokens = all.first.tokens + all.later.tokens;
    if all.contradicted > 0 {
        return Err(format!(
            "{} commits are not of the answer's tokens, of which there are {tokens}",
            all.contradicted
        ));
    }
    if all.uncommitted > 0 {
        return Err(format!(
            "{} of {tokens} tokens were never committed",
            all.uncommitted
        ));
    }
    let to_first = |r: &RequestRecord| Some(ns_between(r.sent_ns, *r.token_ns.first()?));
    let firsts: Vec<f64> = requests.clone().filter_map(to_first).collect();
    let gaps: Vec<f64> = requests.filter_map(tpot_ns).collect();
    let first = ("first tokens", "to the first token", FIRST_FRACTION);
    let later = ("other tokens", "between tokens", LATER_FRACTION);
    for ((which, of, fraction), errors, usual) in
        [(first, audit.first, firsts), (later, audit.later, gaps)]
    {
        let usual_ns = mean(&usual).unwrap_or(0.0);
        let limit_ns = ERROR_NS.max(fraction * usual_ns);
        for (error, way) in [(errors.early, "before"), (errors.late, "after")] {
            if error.low_ns > limit_ns {
                return Err(format!(
                    "{} looks saw that {which} are stamped {} {way} they are there, in the mean \
                     (at least {}, at 95 %); {} {of} allow {}",
                    audit.looks,
                    ms(error.mean_ns),
                    ms(error.low_ns),
                    ms(usual_ns),
                    ms(limit_ns)
                ));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(looks: u64, watched_ns: u64) -> AuditResult {
        AuditResult {
            looks,
            watched_ns,
            ..AuditResult::default()
        }
    }

    #[test]
    fn a_mean_error_is_tokens_missing_times_time_over_tokens() {
        // 1000 looks in 5 s, 500 tokens; at every tenth look one is missing: it is missing for 0.5
        // s of 5, 1 ms a token.
        let mut seen = Sum::default();
        (0..1000).for_each(|look| seen.add(u64::from(look % 10 == 0)));
        let found = error(&all(1000, 5_000_000_000), 500, seen);
        assert!((found.mean_ns - 1e6).abs() < 1.0, "{found:?}");
        // 1.645 · √(0.1 · 0.9 / 1000) · 5 s / 500.
        let half = 1.645 * (0.09f64 / 1000.0).sqrt() * 1e7;
        assert!((found.low_ns - 1e6 + half).abs() < 1.0, "{found:?}");
        assert!(
            found.high_ns > 1e6 + half && found.high_ns < 1.3e6,
            "{found:?}"
        );
    }

    #[test]
    fn a_limit_never_falls_as_more_is_seen() {
        // Garwood's limits of 0, 1 and 2 events.
        for (events, limit) in [(0, 2.996), (1, 4.744), (2, 6.296)] {
            assert!((upper(events) - limit).abs() < 1e-3, "{events}");
        }
        let mut seen = Sum::default();
        let mut before = 0.0;
        for count in [0, 1, 1, 3, 1] {
            seen.add(count);
            let high_ns = error(&all(100, 1_000_000_000), 50, seen).high_ns;
            assert!(high_ns >= before, "{seen:?}");
            before = high_ns;
        }
        // Where 8 tokens come at once, 8 may be missing.
        let together = AuditResult {
            batch: 8,
            ..all(100, 1_000_000_000)
        };
        let alone = error(&all(100, 1_000_000_000), 50, Sum::default()).high_ns;
        let high_ns = error(&together, 50, Sum::default()).high_ns;
        assert!((high_ns / alone - 8.0).abs() < 1e-9);
    }

    #[test]
    fn nothing_seen_leaves_a_limit_that_falls_with_looks() {
        let found = error(&all(1000, 5_000_000_000), 500, Sum::default());
        assert_eq!((found.mean_ns, found.low_ns), (0.0, 0.0));
        assert!(
            (found.high_ns - -0.05f64.ln() / 1000.0 * 1e7).abs() < 1.0,
            "{found:?}"
        );
        // A request of one token has no later tokens whose stamps could be off.
        let none = error(&all(1000, 5_000_000_000), 0, Sum::default());
        assert_eq!(none.high_ns, 0.0);
    }
}
