//! The micro suites, which measure what lies below the engines. A suite's scenario id is
//! `micro/<suite>`.
//!
//! `data/scenarios/micro/*.toml`: what a suite asks, its cases, and how far an output may lie from
//! the reference's.
//!
//! The plan of the suites is resolved, so that `run.json` alone says what was asked and `--resume`
//! needs nothing else. The record of each launch is defined in [`record`].
//!
//! `engines/micro.toml`: the programs that answer, and what each suite runs of them. It is the only
//! place that names them.

pub mod record;

use crate::error::{DataError, all_fit, fits, is_stem, read_checked};
use crate::key::{CaseKey, CellKey};
use crate::registry::Build;
use crate::scenario::toml_files;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

pub use record::{MicroEvent, MicroLog, MicroSample};

/// The first part of every suite's scenario id, and the directory of the suites' records.
pub const DIR: &str = "micro";

/// Return a suite's scenario id.
pub fn scenario_id(suite: &str) -> String {
    format!("{DIR}/{suite}")
}

/// Return the key of a suite's case.
pub fn case_key(suite: &str, case: &str) -> CaseKey {
    CaseKey::new(scenario_id(suite), case)
}

/// Whether the scenario name `wanted` means a suite: `micro/sdpa`, or `micro/*` for all of them.
pub fn asks_for(wanted: &str, suite: &str) -> bool {
    let rest = wanted.strip_prefix(DIR).and_then(|w| w.strip_prefix('/'));
    rest.is_some_and(|rest| rest == "*" || rest == suite)
}

/// Whether the scenario name `wanted` is that of a suite.
pub fn is_micro(wanted: &str) -> bool {
    wanted
        .strip_prefix(DIR)
        .is_some_and(|rest| rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Profile;
    use std::path::Path;

    fn root() -> &'static Path {
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
    }

    #[test]
    fn every_suite_has_a_text_contenders_and_a_limit_for_each_precision() {
        let suites = Suite::load_all(&root().join("data/scenarios/micro")).unwrap();
        let registry = MicroRegistry::load(&root().join("engines/micro.toml")).unwrap();
        assert_eq!(suites.len(), registry.suites.len());
        for contenders in &registry.suites {
            let suite = suites.iter().find(|suite| suite.id == contenders.id);
            let suite = suite.unwrap_or_else(|| panic!("{} has no text", contenders.id));
            for variant in contenders.variants.iter().chain([&contenders.reference]) {
                assert!(
                    suite.limits.contains_key(&variant.precision),
                    "{}: no limit for {}",
                    suite.id,
                    variant.precision
                );
            }
        }
        for name in ["cpu", "gpu", "smoke"] {
            let profile =
                Profile::load(&root().join(format!("data/profiles/{name}.toml"))).unwrap();
            for (id, cases) in profile.micro.expect("it has suites").suites {
                let suite = suites
                    .iter()
                    .find(|suite| suite.id == id)
                    .expect("it is there");
                for case in cases {
                    assert!(
                        suite.cases.iter().any(|known| known.id == case),
                        "{id}: {case}"
                    );
                }
            }
        }
    }

    #[test]
    fn names_mean_suites() {
        assert!(asks_for("micro/*", "sdpa") && asks_for("micro/sdpa", "sdpa"));
        assert!(!asks_for("micro/sd", "sdpa") && !asks_for("sdpa", "sdpa"));
        assert!(is_micro("micro/*") && !is_micro("micro") && !is_micro("microscope/x"));
        assert_eq!(scenario_id("sdpa"), "micro/sdpa");
    }

    #[test]
    fn a_registry_that_names_what_is_not_there_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("micro.toml");
        let load = |program: &str, baseline: &str| {
            let variant = |id: &str| {
                format!(
                    "{{ id = {id:?}, about = \"\", program = {program:?}, run = \"r\", backend = \"cpu\", precision = \"f32\" }}"
                )
            };
            let text = format!(
                "[[program]]\nid = \"p\"\nbuild = {{ kind = \"prebuilt\", path = \"p\" }}\n[[suite]]\nid = \"s\"\n\
                 baseline = {baseline:?}\nreference = {}\nvariant = [{}]\n",
                variant("reference"),
                variant("v")
            );
            std::fs::write(&path, text).unwrap();
            MicroRegistry::load(&path)
        };
        assert!(load("p", "v").is_ok());
        assert!(load("q", "v").unwrap_err().message.contains("\"q\""));
        assert!(load("p", "w").unwrap_err().message.contains("baseline"));
        assert_eq!(
            MicroRegistry::load(&dir.path().join("none.toml"))
                .unwrap()
                .suites
                .len(),
            0
        );
    }

    #[test]
    fn a_publishable_profile_keeps_the_sample_floor_in_its_suites() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cpu.toml");
        let text = std::fs::read_to_string(root().join("data/profiles/cpu.toml")).unwrap();
        let from = text.find("[micro]").expect("it has suites");
        let fewer = text[from..].replacen("samples = 20", "samples = 19", 1);
        std::fs::write(&path, format!("{}{fewer}", &text[..from])).unwrap();
        let error = Profile::load(&path).unwrap_err();
        assert!(error.message.contains("19 samples × 5"), "{error}");
    }
}

