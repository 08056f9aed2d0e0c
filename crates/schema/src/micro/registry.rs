//! `engines/micro.toml`: which programs there are for the micro suites and what each
//! suite runs of them. The only place that names them.

use crate::error::{DataError, check_id, read_toml};
use crate::registry::Build;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::Path;

/// The whole registry.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MicroRegistry {
    /// All programs.
    #[serde(rename = "program", default)]
    pub programs: Vec<Program>,
    /// What the suites run.
    #[serde(rename = "suite", default)]
    pub suites: Vec<Contenders>,
}

/// A program that speaks `protocol::micro`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// Unique among programs of all kinds.
    pub id: String,
    /// How it is made.
    pub build: Build,
    /// About how long it compiles on two cores (s), after other programs of its package.
    #[serde(default)]
    pub build_s: Option<u32>,
}

/// What one suite runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contenders {
    /// Suite id.
    pub id: String,
    /// Id of the variant that ratios are against. It runs twice in every block.
    pub baseline: String,
    /// What every output is held against. It isn't timed under this name.
    pub reference: Variant,
    /// Who runs, in the order the site lists them.
    #[serde(rename = "variant")]
    pub variants: Vec<Variant>,
}

/// One way of doing a suite's work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// Unique in its suite; in file names and URLs.
    pub id: String,
    /// What it is, in a few words.
    pub about: String,
    /// Engine whose results it explains; empty for none.
    #[serde(default)]
    pub engine: String,
    /// Program id.
    pub program: String,
    /// The program's name for it.
    pub run: String,
    /// Backend; a profile chooses by it.
    pub backend: String,
    /// Precision; the suite's limit is chosen by it.
    pub precision: String,
}

impl MicroRegistry {
    /// Load and validate; an empty one where there is no file.
    pub fn load(path: &Path) -> Result<Self, DataError> {
        if !path.exists() {
            return Ok(Self::default());
        }
        let registry: Self = read_toml(path)?;
        let fail = |message: String| Err(DataError::new(path, message));
        let mut programs = BTreeSet::new();
        for program in &registry.programs {
            check_id(path, "program", &program.id)?;
            if !programs.insert(program.id.as_str()) {
                return fail(format!("program {:?} stands twice", program.id));
            }
        }
        let mut suites = BTreeSet::new();
        for suite in &registry.suites {
            check_id(path, "suite", &suite.id)?;
            if !suites.insert(suite.id.as_str()) {
                return fail(format!("suite {:?} stands twice", suite.id));
            }
            let mut ids = BTreeSet::new();
            for variant in suite.variants.iter().chain([&suite.reference]) {
                check_id(path, "variant", &variant.id)?;
                if !programs.contains(variant.program.as_str()) {
                    return fail(format!(
                        "variant {:?} of {:?} names the program {:?}, which is not in this file",
                        variant.id, suite.id, variant.program
                    ));
                }
                if !ids.insert(variant.id.as_str()) {
                    return fail(format!(
                        "variant {:?} of {:?} stands twice (the reference has an id too)",
                        variant.id, suite.id
                    ));
                }
            }
            if !suite.variants.iter().any(|v| v.id == suite.baseline) {
                return fail(format!(
                    "baseline {:?} of {:?} is no variant of it",
                    suite.baseline, suite.id
                ));
            }
        }
        Ok(registry)
    }

    /// The program of that id. A registry that was loaded has every one it names.
    pub fn program(&self, id: &str) -> Option<&Program> {
        self.programs.iter().find(|program| program.id == id)
    }
}
