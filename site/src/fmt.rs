//! Formats numbers for readers: three significant digits and a unit.
//!
//! It is the only place that turns a number into text, so that a value reads the same in a
//! sentence, a table, a chart and its tooltip. A number that is not finite becomes a dash.

use stats::analysis::{Metric, MetricId};

/// The text where there is no number.
pub const NONE: &str = "—";

/// The unit of a value; it decides on prefix and suffix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds, shown as ns, µs, ms or s.
    Ns,
    /// Bytes, shown as B, KiB, MiB or GiB.
    Bytes,
    /// Tokens per second.
    TokPerS,
    /// Requests per second.
    RequestsPerS,
    /// Requests.
    Requests,
    /// Joules, shown as mJ or J.
    Joules,
    /// Floating-point operations per second.
    FlopPerS,
    /// Percent, already times 100.
    Percent,
    /// Degrees Celsius.
    Celsius,
    /// Megahertz, shown as MHz or GHz.
    Mhz,
    /// A ratio, shown with ×.
    Ratio,
    /// A count of something, shown with k or M from ten thousand on.
    Count,
    /// A bare number, such as an axis value.
    Plain,
}

impl Unit {
    /// The unit of a metric, by the name that `stats` gives it; a bare number for an unknown name.
    pub fn from_metric(metric: MetricId) -> Self {
        match metric.describe().unit {
            "ns" => Unit::Ns,
            "bytes" => Unit::Bytes,
            "tok/s" => Unit::TokPerS,
            "requests/s" => Unit::RequestsPerS,
            "requests" => Unit::Requests,
            "J" => Unit::Joules,
            "%" => Unit::Percent,
            "°C" => Unit::Celsius,
            "MHz" => Unit::Mhz,
            _ => Unit::Plain,
        }
    }

    /// Whether no value of the unit can be below 0. Percent can: a shortfall is below 0 where a
    /// queue shrank.
    pub fn is_never_negative(self) -> bool {
        !matches!(self, Unit::Percent | Unit::Celsius | Unit::Plain)
    }

    /// The prefixes of the unit: (magnitude from which it applies, divisor, suffix), least first.
    fn steps(self) -> &'static [(f64, f64, &'static str)] {
        const KIB: f64 = 1024.0;
        match self {
            Unit::Ns => &[
                (0.0, 1.0, " ns"),
                (1e3, 1e3, " µs"),
                (1e6, 1e6, " ms"),
                (1e9, 1e9, " s"),
            ],
            Unit::Bytes => &[
                (0.0, 1.0, " B"),
                (KIB, KIB, " KiB"),
                (KIB * KIB, KIB * KIB, " MiB"),
                (KIB * KIB * KIB, KIB * KIB * KIB, " GiB"),
            ],
            Unit::TokPerS => &[(0.0, 1.0, " tok/s")],
            Unit::RequestsPerS => &[(0.0, 1.0, " req/s")],
            Unit::Requests => &[(0.0, 1.0, " requests")],
            Unit::Joules => &[(0.0, 1e-3, " mJ"), (1.0, 1.0, " J")],
            Unit::FlopPerS => &[
                (0.0, 1.0, " FLOP/s"),
                (1e6, 1e6, " MFLOP/s"),
                (1e9, 1e9, " GFLOP/s"),
                (1e12, 1e12, " TFLOP/s"),
            ],
            Unit::Percent => &[(0.0, 1.0, " %")],
            Unit::Celsius => &[(0.0, 1.0, " °C")],
            Unit::Mhz => &[(0.0, 1.0, " MHz"), (1e3, 1e3, " GHz")],
            Unit::Ratio => &[(0.0, 1.0, "×")],
            Unit::Count => &[(0.0, 1.0, ""), (1e4, 1e3, " k"), (1e6, 1e6, " M")],
            Unit::Plain => &[(0.0, 1.0, "")],
        }
    }

    /// Divisor and suffix for a value, chosen after rounding, so that 999.9 µs becomes 1.00 ms and
    /// never 1000 µs.
    fn step(self, value: f64) -> (f64, &'static str) {
        let mut chosen = self.steps()[0];
        for &step in self.steps() {
            if round_significant(value.abs() / step.1, 3) * step.1 >= step.0 {
                chosen = step;
            }
        }
        (chosen.1, chosen.2)
    }
}

/// Format a value with its unit, `12.3 ms`; a dash where it isn't finite.
pub fn quantity(unit: Unit, value: f64) -> String {
    if !value.is_finite() {
        return NONE.into();
    }
    let (divisor, suffix) = unit.step(value);
    format!("{}{suffix}", significant(value / divisor, 3))
}

/// Format a value and its interval in one unit: `("12.3 ms", Some("[11.9, 12.8]"))`.
///
/// All three numbers have as many decimals as three significant digits of the value need, or more
/// (up to six digits) where a narrow interval would look like a point.
pub fn with_interval(unit: Unit, value: f64, ci: Option<(f64, f64)>) -> (String, Option<String>) {
    if !value.is_finite() {
        return (NONE.into(), None);
    }
    let (divisor, suffix) = unit.step(value);
    let value = value / divisor;
    let Some((low, high)) = ci.filter(|(low, high)| low.is_finite() && high.is_finite()) else {
        return (format!("{}{suffix}", significant(value, 3)), None);
    };
    let (low, high) = (low / divisor, high / divisor);
    let all = |digits| {
        [value, low, high].map(|number| match decimals(value, digits) {
            Some(decimals) if is_plain(number) || number.abs() < 1.0 => fixed(number, decimals),
            _ => significant(number, digits),
        })
    };
    let mut digits = 3;
    let mut texts = all(digits);
    while digits < 6 && low != high && texts[1] == texts[2] {
        digits += 1;
        texts = all(digits);
    }
    let [value, low, high] = texts;
    // Brackets, because a dash between signed numbers would mislead.
    (format!("{value}{suffix}"), Some(format!("[{low}, {high}]")))
}