/// One suite.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Suite {
    /// Id of the suite, equal to the file's stem; `micro/<id>` is the scenario.
    pub id: String,
    /// Version, raised whenever the work changes, so that old and new results are never compared.
    pub version: u32,
    /// Title for headings.
    pub title: String,
    /// Question that its page answers.
    pub question: String,
    /// What the numbers mean and don't mean; Markdown, printed on the page.
    pub analysis: String,
    /// Unit of the work of a call.
    pub work: Work,
    /// Precision → the largest allowed error of any value, relative to the largest magnitude of the
    /// reference's output. 0 = equal.
    pub limits: BTreeMap<String, f64>,
    /// Cases of the suite.
    #[serde(rename = "case")]
    pub cases: Vec<SuiteCase>,
}

/// The unit of the work of a call, and so of rates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// Bytes of text: MB/s.
    #[default]
    Bytes,
    /// Floating-point operations: GFLOP/s.
    Flop,
    /// Tokens: tok/s.
    Tokens,
}

/// One size of a suite's work.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SuiteCase {
    /// Id of the case, which stands in file names and URLs.
    pub id: String,
    /// Description of the case in words.
    pub label: String,
    /// Parameters that the programs are given.
    pub params: BTreeMap<String, u64>,
}

impl Suite {
    /// Load and validate one file.
    pub fn load(path: &Path) -> Result<Self, DataError> {
        read_checked(path, |suite: &Self| {
            fits("suite", &suite.id)?;
            is_stem(path, &suite.id)?;
            suite.check()
        })
    }

    fn check(&self) -> Result<(), String> {
        all_fit("case", self.cases.iter().map(|case| &case.id))?;
        if self.cases.is_empty() {
            return Err("no [[case]]: there is nothing to measure".into());
        }
        let is_none = |limit: &f64| !(limit.is_finite() && *limit >= 0.0);
        match self.limits.iter().find(|(_, limit)| is_none(limit)) {
            Some((precision, limit)) => Err(format!("[limits] {precision}: {limit} is no limit")),
            None => Ok(()),
        }
    }

    /// Load all suites of a directory, sorted by id; empty where there is no directory.
    pub fn load_all(dir: &Path) -> Result<Vec<Self>, DataError> {
        if !dir.is_dir() {
            return Ok(Vec::new());
        }
        let files = toml_files(dir)?;
        let mut all = files
            .iter()
            .map(|path| Self::load(path))
            .collect::<Result<Vec<_>, _>>()?;
        all.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(all)
    }
}

/// The plan of the micro suites.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MicroPlan {
    /// The suites.
    pub suites: Vec<PlannedSuite>,
    /// The order of work: blocks of launches, each block in its own random order.
    pub launches: Vec<MicroLaunch>,
}

impl MicroPlan {
    /// Whether no suite is planned.
    pub fn is_empty(&self) -> bool {
        self.suites.is_empty()
    }

    /// A suite by its id, without `micro/`.
    pub fn suite(&self, id: &str) -> Option<&PlannedSuite> {
        self.suites.iter().find(|suite| suite.id == id)
    }
}

