//! Where everything lies: the paths of a checkout, and the data files loaded
//! from them.

use crate::names::{Kind, UnknownName};
use crate::shelf;
use anyhow::{Context, Result};
use schema::bundle::Bundle;
use schema::claims::Claims;
use schema::golden::ParityLimits;
use schema::hypothesis::Hypotheses;
use schema::maturity::Maturity;
use schema::micro::{MicroRegistry, Suite};
use schema::model::{Models, ModelsLock};
use schema::profile::Profile;
use schema::registry::Registry;
use schema::scenario::Scenario;
use schema::train::{Shipped, TrainRegistry};
use std::path::{Path, PathBuf};

/// What holds the records of a first look, in the directory of the runs, and its pages, in `target`.
pub const FIRST_LOOK_DIR: &str = "first-look";

/// The paths of a checkout.
#[derive(Clone, Debug)]
pub struct Repo {
    /// The checkout.
    pub root: PathBuf,
    /// Cargo's target directory: binaries and the Python environment.
    pub build_dir: PathBuf,
    /// Model files, one directory a model.
    pub models_dir: PathBuf,
}

impl Repo {
    /// What `BENCH_ROOT` names (a bundle's launcher sets it), else the checkout that the
    /// working directory is in, else the one this program was built from.
    pub fn find() -> Result<Self> {
        if let Some(root) = std::env::var_os("BENCH_ROOT").filter(|root| !root.is_empty()) {
            return Ok(Self::at(PathBuf::from(root)));
        }
        let cwd = std::env::current_dir().context("the working directory is gone")?;
        let built_from = Path::new(env!("CARGO_MANIFEST_DIR"))
            .ancestors()
            .nth(2)
            .map(Path::to_owned);
        let root = cwd
            .ancestors()
            .map(Path::to_owned)
            .chain(built_from)
            .find(|dir| dir.join("engines/engines.toml").is_file())
            .with_context(|| {
                format!("{} is in no checkout of this project: engines/engines.toml is not in it or above it", cwd.display())
            })?;
        Ok(Self::at(root))
    }

    /// The checkout at `root`, honouring `CARGO_TARGET_DIR` and `BENCH_MODELS_DIR`.
    pub fn at(root: PathBuf) -> Self {
        let from_env = |name: &str| {
            std::env::var_os(name)
                .filter(|v| !v.is_empty())
                .map(|v| root.join(v))
        };
        let build_dir = from_env("CARGO_TARGET_DIR").unwrap_or_else(|| root.join("target"));
        let models_dir = from_env("BENCH_MODELS_DIR").unwrap_or_else(|| root.join("models"));
        Self {
            root,
            build_dir,
            models_dir,
        }
    }

    /// What this is made from, where it is a bundle of `cargo xtask dist` and no checkout.
    pub fn bundle(&self) -> Result<Option<Bundle>> {
        Ok(Bundle::load(&self.root)?)
    }

    /// `runs`: new runs, which git ignores.
    pub fn runs_dir(&self) -> PathBuf {
        self.root.join("runs")
    }

    /// `data/results`: published runs, packed.
    pub fn published_dir(&self) -> PathBuf {
        self.root.join("data/results")
    }

    /// `target/site`, whatever the build directory is: the path we promise.
    pub fn site_dir(&self) -> PathBuf {
        self.root.join("target/site")
    }

    /// `target/first-look`: the pages of what `bench-all` measures while it still compiles.
    pub fn first_look_dir(&self) -> PathBuf {
        self.root.join("target").join(FIRST_LOOK_DIR)
    }

    /// Directory of a model's files.
    pub fn model_dir(&self, model: &str) -> PathBuf {
        self.models_dir.join(model)
    }

    /// `data/golden/<model>.json`.
    pub fn golden_path(&self, model: &str) -> PathBuf {
        self.root.join("data/golden").join(format!("{model}.json"))
    }

    /// `golden.json` beside a model's files: what this machine made of it.
    pub fn own_golden_path(&self, model: &str) -> PathBuf {
        self.model_dir(model).join("golden.json")
    }

    /// `data/models.lock`.
    pub fn models_lock_path(&self) -> PathBuf {
        self.root.join("data/models.lock")
    }

    /// `engines/engines.toml`.
    pub fn registry(&self) -> Result<Registry> {
        Ok(Registry::load(&self.root.join("engines/engines.toml"))?)
    }

    /// `data/models.toml`, and after it the models that the user brought.
    pub fn models(&self) -> Result<Models> {
        let mut models = self.listed_models()?;
        for brought in shelf::brought(&self.models_dir)? {
            if models.get(&brought.id).is_none() {
                models.models.push(brought);
            }
        }
        Ok(models)
    }

    /// `data/models.toml` alone: what every checkout of this revision has.
    pub fn listed_models(&self) -> Result<Models> {
        Ok(Models::load(&self.root.join("data/models.toml"))?)
    }

