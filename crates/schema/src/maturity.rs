//! `data/maturity.toml`: facts about engines that no run can measure: how old an engine is, how
//! often it is released, what it can do and who maintains it. Each statement has the page that it
//! was read from; what no page states is left out.

use crate::error::{DataError, read_checked};
use crate::prices::is_date;
use crate::registry::Registry;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;

/// The content of `data/maturity.toml`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Maturity {
    /// Date on which the pages of all entries without a later date were read, `YYYY-MM-DD`.
    pub read: String,
    /// The dossier of each engine.
    #[serde(rename = "engine")]
    pub engines: Vec<Dossier>,
    /// Engines that a reader may look for and that are not measured.
    #[serde(default)]
    pub not_measured: Vec<NotMeasured>,
}

/// An engine without an adapter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NotMeasured {
    /// Name of the engine, and of its package where that differs.
    pub name: String,
    /// The newest stable release; absent where no package registry has one.
    #[serde(default)]
    pub latest: Option<Release>,
    /// Reason why it is not measured.
    pub why: String,
    /// Address of its page.
    pub source: String,
    /// Date on which it was read, `YYYY-MM-DD`, if later than the file's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read: Option<String>,
}

/// Facts about one engine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dossier {
    /// Engine id.
    pub id: String,
    /// Date on which the dossier was read, `YYYY-MM-DD`, if later than the file's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read: Option<String>,
    /// The package whose releases are listed; empty where there is none.
    #[serde(default)]
    pub package: String,
    /// Address of the page that lists the releases; empty where there is none.
    #[serde(default)]
    pub releases_source: String,
    /// The first release, or commit.
    #[serde(default)]
    pub first: Option<Release>,
    /// Number of stable releases in the 365 days before `read`.
    pub releases_last_year: u32,
    /// Stable releases, or the last commit, the newest first: the latest few, and those that runs
    /// have measured.
    pub releases: Vec<Release>,
    /// Statements about the engine, one per topic.
    #[serde(rename = "fact", default)]
    pub facts: Vec<Fact>,
    /// Path of a small program that uses the engine, in this repository; empty where there is none.
    #[serde(default)]
    pub example: String,
    /// Text of the example.
    #[serde(skip)]
    pub example_text: String,
}

/// A version and its date.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Release {
    /// Version, as the package writes it.
    pub version: String,
    /// Date of the release, `YYYY-MM-DD`.
    pub date: String,
}

impl Release {
    /// Age of the release (days) at a moment, whose text begins with `YYYY-MM-DD`; `None` where one
    /// of them is no date, or where the release came later.
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

/// A statement about an engine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fact {
    /// Topic of the statement.
    pub topic: Topic,
    /// Text of the statement, a sentence or two.
    pub says: String,
    /// The statement in a few words, without a full stop; empty where only the whole is shown. The
    /// guide prints it of the topics server, batching and devices.
    #[serde(default)]
    pub short: String,
    /// Address of the page that it was read from; empty: this repository.
    pub source: String,
    /// Date on which it was read, `YYYY-MM-DD`, if later than the dossier's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read: Option<String>,
}

impl Fact {
    /// The statement in a few words, else all of it; without a full stop.
    pub fn in_short(&self) -> &str {
        match self.short.as_str() {
            "" => self.says.trim_end_matches('.'),
            short => short,
        }
    }
}

/// The topics of statements, in the order of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Topic {
    /// Whether the engine has a server.
    Server,
    /// How the engine batches requests.
    Batching,
    /// Number formats that it supports.
    Quantisation,
    /// What its source says of its kernels, where that bears on its speed.
    Kernels,
    /// Processors and accelerators that it supports.
    Devices,
    /// Families of models that it supports.
    Models,
    /// How often its programming interface changes.
    Api,
    /// How a team that uses PyTorch can adopt it.
    FromPytorch,
    /// Who maintains it, and under which licence.
    Maintenance,
}

impl Topic {
    /// The topic's heading.
    pub fn title(self) -> &'static str {
        match self {
            Self::Server => "Server",
            Self::Batching => "Batching",
            Self::Quantisation => "Quantisation",
            Self::Kernels => "Kernels",
            Self::Devices => "Devices",
            Self::Models => "Models",
            Self::Api => "API changes",
            Self::FromPytorch => "From PyTorch",
            Self::Maintenance => "Maintenance",
        }
    }
}

impl Maturity {
    /// Read the file and the programs that it names, in the repository at `root`; `None` where
    /// there is no file. A bundle has the file without the programs.
    ///
    /// # Errors
    /// If the file can't be read, the registry lacks an engine, a date is no date, a topic comes
    /// twice, releases are out of order, or a source is no web page.
    pub fn load(root: &Path, registry: &Registry) -> Result<Option<Self>, DataError> {
        let path = &root.join("data/maturity.toml");
        if !path.is_file() {
            return Ok(None);
        }
        let check = |all: &Self| all.fault(registry).map_or(Ok(()), Err);
        let mut all = read_checked(path, check)?;
        for dossier in &mut all.engines {
            let example = root.join(&dossier.example);
            if example.is_file() {
                dossier.example_text = std::fs::read_to_string(&example)
                    .map_err(|error| DataError::new(&example, error.to_string()))?;
            }
        }
        Ok(Some(all))
    }

    /// The dossier of an engine, if there is one.
    pub fn dossier(&self, engine: &str) -> Option<&Dossier> {
        self.engines.iter().find(|dossier| dossier.id == engine)
    }

    /// The date on which a dossier of this file was read, `YYYY-MM-DD`.
    pub fn read_of<'a>(&'a self, dossier: &'a Dossier) -> &'a str {
        dossier.read.as_deref().unwrap_or(&self.read)
    }

    fn fault(&self, registry: &Registry) -> Option<String> {
        if !is_date(&self.read) {
            return Some(format!("read = {:?} is no date YYYY-MM-DD", self.read));
        }
        let wrong = |other: &&NotMeasured| {
            let dates = other.latest.iter().map(|release| &release.date);
            let dated = dates.chain(&other.read).all(|date| is_date(date));
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

    /// Find the release whose version an engine reports, whatever text stands around the version.
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
        let read = self.facts.iter().filter_map(|fact| fact.read.as_ref());
        let mut dates = named
            .map(|release| &release.date)
            .chain(read)
            .chain(&self.read);
        if let Some(wrong) = dates.find(|date| !is_date(date)) {
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
        read = "2026-11-29"
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
            ("2026-11-29", "later", "no date"),
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
            let (id, path) = (&dossier.id, &dossier.example);
            let has_program = !path.is_empty();
            assert_eq!(
                has_program,
                !dossier.example_text.is_empty(),
                "{id}: there is no file {path:?}, or it is empty"
            );
            assert!(!dossier.facts.is_empty(), "{id}: it has no statement");
            let beside = [Topic::Server, Topic::Batching, Topic::Devices];
            for fact in dossier.facts.iter().filter(|f| beside.contains(&f.topic)) {
                let length = fact.short.chars().count();
                assert!(
                    (1..=80).contains(&length),
                    "{id}: the guide prints `short` of {:?}: give it 1 to 80 characters",
                    fact.topic
                );
            }
        }
    }
}