/// A suite with its sizes resolved.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlannedSuite {
    /// Suite id, without `micro/`.
    pub id: String,
    /// Version of the suite.
    pub version: u32,
    /// Unit of the work of a call.
    pub work: Work,
    /// Precision → the largest allowed relative error.
    pub limits: BTreeMap<String, f64>,
    /// Id of the variant that ratios are relative to.
    pub baseline: String,
    /// Variant that every output is compared with.
    pub reference: Variant,
    /// Variants that are measured.
    pub variants: Vec<Variant>,
    /// Cases of the suite.
    pub cases: Vec<SuiteCase>,
    /// Number of samples per launch and case.
    pub samples: u32,
    /// Desired duration of a sample (ns).
    pub sample_ns: u64,
    /// Least duration of the untimed calls before the samples (ns).
    pub warmup_ns: u64,
    /// Longest time that the samples of a launch and case may take (ns); 0 = any.
    #[serde(default)]
    pub cell_ns: u64,
}

impl PlannedSuite {
    /// Find the variant of that id, or whose twin has that name.
    pub fn variant(&self, name: &str) -> Option<&Variant> {
        let id = crate::key::original(name);
        self.variants.iter().find(|variant| variant.id == id)
    }
}

/// One process: one variant, all cases of its suite, in one block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MicroLaunch {
    /// Block, from 0.
    pub invocation: u32,
    /// Suite id.
    pub suite: String,
    /// Variant id, or the name of the baseline's twin.
    pub variant: String,
}

impl MicroLaunch {
    /// Return the key of its cell in a case.
    pub fn cell_key(&self, case: &str) -> CellKey {
        case_key(&self.suite, case).cell(&self.variant)
    }
}

/// The registry of the micro suites, `engines/micro.toml`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MicroRegistry {
    /// All programs.
    #[serde(rename = "program", default)]
    pub programs: Vec<Program>,
    /// The suites, each with the variants it runs.
    #[serde(rename = "suite", default)]
    pub suites: Vec<SuiteVariants>,
}

/// A program that speaks `protocol::micro`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// Id of the program, unique among programs of all kinds.
    pub id: String,
    /// How the program is built.
    pub build: Build,
    /// Approximate compile time on two cores (s), after other programs of its package.
    #[serde(default)]
    pub build_s: Option<u32>,
}

/// The variants of one suite.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SuiteVariants {
    /// Suite id.
    pub id: String,
    /// Id of the variant that ratios are relative to. It runs twice in every block.
    pub baseline: String,
    /// Variant that every output is compared with. It isn't timed under this name.
    pub reference: Variant,
    /// Variants that are measured, in the order the site lists them.
    #[serde(rename = "variant")]
    pub variants: Vec<Variant>,
}

/// One way of doing a suite's work.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// Id of the variant, unique in its suite; stands in file names and URLs.
    pub id: String,
    /// Description in a few words.
    pub about: String,
    /// Id of the engine whose results it explains; empty for none.
    #[serde(default)]
    pub engine: String,
    /// Program id.
    pub program: String,
    /// The program's name for the variant.
    pub run: String,
    /// Backend, by which profiles choose variants.
    pub backend: String,
    /// Precision, by which the suite's limit is chosen.
    pub precision: String,
}

impl MicroRegistry {
    /// Load and validate; a missing file gives an empty registry.
    pub fn load(path: &Path) -> Result<Self, DataError> {
        match path.exists() {
            true => read_checked(path, Self::check),
            false => Ok(Self::default()),
        }
    }

    fn check(&self) -> Result<(), String> {
        all_fit("program", self.programs.iter().map(|program| &program.id))?;
        all_fit("suite", self.suites.iter().map(|suite| &suite.id))?;
        for suite in &self.suites {
            let mut ids = BTreeSet::new();
            for variant in suite.variants.iter().chain([&suite.reference]) {
                fits("variant", &variant.id)?;
                if self.program(&variant.program).is_none() {
                    return Err(format!(
                        "variant {:?} of {:?} names the program {:?}, which is not in this file",
                        variant.id, suite.id, variant.program
                    ));
                }
                if !ids.insert(variant.id.as_str()) {
                    return Err(format!(
                        "variant {:?} of {:?} is listed twice (the reference has an id too)",
                        variant.id, suite.id
                    ));
                }
            }
            if !suite.variants.iter().any(|v| v.id == suite.baseline) {
                return Err(format!(
                    "baseline {:?} of {:?} is no variant of it",
                    suite.baseline, suite.id
                ));
            }
        }
        Ok(())
    }

    /// The program of that id, if there is one. A registry that was loaded has every one it names.
    pub fn program(&self, id: &str) -> Option<&Program> {
        self.programs.iter().find(|program| program.id == id)
    }
}
