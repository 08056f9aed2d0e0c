//! `engines/engines.toml`: the registry. All that the harness knows of an engine stands here and in
//! the engine's own `hello`, and nothing of it in code.

mod architectures;
mod build;
mod device;
mod instrument;
pub mod isa;
mod kv;

pub use architectures::ANY_ARCHITECTURE;
pub use build::{Build, CargoBuild, Libtorch, Need, VENV};
pub use device::{Device, DeviceKind};
pub use instrument::{Handicap, Instrument};
pub use kv::{KvFormat, kv_bits};

use crate::error::{DataError, all_fit, fits, read_checked};
use isa::IsaLadder;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The content of `engines/engines.toml`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Registry {
    /// Id of the target that ratios are relative to; see [`Registry::baseline_of`].
    pub baseline: String,
    /// Id of the target that makes goldens from its outputs, and that checks timed outputs.
    pub reference: String,
    /// Id of the target that the goldens are cross-checked against.
    pub cross_check: String,
    /// Target that the harness is calibrated with.
    #[serde(default)]
    pub instrument: Option<Instrument>,
    /// Targets that are slower than another by a known share, with which the verdicts are tested.
    #[serde(default, rename = "handicap")]
    pub handicaps: Vec<Handicap>,
    /// Ladders of levels to which libraries' instructions can be limited.
    #[serde(default, rename = "isa_ladder")]
    pub isa_ladders: Vec<IsaLadder>,
    /// Backend → the devices that it runs on, one of which must be here. A backend that
    /// isn't named needs a processor and nothing more.
    #[serde(default, rename = "backend")]
    pub backends: BTreeMap<String, Vec<Device>>,
    /// Backend → the program that measures the limits of its device: it takes no input and prints
    /// one JSON object of rates.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<String, Build>,
    /// Program id → approximate time to compile or download it on two cores (s). A run builds first
    /// what takes least, and estimates the time of its builds by these.
    #[serde(default)]
    pub build_s: BTreeMap<String, u32>,
    /// All engines, in the order the site lists them.
    #[serde(rename = "engine")]
    pub engines: Vec<Engine>,
}

/// One engine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Engine {
    /// Id of the engine: its folder under `engines/`, and the first part of its target ids.
    pub id: String,
    /// Name for headings.
    pub name: String,
    /// Description in one sentence.
    pub about: String,
    /// Origin of the engine: an address, or a folder of this repository.
    pub homepage: String,
    /// How its program is built, for every backend that isn't in `on`.
    pub build: Build,
    /// Builds by backend, for backends that need a program of their own: other features, another
    /// binary.
    #[serde(default)]
    pub on: BTreeMap<String, Build>,
    /// Programs that drive the engine without our adapter, to measure the adapter's cost.
    #[serde(default)]
    pub direct: Vec<Direct>,
    /// For an engine that is a client: a real server, which its tests start by the
    /// variable `BENCH_REAL_SERVER`.
    #[serde(default)]
    pub test_server: Option<Build>,
    /// Environment variables of the user's that its programs see, beside those that every program
    /// sees: names, or the beginning of names before a `*`.
    #[serde(default)]
    pub env: Vec<String>,
    /// Model architectures that it runs, by the `model_type` of their config.json;
    /// [`ANY_ARCHITECTURE`]: all of them.
    #[serde(default = "architectures::only_llama")]
    pub architectures: Vec<String>,
    /// Whether it is left out of a normal run, and chosen only by name (fakes, mutants).
    #[serde(default)]
    pub hidden: bool,
    /// Whether the authors of the benchmark wrote it. Pages say so where it leads, and the guide
    /// recommends others.
    #[serde(default)]
    pub ours: bool,
    /// Whether what computes is written in Rust, and not a library in another language behind an
    /// interface in Rust.
    #[serde(default)]
    pub in_rust: bool,
    /// Whether no package registry has it, so that its source is a repository at a pinned revision.
    /// Pages don't call such an engine a crate.
    #[serde(default)]
    pub unpublished: bool,
    /// Targets of the engine.
    #[serde(rename = "target")]
    pub targets: Vec<TargetEntry>,
}

/// A program that drives an engine without our adapter. It reads the same request as an adapter
/// that is started by hand, and prints one JSON object with `output_tok_per_s` and, unless it
/// starts somebody else's tool, `output_ids`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Direct {
    /// How the program is built.
    pub build: Build,
    /// Weight file inside the model's directory that both load, on the processor.
    pub weights: String,
    /// Reason why its tokens may differ from the adapter's; empty where they may not.
    #[serde(default)]
    pub other_tokens: String,
    /// The engine's own benchmark, which the program starts. It must be on PATH, and it need not
    /// say which tokens came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
}

impl Engine {
    /// How the program for a backend is built.
    pub fn build_for(&self, backend: &str) -> &Build {
        self.on.get(backend).unwrap_or(&self.build)
    }

