//! The price tables of the cost page: every row with its date and its source, and which of them is
//! for the machine that was measured.
//!
//! Each number is printed together with the measured values from which the script computes it again
//! when a reader types in a price.

use crate::export::on_gpu;
use crate::fmt;
use crate::fmt::Unit;
use crate::view::Shown;
use schema::prices::{Kind, Offer, Prices};
use serde::Serialize;
use stats::cost::Range;

/// The machine of a run, as prices describe it.
pub struct Machine {
    /// The GPU where any target has numbers from one, else the processor.
    pub kind: Kind,
    device: String,
    cpus: u32,
}

impl Machine {
    /// Read the machine of a run from its record.
    pub fn new(shown: &Shown) -> Self {
        let targets = &mut shown.targets().iter();
        let gpu = targets.any(|target| on_gpu(target) && shown.has_numbers(&target.id));
        let facts = &shown.run.header.provenance.facts;
        let fact = |key: &str| facts.get(key).cloned().unwrap_or_default();
        Self {
            kind: if gpu { Kind::Gpu } else { Kind::Cpu },
            device: fact(if gpu { "gpu" } else { "cpu_model" }),
            cpus: fact("cpus").parse().unwrap_or(0),
        }
    }

    /// The cheapest offer of this machine, if any.
    pub fn cheapest<'a>(&self, prices: &'a Prices) -> Option<&'a Offer> {
        let price = |offer: &Offer| offer.usd_per_machine_h().unwrap_or(f64::INFINITY);
        prices
            .offers
            .iter()
            .filter(|offer| offer.is_of(self.kind, &self.device, self.cpus))
            .min_by(|a, b| price(a).total_cmp(&price(b)))
    }

    /// The unit in which the machine's hours are counted without a price, and the number of such
    /// units in an hour of the machine.
    pub fn hour(&self) -> (&'static str, u32) {
        match (self.kind, self.cpus) {
            (Kind::Gpu, _) => ("GPU-hour", 1),
            (Kind::Cpu, 0) => ("machine-hour", 1),
            (Kind::Cpu, cpus) => ("core-hour", cpus),
        }
    }

    /// Say what must be known so that a price per hour may be applied to the machine.
    pub fn wanted(&self) -> String {
        let device = match self.device.is_empty() {
            true => "the name of its device, which could not be read here",
            false => "the model of its device, as exactly as the provider states it",
        };
        let size = match self.kind {
            Kind::Gpu => "",
            Kind::Cpu => ", an instance type with this processor and as many CPUs",
        };
        format!(
            "To apply a price, the table needs {device}{size}, its price by the hour and region, and the page and \
             day that it was read."
        )
    }

    /// Name the machine: its device and, for a processor, the number of CPUs.
    pub fn words(&self) -> String {
        let device = match self.device.is_empty() {
            true => "a device whose name could not be read",
            false => &self.device,
        };
        match self.kind {
            Kind::Gpu => device.to_owned(),
            Kind::Cpu => format!("{device} with {} CPUs", self.cpus),
        }
    }
}

/// A price file.
#[derive(Serialize)]
pub struct PriceTables<'a> {
    file: &'a Prices,
    /// The offers of the file, each with its price per machine ($ an hour).
    offers: Vec<(&'a Offer, Option<f64>)>,
}

/// Make the tables of a price file.
pub fn tables(file: &Prices) -> PriceTables<'_> {
    let per_machine = |offer: &Offer| {
        let usd = offer.usd_per_machine_h()?;
        Some((usd * 1e4).round() / 1e4)
    };
    let offers = file.offers.iter();
    PriceTables {
        file,
        offers: offers.map(|offer| (offer, per_machine(offer))).collect(),
    }
}

/// A number that the script can compute again: the printed text, the formula, and the measured
/// value with its interval. The default is no number, which the script leaves alone.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Number {
    /// The printed text.
    pub text: String,
    /// Name of the script's formula; empty where there is nothing to compute.
    pub kind: &'static str,
    /// The measured value.
    pub v: String,
    /// The lower end of its interval, or empty.
    pub l: String,
    /// The upper end of its interval, or empty.
    pub h: String,
    /// Factor on the price in the sensitivity table, or empty.
    pub price_factor: String,
    /// Utilisation in the sensitivity table, or empty.
    pub utilisation: String,
}

impl Number {
    /// Make a number: the script computes from `measured`, and prints it as `text`.
    pub fn new(kind: &'static str, measured: Range, text: Option<String>) -> Self {
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
            ..Self::default()
        }
    }

    /// Whether a value is printed.
    pub fn is_known(&self) -> bool {
        !["", fmt::NONE].contains(&self.text.as_str())
    }
}

/// Format a value with its interval: `12.3 tok/s [12.0, 12.6]`.
pub fn with_interval(unit: Unit, range: Range) -> String {
    fmt::joined(fmt::with_interval(unit, range.value, range.ci95))
}

/// Format dollars with their interval: `$0.123 [0.120, 0.126]`.
pub fn dollars(range: Range) -> String {
    format!("${}", with_interval(Unit::Plain, range))
}

/// Format a share as percent, with its interval.
pub fn percent(share: Range) -> String {
    let times_100 = Range {
        value: share.value * 100.0,
        ci95: share.ci95.map(|(low, high)| (low * 100.0, high * 100.0)),
    };
    with_interval(Unit::Percent, times_100)
}

/// Say what share of a cost is saved, `17.2 % [14.7, 20.5]`; where nothing is, how many times the
/// cost it is: `costs 4.33× as much [3.90, 4.81]`.
pub fn saving_in_words(share: Range) -> String {
    if share.value >= 0.0 {
        return percent(share);
    }
    let ci95 = share.ci95.map(|(low, high)| (1.0 - high, 1.0 - low));
    let (times, interval) = fmt::ratio(1.0 - share.value, ci95);
    fmt::joined((format!("costs {times} as much"), interval))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_saved_is_said_as_a_multiple_of_the_cost() {
        let said = |value, ci95| saving_in_words(Range { value, ci95 });
        assert_eq!(said(0.25, Some((0.2, 0.3))), "25.0 % [20.0, 30.0]");
        assert_eq!(said(0.0, None), "0 %");
        assert_eq!(
            said(-3.33, Some((-3.8, -2.9))),
            "costs 4.33× as much [3.90, 4.80]"
        );
        assert_eq!(said(-1.0, None), "costs 2.00× as much");
    }

    #[test]
    fn what_is_not_finite_is_nothing_to_compute() {
        let range = |value, ci95| Range { value, ci95 };
        let broken = Number::new("cost", range(f64::NAN, None), None);
        assert_eq!(
            (broken.kind, broken.v.as_str(), broken.text.as_str()),
            ("", "", fmt::NONE)
        );
        let whole = Number::new(
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
