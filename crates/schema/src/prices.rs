//! `data/prices/<date>.toml`: what a machine costs by the hour, what electricity
//! costs, and what an API asks for the same model. One row per offer, each with its
//! date and its source.
//!
//! A file is never edited once results were published with it: a new date is a new
//! file, and the newest is used. Deliberately absent: a price that no page
//! states, an average over offers, and a currency other than the US dollar.

use crate::error::{DataError, is_stem, read_checked};
use crate::scenario::toml_files;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::Path;

/// One dated price file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    /// Date when it was put together, `YYYY-MM-DD`; equal to the file's stem.
    pub date: String,
    /// How the rows were found and what they leave out.
    pub about: String,
    /// Offers of machines by the hour.
    #[serde(rename = "offer", default)]
    pub offers: Vec<Offer>,
    /// Prices of electricity.
    #[serde(default)]
    pub electricity: Vec<Electricity>,
    /// Prices of APIs that serve a model.
    #[serde(rename = "api", default)]
    pub apis: Vec<Api>,
}

/// The source of a row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// Address of the page that states the price.
    pub url: String,
    /// Address of the page it was read on, where that is a dated copy of `url`.
    #[serde(default)]
    pub via: String,
    /// Date on which the price stood there, `YYYY-MM-DD`.
    pub date: String,
    /// Meaning of that date.
    pub dated: Dated,
}

/// The meaning of a row's date.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dated {
    /// The page, or the copy of it, bears this date.
    Published,
    /// The page bears no date; the stored copy was looked at on this date, and the price may be
    /// older.
    Seen,
}

/// The hardware that an offer is mainly paid for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// GPUs.
    Gpu,
    /// A machine without a GPU.
    Cpu,
}

/// A machine that can be had by the hour.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Offer {
    /// Name of the seller.
    pub provider: String,
    /// Name of the product, as the seller calls it.
    pub product: String,
    /// Hardware that it is mainly paid for.
    pub kind: Kind,
    /// The GPU or the processor as a reader knows it, such as `A100 40 GB`.
    pub model: String,
    /// Names that such a device gives itself (NVML, /proc/cpuinfo): a run on a device of exactly
    /// one of these names was on this kind of hardware. Empty: the seller doesn't say which device
    /// it is, so that no run can be priced by it.
    #[serde(default)]
    pub devices: Vec<String>,
    /// Number of GPUs; for a machine without one, number of virtual CPUs.
    pub units: u32,
    /// US dollars an hour for the whole offer, cancellable at any time.
    #[serde(default)]
    pub usd_per_h_on_demand: Option<f64>,
    /// US dollars an hour for the whole offer, where the seller may take the machine back.
    #[serde(default)]
    pub usd_per_h_spot: Option<f64>,
    /// Region of the machine; empty where the page doesn't say.
    #[serde(default)]
    pub region: String,
    /// Other facts that a reader must know.
    #[serde(default)]
    pub note: String,
    /// Source of the price.
    pub source: Source,
}

/// A price of electricity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Electricity {
    /// Place, and the kind of customer who pays this price.
    pub place: String,
    /// US dollars a kilowatt-hour.
    pub usd_per_kwh: f64,
    /// Source of the price.
    pub source: Source,
}

/// The price of an API that serves a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Api {
    /// Name of the provider.
    pub provider: String,
    /// Id of the model in data/models.toml whose weights it serves.
    pub model: String,
    /// US dollars for a million prompt tokens.
    pub usd_per_m_input: f64,
    /// US dollars for a million output tokens.
    pub usd_per_m_output: f64,
    /// Source of the price.
    pub source: Source,
}

impl Offer {
    /// US dollars an hour for one unit of a GPU offer, or for a whole machine without
    /// a GPU: on demand where known, else spot.
    pub fn usd_per_machine_h(&self) -> Option<f64> {
        let whole = self.usd_per_h_on_demand.or(self.usd_per_h_spot)?;
        Some(match self.kind {
            Kind::Gpu => whole / f64::from(self.units),
            Kind::Cpu => whole,
        })
    }

    /// Whether a run on this device was on the offered hardware: it has the same device name and,
    /// for a machine without a GPU, as many CPUs.
    pub fn is_of(&self, kind: Kind, device: &str, cpus: u32) -> bool {
        let same = |name: &String| name.trim().eq_ignore_ascii_case(device.trim());
        self.kind == kind
            && self.devices.iter().any(same)
            && (kind == Kind::Gpu || self.units == cpus)
    }
}

impl Prices {
    /// Load and validate one file.
    pub fn load(path: &Path) -> Result<Self, DataError> {
        read_checked(path, |prices: &Self| prices.check(path))
    }

