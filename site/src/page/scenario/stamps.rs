//! How far the stamps of a case may be off: in a sentence for the worst targets, and in a table for
//! every target whose stamps were checked.

use crate::fmt::{self, Unit};
use crate::view::Shown;
use crate::words::plural;
use schema::key::CaseKey;
use schema::record::Status;
use serde::Serialize;
use stats::witness::{Audit, StampErrors};

/// Maximum number of targets in the table of a case. A row takes some 140 bytes, so the tables of
/// five cases take a tenth of the 300 kB that a page may have.
const LISTED_MAX: usize = 40;

/// What the audit of stamps found in a case.
#[derive(Serialize)]
pub struct Stamps {
    sentence: String,
    /// The rows, the largest limit of first tokens first.
    rows: Vec<Row>,
    /// Number of targets that are left out, in words; empty for none.
    more: String,
}

/// A row: a target's mean errors of stamps and their upper 95 % limits.
#[derive(Serialize)]
struct Row {
    target: String,
    first_mean: String,
    first_limit: String,
    later_mean: String,
    later_limit: String,
    looks: String,
}

impl Stamps {
    /// Gather what is known of the stamps of a case; `None` where none were checked.
    pub fn new(shown: &Shown, at: &CaseKey) -> Option<Self> {
        let cells = || {
            let all = shown.analysis.cells.iter();
            all.filter(|cell| cell.case_key() == *at && cell.status == Status::Ok)
        };
        let audits: Vec<(&str, Audit)> = cells()
            .filter_map(|cell| Some((cell.target.as_str(), cell.audit?)))
            .collect();
        let unchecked = cells().filter(|cell| cell.audit.is_none());
        let unchecked: Vec<&str> = unchecked.map(|cell| cell.target.as_str()).collect();
        let sentence = sentence(&audits, &unchecked)?;
        let (rows, more) = table(audits);
        Some(Self {
            sentence,
            rows,
            more,
        })
    }
}

/// Say how far stamps may be off, for the targets with the largest limits, and whose stamps are
/// `unchecked`. `None` without audits.
fn sentence(audits: &[(&str, Audit)], unchecked: &[&str]) -> Option<String> {
    let worst = |errors: fn(&Audit) -> f64| {
        let of = audits
            .iter()
            .map(|(target, audit)| (*target, errors(audit)));
        let (target, ns) = of.reduce(|a, b| if b.1 > a.1 { b } else { a })?;
        Some(format!("{} ({target})", fmt::quantity(Unit::Ns, ns)))
    };
    let first = worst(|audit| audit.first.high_ns())?;
    let later = worst(|audit| audit.later.high_ns())?;
    let looks = audits.iter().map(|(_, audit)| audit.looks).min()?;
    let others = match unchecked.is_empty() {
        true => String::new(),
        false => format!(
            " The stamps of {} could not be checked.",
            unchecked.join(", ")
        ),
    };
    Some(format!(
        "Stamps were held against the tokens that were there, at {} or more random moments for \
         each target: with 95 % confidence those of first tokens are off by no more than {first} \
         in the mean, those of others by no more than {later}.{others}",
        fmt::count(looks)
    ))
}

/// Make the rows, and count in words those that are left out.
fn table(mut audits: Vec<(&str, Audit)>) -> (Vec<Row>, String) {
    audits.sort_by(|(_, a), (_, b)| b.first.high_ns().total_cmp(&a.first.high_ns()));
    let mean = |errors: &StampErrors| fmt::quantity(Unit::Ns, errors.mean_ns());
    let limit = |errors: &StampErrors| fmt::quantity(Unit::Ns, errors.high_ns());
    let listed = audits.iter().take(LISTED_MAX);
    let rows = listed.map(|(target, audit)| Row {
        target: (*target).to_owned(),
        first_mean: mean(&audit.first),
        first_limit: limit(&audit.first),
        later_mean: mean(&audit.later),
        later_limit: limit(&audit.later),
        looks: fmt::count(audit.looks),
    });
    let more = match audits.len().saturating_sub(LISTED_MAX) {
        0 => String::new(),
        n => plural(n as u64, "more target", "more targets"),
    };
    (rows.collect(), more)
}

#[cfg(test)]
mod tests {
    use super::*;
    use stats::witness::StampError;

    fn audit(mean_ns: f64, high_ns: f64) -> Audit {
        let early = StampError {
            mean_ns,
            low_ns: 0.0,
            high_ns,
        };
        let errors = StampErrors {
            early,
            late: StampError::default(),
        };
        Audit {
            looks: 12_000,
            first: errors,
            later: errors,
        }
    }

    #[test]
    fn the_largest_limits_stand_first_and_the_rest_is_counted() {
        let mut audits = vec![("a", audit(0.0, 2e3)), ("b", audit(1e3, 3e6))];
        let (rows, more) = table(audits.clone());
        let b = &rows[0];
        assert_eq!((b.target.as_str(), more.as_str()), ("b", ""));
        assert_eq!([&b.first_mean, &b.later_mean], ["1.00 µs"; 2]);
        assert_eq!([&b.first_limit, &b.later_limit], ["3.00 ms"; 2]);
        assert_eq!(rows[1].first_mean, "0 ns");
        audits.extend([("c", audit(0.0, 1e3)); LISTED_MAX]);
        let (rows, more) = table(audits);
        assert_eq!((rows.len(), more.as_str()), (LISTED_MAX, "2 more targets"));
        assert_eq!(rows[1].target, "a");
    }

    #[test]
    fn nothing_is_said_where_nobody_looked() {
        assert_eq!(sentence(&[], &["a"]), None);
        let said = sentence(&[("b", audit(0.0, 2e3))], &["a"]).unwrap();
        assert!(said.contains("no more than 2.00 µs (b)"), "{said}");
        assert!(
            said.ends_with("The stamps of a could not be checked."),
            "{said}"
        );
    }
}
