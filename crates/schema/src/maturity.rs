//! `data/maturity.toml`: what a team wants to know of an engine that no run can measure: how old
//! it is, how often it is released, what it can do and who keeps it. Each statement has the page
//! that it was read from; what no page states is left out.

use crate::error::{DataError, read_toml};
use crate::prices::is_date;
use crate::registry::Registry;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;

/// The file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Maturity {
    /// When all of it was read, `YYYY-MM-DD`.
    pub read: String,
    /// What is known of each engine.
    #[serde(rename = "engine")]
    pub engines: Vec<Dossier>,
    /// Engines that a reader may ask for and that are not measured.
    #[serde(default)]
    pub not_measured: Vec<NotMeasured>,
}

/// An engine without an adapter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NotMeasured {
    /// Its name, and the package where that differs.
    pub name: String,
    /// Its newest stable release; absent where no registry has one.
    #[serde(default)]
    pub latest: Option<Release>,
    /// Why it is not measured.
    pub why: String,
    /// Its page.
    pub source: String,
}

/// What is known of one engine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dossier {
    /// Engine id.
    pub id: String,
    /// The package whose releases are listed; empty where there is none.
    #[serde(default)]
    pub package: String,
    /// The page that lists them; empty where there is none.
    #[serde(default)]
    pub releases_source: String,
    /// The first release, or commit.
    #[serde(default)]
    pub first: Option<Release>,
    /// Stable releases in the 365 days before `read`.
    pub releases_last_year: u32,
    /// Stable releases, or the last commit, the newest first: the latest few, and those that runs
    /// have measured.
    pub releases: Vec<Release>,
    /// What is said of it, one statement a topic.
    #[serde(rename = "fact", default)]
    pub facts: Vec<Fact>,
    /// A small program that uses it, a file of this repository; empty: none is written.
    #[serde(default)]
    pub example: String,
    /// The text of that file.
    #[serde(skip)]
    pub example_text: String,
}

/// A version and its date.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Release {
    /// As the package calls it.
    pub version: String,
    /// `YYYY-MM-DD`.
    pub date: String,
}

impl Release {
    /// How many days old it was at a moment, which begins with `YYYY-MM-DD`; `None` where one of them is
    /// no date, or where it came later.
    pub fn age_days(&self, moment: &str) -> Option<u64> {
        let age = day_number(moment)? - day_number(&self.date)?;
        u64::try_from(age).ok()
    }
}

/// Days since 1970-01-01, in the Gregorian calendar: Hinnant's `days_from_civil`, whose years begin
/// in March.
fn day_number(moment: &str) -> Option<i64> {
    let date = moment.get(..10).filter(|date| is_date(date))?;
    let number = |part: Range<usize>| date.get(part)?.parse::<i64>().ok();
    let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    Some(era * 146_097 + day_of_era - 719_468)
}

/// A statement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fact {
    /// What it is about.
    pub topic: Topic,
    /// The statement, a sentence or two.
    pub says: String,
    /// The page that it was read from; empty: this repository.
    pub source: String,
}

/// What statements are about, in the order of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Topic {
    /// Whether it brings a server.
    Server,
    /// How it batches.
    Batching,
    /// Number formats.
    Quantisation,
    /// Processors and accelerators.
    Devices,
    /// Families of models.
    Models,
    /// How often its interface changes.
    Api,
    /// The way in for a team that uses PyTorch.
    FromPytorch,
    /// Who keeps it, under which licence.
    Maintenance,
}

impl Topic {
    /// Its heading.
    pub fn title(self) -> &'static str {
        match self {
            Self::Server => "Server",
            Self::Batching => "Batching",
            Self::Quantisation => "Quantisation",
            Self::Devices => "Devices",
            Self::Models => "Models",
            Self::Api => "API changes",
            Self::FromPytorch => "From PyTorch",
            Self::Maintenance => "Maintenance",
        }
    }
}

impl Maturity {
    /// Read the file and the programs that it names, in the repository at `root`; `None` where there
    /// is none. A bundle has the file without the programs.
    ///
    /// # Errors
    /// A file that can't be read, an engine that the registry hasn't, a date that is none, a topic
    /// twice, releases out of order, or a source that is no web page.
    pub fn load(root: &Path, registry: &Registry) -> Result<Option<Self>, DataError> {
        let path = &root.join("data/maturity.toml");
        if !path.is_file() {
            return Ok(None);
        }
        let mut all: Self = read_toml(path)?;
        if let Some(fault) = all.fault(registry) {
            return Err(DataError::new(path, fault));
        }
        for dossier in &mut all.engines {
            let example = root.join(&dossier.example);
            if example.is_file() {
                dossier.example_text = std::fs::read_to_string(&example)
                    .map_err(|error| DataError::new(&example, error.to_string()))?;
            }
        }
        Ok(Some(all))
    }

    /// What is known of an engine.
    pub fn dossier(&self, engine: &str) -> Option<&Dossier> {
        self.engines.iter().find(|dossier| dossier.id == engine)
    }