    fn check(&self, path: &Path) -> Result<(), String> {
        if !is_date(&self.date) || is_stem(path, &self.date).is_err() {
            return Err(format!(
                "date {:?} must be YYYY-MM-DD and equal the file's name",
                self.date
            ));
        }
        if self.about.trim().is_empty() {
            return Err("about is empty: say how the rows were found".into());
        }
        let mut seen = BTreeSet::new();
        for offer in &self.offers {
            let row = format!("offer {} – {}", offer.provider, offer.product);
            let given = [offer.usd_per_h_on_demand, offer.usd_per_h_spot];
            if given.iter().all(Option::is_none) {
                return Err(format!("{row}: has no price"));
            }
            if !given.iter().flatten().all(|&usd| is_price(usd)) {
                return Err(format!("{row}: a price must be more than 0 and finite"));
            }
            if offer.units == 0 {
                return Err(format!("{row}: units must be at least 1"));
            }
            if offer.provider.is_empty() || offer.product.is_empty() || offer.model.is_empty() {
                return Err(format!("{row}: provider, product and model must be named"));
            }
            check_source(&self.date, &row, &offer.source)?;
            if !seen.insert((&offer.provider, &offer.product, &offer.region)) {
                return Err(format!("{row}: is listed twice"));
            }
        }
        for row in &self.electricity {
            let name = format!("electricity {}", row.place);
            if row.place.is_empty() || !is_price(row.usd_per_kwh) {
                return Err(format!("{name}: needs a place and a price more than 0"));
            }
            check_source(&self.date, &name, &row.source)?;
        }
        for row in &self.apis {
            let name = format!("api {} – {}", row.provider, row.model);
            if !is_price(row.usd_per_m_input) || !is_price(row.usd_per_m_output) {
                return Err(format!("{name}: prices must be more than 0 and finite"));
            }
            check_source(&self.date, &name, &row.source)?;
        }
        Ok(())
    }

    /// The newest file of a directory; `None` where it holds none or isn't there. All
    /// of them are validated.
    pub fn newest(dir: &Path) -> Result<Option<Self>, DataError> {
        if !dir.is_dir() {
            return Ok(None);
        }
        let all: Result<Vec<_>, _> = toml_files(dir)?.iter().map(|p| Self::load(p)).collect();
        // Dates of this form sort as text.
        Ok(all?.into_iter().max_by(|a, b| a.date.cmp(&b.date)))
    }
}

fn is_price(usd: f64) -> bool {
    usd.is_finite() && usd > 0.0
}

fn check_source(file_date: &str, row: &str, source: &Source) -> Result<(), String> {
    let is_page = |url: &str| url.starts_with("https://") && !url.contains(char::is_whitespace);
    if !is_page(&source.url) || !(source.via.is_empty() || is_page(&source.via)) {
        return Err(format!("{row}: url and via must be https:// addresses"));
    }
    if !is_date(&source.date) || source.date.as_str() > file_date {
        return Err(format!(
            "{row}: date {:?} must be YYYY-MM-DD and not after the file's",
            source.date
        ));
    }
    Ok(())
}

