//! Formats numbers for readers: three significant digits and a unit.
//!
//! It is the only place that turns a number into text, so that a value reads the same in a
//! sentence, a table, a chart and its tooltip. A number that is not finite becomes a dash.

use stats::analysis::{Metric, MetricId};
use stats::metrics::Sample;

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

/// Format a metric and its interval, in the metric's unit; where [`lacks_interval`] holds, the
/// shortest and the longest launch in place of an interval: `(837 ms to 6.47 s in 5 launches)`.
pub fn metric(metric: &Metric) -> (String, Option<String>) {
    let unit = Unit::from_metric(metric.id);
    let (value, interval) = with_interval(unit, metric.value, metric.ci95);
    if !lacks_interval(metric) {
        return (value, interval);
    }
    let launches = &metric.by_invocation;
    let the = |of: fn(f64, f64) -> f64| {
        let found = launches.iter().copied().reduce(of);
        found.map(|ns| quantity(unit, ns))
    };
    let range = the(f64::min).zip(the(f64::max));
    let range = range.map(|(least, most)| {
        let launches = launches.len();
        format!("({least} to {most} in {launches} launches)")
    });
    (value, range)
}

/// Whether a metric is a time that each launch has once, and the t interval of its mean reaches
/// below 0, where no time is. That interval takes launches to vary as much to either side of the
/// mean; a few that took several times as long as the others refute it.
pub fn lacks_interval(metric: &Metric) -> bool {
    metric.id.describe().sample == Sample::Invocation
        && Unit::from_metric(metric.id) == Unit::Ns
        && metric.ci95.is_some_and(|(low, _)| low < 0.0)
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

/// Format an error of the harness as percent, with the decimals that a small one needs: `0.040 %`.
pub fn small_percent(fraction: f64) -> String {
    format!("{:.3} %", 100.0 * fraction)
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

/// Format a price as prices are quoted: `$1.00`, `$0.0816`. Very small and very large ones have
/// three digits; a number that isn't finite becomes a dash.
pub fn money(usd: f64) -> String {
    if !usd.is_finite() {
        return NONE.into();
    }
    if !(1e-4..1e7).contains(&usd) {
        return format!("${}", quantity(Unit::Plain, usd));
    }
    let cents = (usd * 100.0).round() / 100.0;
    match (cents - usd).abs() < 1e-9 {
        true => format!("${usd:.2}"),
        false => format!("${usd}"),
    }
}

/// Format a divergence or a gap in nats with two digits: `4.0e−3`, `0`.
pub fn nats(value: f64) -> String {
    match value {
        0.0 => "0".into(),
        value if value.is_finite() => format!("{value:.1e}").replace('-', "−"),
        _ => NONE.into(),
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
mod tests;