    fn fault(&self, registry: &Registry) -> Option<String> {
        if !is_date(&self.read) {
            return Some(format!("read = {:?} is no date YYYY-MM-DD", self.read));
        }
        let wrong = |other: &&NotMeasured| {
            let dated = other.latest.iter().all(|release| is_date(&release.date));
            !dated || !other.source.starts_with("https://")
        };
        if let Some(other) = self.not_measured.iter().find(wrong) {
            let name = &other.name;
            return Some(format!(
                "{name}: a date YYYY-MM-DD and an https:// address are asked for"
            ));
        }
        let mut seen = BTreeSet::new();
        self.engines.iter().find_map(|dossier| {
            let id = &dossier.id;
            if registry.engine(id).is_none() {
                return Some(format!("the registry has no engine {id:?}"));
            }
            if !seen.insert(id) {
                return Some(format!("{id} comes twice"));
            }
            dossier.fault().map(|fault| format!("{id}: {fault}"))
        })
    }
}

impl Dossier {
    /// The newest stable release.
    pub fn latest(&self) -> Option<&Release> {
        self.releases.first()
    }

    /// The release of a version that an engine says of itself, whatever stands around it.
    pub fn release_of(&self, said: &str) -> Option<&Release> {
        let words = |text: &str| -> Vec<String> {
            let parts = text.split(|c: char| c.is_whitespace() || "(),+".contains(c));
            parts.map(str::to_owned).collect()
        };
        let said = words(said);
        self.releases
            .iter()
            .find(|release| said.contains(&release.version))
    }

    fn fault(&self) -> Option<String> {
        let named = self.first.iter().chain(&self.releases);
        if let Some(wrong) = named
            .map(|release| &release.date)
            .find(|date| !is_date(date))
        {
            return Some(format!("{wrong:?} is no date YYYY-MM-DD"));
        }
        if !self.releases.is_sorted_by(|a, b| a.date >= b.date) {
            return Some("its releases are not listed newest first".into());
        }
        let mut topics = BTreeSet::new();
        if let Some(twice) = self.facts.iter().find(|fact| !topics.insert(fact.topic)) {
            return Some(format!("two statements on {}", twice.topic.title()));
        }
        let sources = self.facts.iter().map(|fact| &fact.source);
        let mut sources = sources.chain([&self.releases_source]);
        let wrong = sources.find(|url| !url.is_empty() && !url.starts_with("https://"))?;
        Some(format!("{wrong:?} is no https:// address"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::tests::repository;

    const FILE: &str = r#"
        read = "2026-11-23"
        [[engine]]
        id = "candle"
        releases_last_year = 2
        releases = [{ version = "0.2.0", date = "2026-02-01" }, { version = "0.1.0", date = "2026-01-01" }]
        [[engine.fact]]
        topic = "server"
        says = "It brings none."
        source = "https://example.org/a"
    "#;

    fn fault(text: &str) -> Option<String> {
        let (_, registry) = repository();
        toml::from_str::<Maturity>(text).unwrap().fault(&registry)
    }

    #[test]
    fn what_is_wrong_with_a_file_is_said() {
        assert_eq!(fault(FILE), None);
        for (good, bad, word) in [
            ("\"2026-11-23\"", "\"today\"", "no date"),
            ("\"candle\"", "\"nothing\"", "no engine \"nothing\""),
            ("2026-02-01", "2025-02-01", "newest first"),
            ("https://", "http://", "no https:// address"),
        ] {
            let said = fault(&FILE.replace(good, bad)).unwrap();
            assert!(said.contains(word), "{said}");
        }
        let fact = FILE.split_once("[[engine.fact]]").unwrap().1;
        let twice = format!("{FILE}\n[[engine.fact]]{fact}");
        assert!(fault(&twice).unwrap().contains("two statements on Server"));
    }

    #[test]
    fn a_version_is_found_in_what_an_engine_says() {
        let all: Maturity = toml::from_str(FILE).unwrap();
        let date = |said: &str| Some(all.engines[0].release_of(said)?.date.as_str());
        assert_eq!(date("0.1.0"), Some("2026-01-01"));
        assert_eq!(date("b1234 (crate 0.2.0)"), Some("2026-02-01"));
        assert_eq!(date("0.2.0+cpu"), Some("2026-02-01"));
        assert_eq!(date("10.1.0"), None);
    }

    #[test]
    fn days_are_counted_over_months_and_leap_years() {
        for (date, days) in [
            ("1969-12-31", -1),
            ("1970-01-01", 0),
            ("2000-02-29", 11_016),
            ("2000-03-01", 11_017),
            ("2026-11-24T10:30:59Z", 20_781),
        ] {
            assert_eq!(day_number(date), Some(days), "{date}");
        }
        for none in ["", "yesterday", "2026-13-01", "2026-1-010", "2026-11-2ü"] {
            assert_eq!(day_number(none), None, "{none}");
        }
        let release = Release {
            version: "2.9.0".into(),
            date: "2025-10-15".into(),
        };
        assert_eq!(release.age_days("2026-11-24T10:30:59Z"), Some(405));
        assert_eq!(release.age_days("2025-10-15"), Some(0));
        assert_eq!(release.age_days("2025-10-14"), None);
    }

    #[test]
    fn the_file_of_this_repository_loads() {
        let (root, registry) = repository();
        let all = Maturity::load(&root, &registry)
            .unwrap()
            .expect("there is a file");
        for dossier in &all.engines {
            let has_program = !dossier.example.is_empty();
            assert_eq!(
                has_program,
                !dossier.example_text.is_empty(),
                "{}",
                dossier.id
            );
            assert!(!dossier.facts.is_empty(), "{}", dossier.id);
        }
    }
}