/// Whether a text is `YYYY-MM-DD` with a month, and a day that the month has in some year.
pub(crate) fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let [year, month, day] = parts.as_slice() else {
        return false;
    };
    let number = |part: &str, digits: usize| {
        (part.len() == digits && part.bytes().all(|b| b.is_ascii_digit()))
            .then(|| part.parse::<u32>().ok())
            .flatten()
    };
    let (Some(_), Some(month), Some(day)) = (number(year, 4), number(month, 2), number(day, 2))
    else {
        return false;
    };
    let last = match month {
        2 => 29,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    (1..=12).contains(&month) && (1..=last).contains(&day)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
date = "2026-11-21"
about = "By hand."
[[offer]]
provider = "P"
product = "x8"
kind = "gpu"
model = "H200"
devices = ["NVIDIA H200"]
units = 8
usd_per_h_on_demand = 40.0
source = { url = "https://p.example/", date = "2026-11-01", dated = "published" }
[[offer]]
provider = "P"
product = "c2"
kind = "cpu"
model = "EPYC"
devices = ["AMD EPYC 9454 48-Core Processor"]
units = 2
usd_per_h_spot = 0.1
source = { url = "https://p.example/", date = "2026-11-01", dated = "seen" }
[[electricity]]
place = "Here"
usd_per_kwh = 0.1
source = { url = "https://e.example/", date = "2025-01-31", dated = "published" }
[[api]]
provider = "A"
model = "m"
usd_per_m_input = 0.1
usd_per_m_output = 0.2
source = { url = "https://a.example/", date = "2026-01-01", dated = "published" }
"#;

    fn load(text: &str) -> Result<Prices, DataError> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("2026-11-21.toml");
        std::fs::write(&path, text).unwrap();
        Prices::load(&path)
    }

    #[test]
    fn a_good_file_loads_and_a_price_is_of_one_machine() {
        let prices = load(GOOD).unwrap();
        assert_eq!(prices.offers[0].usd_per_machine_h(), Some(5.0));
        assert_eq!(prices.offers[1].usd_per_machine_h(), Some(0.1));
        assert!(prices.offers[0].is_of(Kind::Gpu, " nvidia h200", 64));
        assert!(!prices.offers[0].is_of(Kind::Gpu, "NVIDIA H200 NVL", 64));
        assert!(!prices.offers[0].is_of(Kind::Cpu, "NVIDIA H200", 8));
        let cpu = &prices.offers[1];
        assert!(cpu.is_of(Kind::Cpu, "AMD EPYC 9454 48-Core Processor", 2));
        assert!(!cpu.is_of(Kind::Cpu, "AMD EPYC 9454 48-Core Processor", 4));
        assert!(!cpu.is_of(Kind::Cpu, "AMD EPYC", 2));
    }

    #[test]
    fn what_cannot_be_checked_is_refused_with_its_row() {
        for (from, to, why) in [
            ("usd_per_h_on_demand = 40.0\n", "", "has no price"),
            ("= 40.0", "= -1.0", "more than 0"),
            ("= 40.0", "= inf", "more than 0"),
            ("units = 8", "units = 0", "units"),
            ("product = \"c2\"", "product = \"x8\"", "is listed twice"),
            (
                "\"https://p.example/\", date = \"2026-11-01\"",
                "\"http://p.example/\", date = \"2026-11-01\"",
                "https://",
            ),
            (
                "\"2026-11-01\", dated = \"seen\"",
                "\"2026-12-01\", dated = \"seen\"",
                "not after",
            ),
            ("\"2025-01-31\"", "\"2025-13-31\"", "YYYY-MM-DD"),
            ("\"2025-01-31\"", "\"2025-02-31\"", "YYYY-MM-DD"),
            ("\"2025-01-31\"", "\"2025-04-31\"", "YYYY-MM-DD"),
            ("\"2025-01-31\"", "\"2025-01-32\"", "YYYY-MM-DD"),
            ("usd_per_kwh = 0.1", "usd_per_kwh = 0.0", "electricity"),
            ("usd_per_m_output = 0.2", "usd_per_m_output = nan", "api"),
            (
                "date = \"2026-11-21\"",
                "date = \"2026-11-20\"",
                "file's name",
            ),
            ("about = \"By hand.\"", "about = \"\"", "about"),
            ("units = 2", "units = 2\nprice = 1", "unknown field"),
        ] {
            assert!(GOOD.contains(from), "{from}");
            let error = load(&GOOD.replacen(from, to, 1)).unwrap_err().to_string();
            assert!(error.contains(why), "{to}: {error}");
        }
    }

    #[test]
    fn the_newest_file_counts_and_an_empty_place_is_none() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Prices::newest(&dir.path().join("none")).unwrap(), None);
        assert_eq!(Prices::newest(dir.path()).unwrap(), None);
        for date in ["2026-11-21", "2025-12-31"] {
            let text = GOOD
                .replacen("2026-11-21", date, 1)
                .replace("2026-11-01", "2025-01-01")
                .replace("2026-01-01", "2025-01-01");
            std::fs::write(dir.path().join(format!("{date}.toml")), text).unwrap();
        }
        let newest = Prices::newest(dir.path()).unwrap().unwrap();
        assert_eq!(newest.date, "2026-11-21");
    }

    #[test]
    fn the_files_of_this_repository_load() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/prices");
        let prices = Prices::newest(&dir).unwrap().expect("there is a file");
        let providers: BTreeSet<&str> = prices.offers.iter().map(|o| o.provider.as_str()).collect();
        assert!(providers.len() >= 5, "{providers:?}");
        for model in [
            "RTX 4090",
            "A100 40 GB",
            "A100 80 GB",
            "L40S",
            "H100",
            "H200",
            "B200",
        ] {
            assert!(
                prices.offers.iter().any(|o| o.model.starts_with(model)),
                "{model}"
            );
        }
        assert!(prices.offers.iter().any(|o| o.kind == Kind::Cpu));
        assert!(!prices.electricity.is_empty());
    }
}