    /// How the models that this repository ships were trained, and what they write.
    pub fn shipped(&self) -> Result<Vec<Shipped>> {
        let models = self.listed_models()?.models;
        let dirs = models.iter().filter_map(|model| model.source.trained_dir());
        let found = dirs.map(Shipped::load);
        let found: Vec<Option<Shipped>> = found.collect::<Result<_, _>>()?;
        Ok(found.into_iter().flatten().collect())
    }

    /// `data/models.lock`, with the locks of the models that the user brought.
    pub fn models_lock(&self) -> Result<ModelsLock> {
        let mut lock = ModelsLock::load(&self.models_lock_path())?;
        for brought in shelf::brought(&self.models_dir)? {
            let own = ModelsLock::load(&shelf::lock(&self.models_dir, &brought.id))?;
            for (id, files) in own.models {
                lock.models.entry(id).or_insert(files);
            }
        }
        Ok(lock)
    }

    /// `data/scenarios/*.toml`.
    pub fn scenarios(&self) -> Result<Vec<Scenario>> {
        Ok(Scenario::load_all(&self.root.join("data/scenarios"))?)
    }

    /// `engines/micro.toml`; an empty one where there is none.
    pub fn micro_registry(&self) -> Result<MicroRegistry> {
        Ok(MicroRegistry::load(&self.root.join("engines/micro.toml"))?)
    }

    /// `engines/train.toml`; an empty one where there is none.
    pub fn train_registry(&self) -> Result<TrainRegistry> {
        Ok(TrainRegistry::load(&self.root.join("engines/train.toml"))?)
    }

    /// `data/scenarios/micro/*.toml`.
    pub fn suites(&self) -> Result<Vec<Suite>> {
        let dir = self.root.join("data/scenarios").join(schema::micro::DIR);
        Ok(Suite::load_all(&dir)?)
    }

    /// `data/parity.toml`.
    pub fn parity_limits(&self) -> Result<ParityLimits> {
        Ok(ParityLimits::load(&self.root.join("data/parity.toml"))?)
    }

    /// `data/hypotheses.toml`, its names held against the registry, the scenarios and
    /// the metrics; `None` where there is no such file.
    pub fn hypotheses(
        &self,
        registry: &Registry,
        scenarios: &[Scenario],
    ) -> Result<Option<Hypotheses>> {
        let path = self.root.join("data/hypotheses.toml");
        if !path.is_file() {
            return Ok(None);
        }
        let all = Hypotheses::load(&path, registry, scenarios)?;
        // A bundle has no suites.
        let micro = self.micro_registry()?;
        if let (false, Err(fault)) = (micro.suites.is_empty(), all.check_suites(&micro)) {
            anyhow::bail!("{}: {fault}", path.display());
        }
        if let Some(fault) = stats::hypotheses::validate(&all).first() {
            anyhow::bail!("{}: {fault}", path.display());
        }
        Ok(Some(all))
    }

    /// `data/maturity.toml`: what is known of the engines beyond what runs measure; `None` where
    /// there is no such file.
    pub fn maturity(&self, registry: &Registry) -> Result<Option<Maturity>> {
        Ok(Maturity::load(&self.root, registry)?)
    }

    /// `data/claims.toml`: what the engines' projects say of their speed; `None` where there is no
    /// such file.
    pub fn claims(&self, registry: &Registry) -> Result<Option<Claims>> {
        Ok(Claims::load(&self.root, registry)?)
    }

    /// `data/simulation.json`: how the statistics fared on data of known truth.
    pub fn simulation_path(&self) -> PathBuf {
        self.root.join("data/simulation.json")
    }

    /// `data/adapters.json`: what our adapters cost.
    pub fn adapters_path(&self) -> PathBuf {
        self.root.join("data/adapters.json")
    }

    /// `data/prices`.
    pub fn prices_dir(&self) -> PathBuf {
        self.root.join("data/prices")
    }

    /// All of `data/profiles`, sorted by id.
    pub fn profiles(&self) -> Result<Vec<Profile>> {
        known_profiles(&self.root.join("data/profiles"))
            .iter()
            .map(|id| self.profile(id))
            .collect()
    }

    /// `data/profiles/<id>.toml`, or [`UnknownName`].
    pub fn profile(&self, id: &str) -> Result<Profile> {
        let dir = self.root.join("data/profiles");
        let path = dir.join(format!("{id}.toml"));
        if !path.is_file() {
            return Err(UnknownName::new(Kind::Profile, id, known_profiles(&dir)).into());
        }
        Ok(Profile::load(&path)?)
    }
}

fn known_profiles(dir: &Path) -> Vec<String> {
    let mut ids: Vec<String> = std::fs::read_dir(dir)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.path().file_stem()?.to_str().map(str::to_owned))
        .collect();
    ids.sort();
    ids
}
