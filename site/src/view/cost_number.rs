//! Numbers of the cost page: printed, and with what the script needs to compute them
//! again from what a reader types in.

use crate::fmt::{self, Unit};
use serde::Serialize;
use stats::cost::Range;

/// A number that the script can compute again: what is printed, how it comes about,
/// and from which measured value with its interval.
#[derive(Clone, Debug, Serialize)]
pub struct Number {
    /// As printed.
    pub text: String,
    /// Which formula of the script; empty where there is nothing to compute.
    pub kind: &'static str,
    /// The measured value.
    pub v: String,
    /// The lower end of its interval, or empty.
    pub l: String,
    /// The upper end, or empty.
    pub h: String,
    /// By what the price is multiplied here, or empty.
    pub price_factor: String,
    /// A share of its own, or empty.
    pub utilisation: String,
}

impl Number {
    /// No number.
    pub fn none() -> Self {
        Self {
            text: fmt::NONE.into(),
            kind: "",
            v: String::new(),
            l: String::new(),
            h: String::new(),
            price_factor: String::new(),
            utilisation: String::new(),
        }
    }

    /// `measured` is what the script starts from, `text` what it arrives at.
    pub fn of(kind: &'static str, measured: Range, text: Option<String>) -> Self {
        let finite = |x: f64| match x.is_finite() {
            true => x.to_string(),
            false => String::new(),
        };
        let (low, high) = measured.ci95.unwrap_or((f64::NAN, f64::NAN));
        Self {
            text: text.unwrap_or_else(|| fmt::NONE.into()),
            kind: if measured.value.is_finite() { kind } else { "" },
            v: finite(measured.value),
            l: finite(low),
            h: finite(high),
            ..Self::none()
        }
    }
}

/// `12.3 tok/s [12.0, 12.6]`.
pub fn with_interval(unit: Unit, range: Range) -> String {
    let (value, interval) = fmt::with_interval(unit, range.value, range.ci95);
    match interval {
        Some(interval) => format!("{value} {interval}"),
        None => value,
    }
}

/// `$0.123 [0.120, 0.126]`.
pub fn dollars(range: Range) -> String {
    format!("${}", with_interval(Unit::Plain, range))
}

/// A share as percent with its interval.
pub fn percent(share: Range) -> String {
    let times_100 = Range {
        value: share.value * 100.0,
        ci95: share.ci95.map(|(low, high)| (low * 100.0, high * 100.0)),
    };
    with_interval(Unit::Percent, times_100)
}

/// A price as it is quoted: `$1.00`, `$0.0816`; one that nobody would quote in three
/// digits, and none where it isn't a number.
pub fn money(usd: f64) -> String {
    if !usd.is_finite() {
        return fmt::NONE.into();
    }
    if !(1e-4..1e7).contains(&usd) {
        return format!("${}", fmt::quantity(Unit::Plain, usd));
    }
    let cents = (usd * 100.0).round() / 100.0;
    match (cents - usd).abs() < 1e-9 {
        true => format!("${usd:.2}"),
        false => format!("${usd}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(money(f64::NAN), fmt::NONE);
        assert_eq!(money(1e308), "$1.00e308");
    }

    #[test]
    fn what_is_not_finite_is_nothing_to_compute() {
        let range = |value, ci95| Range { value, ci95 };
        let broken = Number::of("cost", range(f64::NAN, None), None);
        assert_eq!(
            (broken.kind, broken.v.as_str(), broken.text.as_str()),
            ("", "", fmt::NONE)
        );
        let whole = Number::of(
            "cost",
            range(2.5, Some((1.0, f64::INFINITY))),
            Some("$1".into()),
        );
        assert_eq!(
            (whole.v.as_str(), whole.l.as_str(), whole.h.as_str()),
            ("2.5", "1", "")
        );
    }
}