    /// The id of the program for a backend: the engine's id, or `<engine>-<backend>` for one of its
    /// own. Backends that are built alike share one.
    pub fn program_id(&self, backend: &str) -> String {
        let build = self.build_for(backend);
        if *build == self.build {
            return self.id.clone();
        }
        let alike = self.on.iter().find(|(_, other)| *other == build);
        let named = alike.map_or(backend, |(backend, _)| backend);
        format!("{}-{named}", self.id)
    }

    /// All ways in which its programs are built.
    pub fn builds(&self) -> impl Iterator<Item = &Build> {
        std::iter::once(&self.build).chain(self.on.values())
    }
}

/// One way of running an engine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TargetEntry {
    /// Name of the variant, after `+` in the id; empty for the plain engine.
    #[serde(default)]
    pub variant: String,
    /// Backend: `cpu`, `cuda`, …
    pub backend: String,
    /// Precision: `f32`, `bf16`, `q8_0`, …
    pub precision: String,
    /// Weight file inside the model's directory.
    pub weights: String,
    /// Number format of its keys and values; absent: it declares none. A target whose engine
    /// reports another size of the cache is `wrong_output`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kv: Option<KvFormat>,
    /// Model architectures, as in [`Engine::architectures`], where this target runs others than its
    /// engine; empty: the engine's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub architectures: Vec<String>,
    /// Whether this one target is hidden, as in [`Engine::hidden`]. Of an engine that isn't, it is a
    /// mutant ([`Registry::mutants`]), which the gate must refuse, unless it is a handicap.
    #[serde(default)]
    pub hidden: bool,
}

/// A target with its engine resolved.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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
    /// Number format of its keys and values, as in [`TargetEntry::kv`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kv: Option<KvFormat>,
    /// Whether it is chosen only by name.
    #[serde(default)]
    pub hidden: bool,
}

impl Registry {
    /// The id of the target that ratios are relative to among those of a run: the baseline itself
    /// or, where the run doesn't have it (another backend, a model too large for f32), the first
    /// target of the same engine and variant. Without one, the baseline's id, which then is a
    /// target that was not measured.
    pub fn baseline_of<'a>(&'a self, planned: &'a [Target]) -> &'a str {
        let has = |id: &str| planned.iter().any(|target| target.id == id);
        if has(&self.baseline) {
            return &self.baseline;
        }
        let kind = |id: &'a str| id.split('.').next();
        planned
            .iter()
            .map(|target| target.id.as_str())
            .find(|id| kind(id) == kind(&self.baseline))
            .unwrap_or(&self.baseline)
    }

    /// Load and validate the registry.
    pub fn load(path: &Path) -> Result<Self, DataError> {
        read_checked(path, Self::check)
    }

    fn check(&self) -> Result<(), String> {
        all_fit("engine", self.engines.iter().map(|engine| &engine.id))?;
        let mut ids = self.engines.iter().map(|engine| &engine.id);
        if let Some(id) = ids.find(|id| id.contains(['+', '.'])) {
            return Err(format!("engine id {id:?} must not contain '+' or '.'"));
        }
        self.check_devices()?;
        self.check_programs()?;
        self.check_environments()?;
        self.check_architectures()?;
        isa::check(&self.isa_ladders)?;
        let targets = self.targets();
        all_fit("target", targets.iter().map(|target| &target.id))?;
        let named = [
            ("baseline", Some(&self.baseline)),
            ("reference", Some(&self.reference)),
            ("cross_check", Some(&self.cross_check)),
            ("instrument", self.instrument.as_ref().map(|i| &i.target)),
        ];
        let named = named.into_iter().filter_map(|(what, id)| Some((what, id?)));
        let handicaps = self.handicaps.iter();
        let handicaps = handicaps.flat_map(|h| [("handicap", &h.target), ("handicap", &h.of)]);
        for (what, id) in named.chain(handicaps) {
            if !targets.iter().any(|target| target.id == *id) {
                return Err(format!("{what} {id:?} is no target of this file"));
            }
        }
        Ok(())
    }

    /// Check that each `on` is for a backend that is run, and that no two programs share a name.
    fn check_programs(&self) -> Result<(), String> {
        let mut owners: BTreeMap<String, &str> = BTreeMap::new();
        for engine in &self.engines {
            for backend in engine.on.keys() {
                fits("backend", backend)?;
                if !engine.targets.iter().any(|t| t.backend == *backend) {
                    return Err(format!(
                        "engine {:?} says how it is built on {backend:?}, but has no target there",
                        engine.id
                    ));
                }
            }
            for target in &engine.targets {
                let program = engine.program_id(&target.backend);
                let owner = owners.entry(program.clone()).or_insert(&engine.id);
                if *owner != engine.id {
                    return Err(format!(
                        "engines {owner:?} and {:?} both have a program {program:?}",
                        engine.id
                    ));
                }
            }
        }
        match self.build_s.keys().find(|id| !owners.contains_key(*id)) {
            None => Ok(()),
            Some(id) => Err(format!(
                "[build_s] has {id:?}, which is no program of an engine"
            )),
        }
    }

