//! `engines/engines.toml`: the registry. What the harness knows of an engine
//! stands here and in the engine's own `hello`, nowhere in code.

use crate::error::{DataError, check_id, read_toml};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The whole registry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Registry {
    /// Target id that ratios are against.
    pub baseline: String,
    /// Target id whose outputs goldens are made from and timed outputs are checked by.
    pub reference: String,
    /// Target id that the goldens are cross-checked against.
    pub cross_check: String,
    /// All engines, in the order the site lists them.
    #[serde(rename = "engine")]
    pub engines: Vec<Engine>,
}

/// One engine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Engine {
    /// Folder under `engines/`, first part of its target ids.
    pub id: String,
    /// For headings.
    pub name: String,
    /// One sentence.
    pub about: String,
    /// Where it comes from.
    pub homepage: String,
    /// How its binary is made.
    pub build: Build,
    /// Not part of a normal run: chosen only by name (fakes, mutants).
    #[serde(default)]
    pub hidden: bool,
    /// What it runs.
    #[serde(rename = "target")]
    pub targets: Vec<TargetEntry>,
}

/// How an engine's program is made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Build {
    /// A Cargo binary, built in release.
    Cargo {
        /// Package name.
        package: String,
        /// Binary name.
        bin: String,
        /// Manifest of an excluded workspace, relative to the repository; absent: the root.
        #[serde(default)]
        manifest: Option<String>,
    },
    /// A program that is there already.
    Prebuilt {
        /// Its path, absolute or relative to the repository.
        path: String,
    },
    /// A Python program in the project's virtual environment.
    Python {
        /// The program, relative to the repository.
        script: String,
        /// Its hash-locked requirements, relative to the repository.
        requirements: String,
    },
}

/// One way of running an engine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TargetEntry {
    /// After `+` in the id; empty for the plain engine.
    #[serde(default)]
    pub variant: String,
    /// `cpu`, `cuda`, …
    pub backend: String,
    /// `f32`, `bf16`, `q8_0`, …
    pub precision: String,
    /// Weight file inside the model's directory.
    pub weights: String,
    /// As [`Engine::hidden`], for one target.
    #[serde(default)]
    pub hidden: bool,
}

/// A target with its engine resolved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Target {
    /// `engine[+variant].backend.precision`, e.g. `candle.cpu.q8_0`.
    pub id: String,
    /// Engine id.
    pub engine: String,
    /// Variant, empty for the plain engine.
    pub variant: String,
    /// Backend.
    pub backend: String,
    /// Precision.
    pub precision: String,
    /// Weight file.
    pub weights: String,
    /// Chosen only by name.
    #[serde(default)]
    pub hidden: bool,
}

impl Registry {
    /// Load and validate the registry.
    pub fn load(path: &Path) -> Result<Self, DataError> {
        let registry: Self = read_toml(path)?;
        let mut engine_ids = BTreeSet::new();
        for engine in &registry.engines {
            check_id(path, "engine", &engine.id)?;
            if engine.id.contains(['+', '.']) {
                return Err(DataError::new(
                    path,
                    format!("engine id {:?} must not contain '+' or '.'", engine.id),
                ));
            }
            if !engine_ids.insert(&engine.id) {
                return Err(DataError::new(
                    path,
                    format!("engine {:?} stands twice", engine.id),
                ));
            }
        }
        let targets = registry.targets();
        let mut ids = BTreeSet::new();
        for target in &targets {
            check_id(path, "target", &target.id)?;
            if !ids.insert(target.id.as_str()) {
                return Err(DataError::new(
                    path,
                    format!("target {:?} stands twice", target.id),
                ));
            }
        }
        for (what, id) in [
            ("baseline", &registry.baseline),
            ("reference", &registry.reference),
            ("cross_check", &registry.cross_check),
        ] {
            if !ids.contains(id.as_str()) {
                return Err(DataError::new(
                    path,
                    format!("{what} {id:?} is no target of this file"),
                ));
            }
        }
        Ok(registry)
    }

    /// All targets, hidden ones too, in the registry's order.
    pub fn targets(&self) -> Vec<Target> {
        let mut all = Vec::new();
        for engine in &self.engines {
            for entry in &engine.targets {
                let plus = if entry.variant.is_empty() { "" } else { "+" };
                all.push(Target {
                    id: format!(
                        "{}{plus}{}.{}.{}",
                        engine.id, entry.variant, entry.backend, entry.precision
                    ),
                    engine: engine.id.clone(),
                    variant: entry.variant.clone(),
                    backend: entry.backend.clone(),
                    precision: entry.precision.clone(),
                    weights: entry.weights.clone(),
                    hidden: engine.hidden || entry.hidden,
                });
            }
        }
        all
    }

    /// Who may judge others: the reference, then the target it is checked against.
    /// A registry that was loaded has both.
    pub fn judges(&self) -> [Target; 2] {
        [&self.reference, &self.cross_check].map(|id| {
            let mut all = self.targets().into_iter();
            let judge = all.find(|target| target.id == *id);
            judge.expect("`load` refuses a registry without it")
        })
    }

    /// The engine of that id.
    pub fn engine(&self, id: &str) -> Option<&Engine> {
        self.engines.iter().find(|engine| engine.id == id)
    }

    /// Engine names by id.
    pub fn names(&self) -> BTreeMap<String, String> {
        self.engines
            .iter()
            .map(|e| (e.id.clone(), e.name.clone()))
            .collect()
    }
}