/// Format a metric and its interval, in the metric's unit.
pub fn metric(metric: &Metric) -> (String, Option<String>) {
    with_interval(Unit::from_metric(metric.id), metric.value, metric.ci95)
}

/// Format a ratio and its interval: `5.31×` and `[5.02, 5.63]`.
pub fn ratio(value: f64, ci: Option<(f64, f64)>) -> (String, Option<String>) {
    with_interval(Unit::Ratio, value, ci)
}

/// Join a value and its interval, `12.3 ms [11.9, 12.8]`; the value alone where there is none.
pub fn joined((value, interval): (String, Option<String>)) -> String {
    match interval {
        Some(interval) => format!("{value} {interval}"),
        None => value,
    }
}

/// Format by how much a ratio of 1 or more exceeds 1, rounded up: `3.2 %`, `23 %`, and from a
/// factor of two on the ratio itself, `2.31×`.
pub fn percent_more(ratio: f64) -> String {
    let percent = 100.0 * (ratio - 1.0);
    // Rounding errors of logarithms must not be rounded up to a tenth of a per cent.
    let up = |value: f64| (value - 1e-9).ceil() + 0.0;
    if ratio >= 2.0 {
        self::ratio(ratio, None).0
    } else if percent < 9.95 {
        format!("{:.1} %", up(10.0 * percent) / 10.0)
    } else {
        format!("{:.0} %", up(percent))
    }
}

/// Format a fraction as percent: 0.0312 → `3.12 %`.
pub fn percent(fraction: f64) -> String {
    quantity(Unit::Percent, fraction * 100.0)
}

/// Format a p value: `0.034`, `< 0.001`.
pub fn p_value(p: f64) -> String {
    if !p.is_finite() {
        NONE.into()
    } else if p < 0.001 {
        "< 0.001".into()
    } else {
        significant(p, 2)
    }
}

/// Format a signed effect size with two decimals: `+0.83`, `−0.10`.
pub fn delta(value: f64) -> String {
    if !value.is_finite() {
        return NONE.into();
    }
    let sign = if value > 0.0 { "+" } else { "" };
    format!("{sign}{value:.2}").replace('-', "−")
}

/// Format an RFC 3339 time as `2026-11-21 10:30 UTC`; any other text is returned unchanged.
pub fn moment(text: &str) -> String {
    let shape: String = text
        .chars()
        .map(|c| if c.is_ascii_digit() { '0' } else { c })
        .collect();
    if shape.starts_with("0000-00-00T00:00:00") && text.ends_with('Z') {
        format!("{} {} UTC", &text[..10], &text[11..16])
    } else {
        text.to_owned()
    }
}

/// Format a count with its digits grouped by narrow spaces: `12 345`.
pub fn count(n: u64) -> String {
    group(&n.to_string())
}

/// Format the label of an axis tick: exactly the tick's value, without trailing zeros.
pub fn tick(unit: Unit, value: f64) -> String {
    if !value.is_finite() {
        return NONE.into();
    }
    let (mut divisor, mut suffix) = unit.step(value);
    // `10000 tok/s` is too wide for an axis.
    if suffix == " tok/s" && value.abs() >= 1e4 {
        (divisor, suffix) = (1e3, "k tok/s");
    }
    let scaled = value / divisor;
    let text = if scaled != 0.0 && !(1e-4..1e7).contains(&scaled.abs()) {
        format!("{scaled:e}")
    } else {
        // Twelve decimals hide binary noise such as 0.30000000000000004.
        let text = format!("{scaled:.12}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    let suffix = if scaled == 0.0 { "" } else { suffix };
    format!("{}{suffix}", text.replace('-', "−"))
}

/// Round `value` to `digits` significant digits.
fn round_significant(value: f64, digits: i32) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let decimals = digits - 1 - value.abs().log10().floor() as i32;
    if !(-15..=15).contains(&decimals) {
        return value;
    }
    let factor = 10f64.powi(decimals);
    (value * factor).round() / factor
}

/// Whether a number is written out rather than with an exponent.
fn is_plain(value: f64) -> bool {
    value == 0.0 || (1e-4..1e7).contains(&value.abs())
}

/// The number of decimals that shows `digits` significant digits of `value`; `None` where it is
/// written with an exponent.
fn decimals(value: f64, digits: i32) -> Option<usize> {
    let rounded = round_significant(value, digits);
    if value == 0.0 || !is_plain(rounded) {
        return None;
    }
    Some((digits - 1 - rounded.abs().log10().floor() as i32).max(0) as usize)
}

/// Format a number with `digits` significant digits, grouped, with a true minus sign.
fn significant(value: f64, digits: i32) -> String {
    if value == 0.0 {
        return "0".into();
    }
    match decimals(value, digits) {
        Some(decimals) => fixed(round_significant(value, digits), decimals),
        None => format!("{value:.*e}", (digits - 1) as usize).replace('-', "−"),
    }
}

/// Format a number with `decimals` decimals, grouped, with a true minus sign.
fn fixed(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    let text = match text.split_once('.') {
        Some((whole, rest)) => format!("{}.{rest}", group(whole)),
        None => group(&text),
    };
    text.replace('-', "−")
}

/// Put narrow no-break spaces between groups of three digits, from five digits on.
fn group(digits: &str) -> String {
    let (sign, digits) = match digits.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", digits),
    };
    if digits.len() < 5 {
        return format!("{sign}{digits}");
    }
    let mut text = String::from(sign);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
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
}