    /// Check that programs which share an environment ask for the same requirements, and that only
    /// a program which needs libtorch says where it comes from.
    fn check_environments(&self) -> Result<(), String> {
        let mut made_from: BTreeMap<&str, &str> = BTreeMap::new();
        for build in self.engines.iter().flat_map(Engine::builds) {
            let Some((environment, requirements)) = build.environment() else {
                continue;
            };
            if build.libtorch().is_some() && !build.needs().contains(&Need::Libtorch) {
                return Err(format!(
                    "a build names {environment:?} for its libtorch, and doesn't need libtorch"
                ));
            }
            fits("environment", environment)?;
            let first = *made_from.entry(environment).or_insert(requirements);
            if first != requirements {
                return Err(format!(
                    "the environment {environment:?} would be made from {first} and from {requirements}: give one of the programs another `environment`"
                ));
            }
        }
        Ok(())
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
                    kv: entry.kv,
                    hidden: engine.hidden || entry.hidden,
                });
            }
        }
        all
    }

    /// Targets that are deliberately wrong: hidden variants of engines that aren't hidden
    /// themselves, except those that are only slow.
    pub fn mutants(&self) -> Vec<Target> {
        let is_slow = |id: &str| self.handicaps.iter().any(|handicap| handicap.target == id);
        let hidden_engine = |id: &str| self.engine(id).is_some_and(|engine| engine.hidden);
        let mut targets = self.targets();
        targets.retain(|t| t.hidden && !hidden_engine(&t.engine) && !is_slow(&t.id));
        targets
    }

    /// The targets that may judge others: the reference, then the target it is checked against. A
    /// registry that was loaded has both.
    pub fn judges(&self) -> [Target; 2] {
        [&self.reference, &self.cross_check].map(|id| self.known_target(id))
    }

    /// The target of an id that this file itself names, as its baseline, instrument and so on.
    pub fn known_target(&self, id: &str) -> Target {
        let target = self.targets().into_iter().find(|target| target.id == id);
        target.expect("`load` refuses a registry without it")
    }

    /// The engine of that id, if there is one.
    pub fn engine(&self, id: &str) -> Option<&Engine> {
        self.engines.iter().find(|engine| engine.id == id)
    }

    /// The engine and the entry of a target; `None` where the target isn't in this registry.
    fn entry(&self, target: &Target) -> Option<(&Engine, &TargetEntry)> {
        let engine = self.engine(&target.engine)?;
        let entry = engine.targets.iter().find(|entry| {
            (&entry.variant, &entry.backend, &entry.precision)
                == (&target.variant, &target.backend, &target.precision)
        });
        Some((engine, entry?))
    }

    /// The user's environment variables that a program built like this sees: those of its engine.
    pub fn variables_for(&self, how: &Build) -> Vec<String> {
        let is_its = |e: &&Engine| {
            let direct = e.direct.iter().map(|direct| &direct.build);
            e.builds().chain(direct).any(|build| build == how)
        };
        let engine = self.engines.iter().find(is_its);
        engine.map_or(Vec::new(), |engine| engine.env.clone())
    }

    /// Path of the locked requirements of the environment [`VENV`], relative to the repository.
    pub fn python_requirements(&self) -> Option<&str> {
        let builds = self.engines.iter().flat_map(Engine::builds);
        let mut named = builds.filter_map(Build::environment);
        let usual = named.find(|(environment, _)| *environment == VENV)?;
        Some(usual.1)
    }

    /// The id of a target's program; `None` where its engine isn't here.
    pub fn program_id(&self, target: &Target) -> Option<String> {
        let engine = self.engine(&target.engine)?;
        Some(engine.program_id(&target.backend))
    }

    /// Names of the engines that have a need, by need.
    pub fn wanted(&self) -> BTreeMap<Need, Vec<String>> {
        let mut wanted: BTreeMap<Need, Vec<String>> = BTreeMap::new();
        for engine in self.engines.iter().filter(|engine| !engine.hidden) {
            let needs: BTreeSet<Need> = engine.builds().flat_map(Build::needs).copied().collect();
            for need in needs {
                wanted.entry(need).or_default().push(engine.name.clone());
            }
        }
        wanted
    }

    /// Engine id → name.
    pub fn names(&self) -> BTreeMap<String, String> {
        self.engines
            .iter()
            .map(|e| (e.id.clone(), e.name.clone()))
            .collect()
    }
}

#[cfg(test)]
pub(crate) mod tests;
