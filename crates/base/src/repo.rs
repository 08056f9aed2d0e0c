//! The paths of a checkout, and the data files loaded from them.

use crate::names::{Kind, Refused, UnknownName};
use crate::shelf;
use anyhow::{Context, Result, ensure};
use schema::bundle::Bundle;
use schema::claims::Claims;
use schema::golden::ParityLimits;
use schema::hypothesis::Hypotheses;
use schema::maturity::Maturity;
use schema::micro::{MicroRegistry, Suite};
use schema::model::{Models, ModelsLock};
use schema::profile::Profile;
use schema::registry::Registry;
use schema::scenario::{Scenario, toml_files};
use schema::train::{Shipped, TrainRegistry};
use std::path::{Path, PathBuf};

/// Name of the directory with the records of a first look (among the runs), and of the one with its
/// pages (in `target`).
pub const FIRST_LOOK_DIR: &str = "first-look";

/// The paths of a checkout.
#[derive(Clone, Debug)]
pub struct Repo {
    /// The checkout's root directory.
    pub root: PathBuf,
    /// Cargo's target directory, which also holds the programs and the Python environment.
    pub build_dir: PathBuf,
    /// Model files, one directory a model.
    pub models_dir: PathBuf,
}

impl Repo {
    /// Find the checkout: the directory that `BENCH_ROOT` names (a bundle's launcher sets it), else
    /// the checkout around the working directory, else the one that this program was built from.
    pub fn find() -> Result<Self> {
        if let Some(root) = std::env::var_os("BENCH_ROOT").filter(|root| !root.is_empty()) {
            return Ok(Self::at(PathBuf::from(root)));
        }
        let cwd = std::env::current_dir().context("the working directory is gone")?;
        let built_from = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
        let mut dirs = cwd.ancestors().chain(built_from);
        let root = dirs.find(|dir| dir.join("engines/engines.toml").is_file());
        let root = root.with_context(|| {
            format!("{} is in no checkout of this project: engines/engines.toml is not in it or above it", cwd.display())
        })?;
        Ok(Self::at(root.to_owned()))
    }

    /// Whether [`Repo::find`] took the checkout that this program was built from because it was called
    /// outside of any: users who are in a checkout, or think so, should be told.
    pub fn is_elsewhere(&self) -> bool {
        let named = std::env::var_os("BENCH_ROOT").is_some_and(|root| !root.is_empty());
        let is_around = |cwd: PathBuf| cwd.starts_with(&self.root);
        !named && !std::env::current_dir().is_ok_and(is_around)
    }

    /// The checkout at `root`. `CARGO_TARGET_DIR` and `BENCH_MODELS_DIR` are honoured.
    pub fn at(root: PathBuf) -> Self {
        let mut repo = Self::under(root);
        for (name, dir) in [
            ("CARGO_TARGET_DIR", &mut repo.build_dir),
            ("BENCH_MODELS_DIR", &mut repo.models_dir),
        ] {
            if let Some(named) = std::env::var_os(name).filter(|named| !named.is_empty()) {
                *dir = repo.root.join(named);
            }
        }
        repo
    }

    /// The checkout at `root`, with its directories inside it whatever the environment says.
    pub fn under(root: impl Into<PathBuf>) -> Self {
        let root = root.into();
        Self {
            build_dir: root.join("target"),
            models_dir: root.join("models"),
            root,
        }
    }

    /// Load the description of a bundle; `None` where this is a checkout and not a bundle made by
    /// `cargo xtask dist`.
    pub fn bundle(&self) -> Result<Option<Bundle>> {
        Ok(Bundle::load(&self.root)?)
    }

    /// `runs`: the directory of new runs, which git ignores.
    pub fn runs_dir(&self) -> PathBuf {
        self.root.join("runs")
    }

    /// `data/results`: the directory of published runs, packed.
    pub fn published_dir(&self) -> PathBuf {
        self.root.join("data/results")
    }

    /// `target/site`, whatever the build directory is: the documentation promises this path.
    pub fn site_dir(&self) -> PathBuf {
        self.root.join("target/site")
    }

    /// `target/first-look`: the pages of what `bench-all` measures while it is still compiling.
    pub fn first_look_dir(&self) -> PathBuf {
        self.root.join("target").join(FIRST_LOOK_DIR)
    }

    /// The directory of a model's files.
    pub fn model_dir(&self, model: &str) -> PathBuf {
        self.models_dir.join(model)
    }

    /// `data/golden/<model>.json`: the committed golden of a model; with the weights of another
    /// file `data/golden/<model>.<weights>.json`.
    pub fn golden_path(&self, model: &str, own_weights: Option<&str>) -> PathBuf {
        let name = golden_name(model, own_weights);
        self.root.join("data/golden").join(name)
    }

    /// `golden.json` beside a model's files: the golden that was made on this machine; with the
    /// weights of another file `golden.<weights>.json`.
    pub fn own_golden_path(&self, model: &str, own_weights: Option<&str>) -> PathBuf {
        let name = golden_name("golden", own_weights);
        self.model_dir(model).join(name)
    }

    /// `data/models.lock`: the hashes of the models' files.
    pub fn models_lock_path(&self) -> PathBuf {
        self.root.join("data/models.lock")
    }

    /// Load `engines/engines.toml`: the engines and their targets.
    pub fn registry(&self) -> Result<Registry> {
        Ok(Registry::load(&self.root.join("engines/engines.toml"))?)
    }

    /// Load `data/models.toml`, followed by the models that the user brought.
    pub fn models(&self) -> Result<Models> {
        let mut models = self.listed_models()?;
        for brought in shelf::brought(&self.models_dir)? {
            if models.get(&brought.id).is_none() {
                models.models.push(brought);
            }
        }
        Ok(models)
    }

    /// Load `data/models.toml` alone: the models that every checkout of this revision has.
    pub fn listed_models(&self) -> Result<Models> {
        Ok(Models::load(&self.root.join("data/models.toml"))?)
    }

    /// Load how the models that this repository ships were trained, and samples of their output.
    pub fn shipped(&self) -> Result<Vec<Shipped>> {
        let models = self.listed_models()?.models;
        let dirs = models.iter().filter_map(|model| model.source.trained_dir());
        let found = dirs.filter_map(|dir| Shipped::load(dir).transpose());
        Ok(found.collect::<Result<_, _>>()?)
    }

    /// Load `data/models.lock`, with the locks of the models that the user brought, which may not
    /// be fetched yet.
    pub fn models_lock(&self) -> Result<ModelsLock> {
        let mut lock = ModelsLock::load(&self.models_lock_path())?;
        for brought in shelf::brought(&self.models_dir)? {
            let own = ModelsLock::load_or_empty(&shelf::lock(&self.models_dir, &brought.id))?;
            for (id, files) in own.models {
                lock.models.entry(id).or_insert(files);
            }
        }
        Ok(lock)
    }

    /// Load all of `data/scenarios/*.toml`.
    pub fn scenarios(&self) -> Result<Vec<Scenario>> {
        Ok(Scenario::load_all(&self.root.join("data/scenarios"))?)
    }

    /// Load `engines/micro.toml`: the programs of the micro suites. It is empty where there is no
    /// such file.
    pub fn micro_registry(&self) -> Result<MicroRegistry> {
        Ok(MicroRegistry::load(&self.root.join("engines/micro.toml"))?)
    }

    /// Load `engines/train.toml`: the trainer. It is empty where there is no such file.
    pub fn train_registry(&self) -> Result<TrainRegistry> {
        Ok(TrainRegistry::load(&self.root.join("engines/train.toml"))?)
    }

    /// Load all of `data/scenarios/micro/*.toml`: the micro suites.
    pub fn suites(&self) -> Result<Vec<Suite>> {
        let dir = self.root.join("data/scenarios").join(schema::micro::DIR);
        Ok(Suite::load_all(&dir)?)
    }

    /// Load `data/parity.toml`: the limits of the parity gate.
    pub fn parity_limits(&self) -> Result<ParityLimits> {
        Ok(ParityLimits::load(&self.root.join("data/parity.toml"))?)
    }

    /// Load `data/hypotheses.toml` and check its names against the registry, the scenarios and the
    /// metrics. `None` where there is no such file.
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
        // A bundle has no micro suites.
        let micro = self.micro_registry()?;
        if let (false, Err(fault)) = (micro.suites.is_empty(), all.check_suites(&micro)) {
            anyhow::bail!("{}: {fault}", path.display());
        }
        if let Some(fault) = stats::hypotheses::validate(&all).first() {
            anyhow::bail!("{}: {fault}", path.display());
        }
        Ok(Some(all))
    }

    /// Load `data/maturity.toml`: what is known of the engines beyond what runs measure. `None`
    /// where there is no such file.
    pub fn maturity(&self, registry: &Registry) -> Result<Option<Maturity>> {
        Ok(Maturity::load(&self.root, registry)?)
    }

    /// Load `data/claims.toml`: what the engines' projects claim about their speed. `None` where
    /// there is no such file.
    pub fn claims(&self, registry: &Registry) -> Result<Option<Claims>> {
        Ok(Claims::load(&self.root, registry)?)
    }

    /// `data/simulation.json`: how well the statistics did on data of known truth.
    pub fn simulation_path(&self) -> PathBuf {
        self.root.join("data/simulation.json")
    }

    /// `data/adapters.json`: the measured cost of our adapters.
    pub fn adapters_path(&self) -> PathBuf {
        self.root.join("data/adapters.json")
    }

    /// `data/prices`: the directory of price lists.
    pub fn prices_dir(&self) -> PathBuf {
        self.root.join("data/prices")
    }

    /// Load all of `data/profiles`, sorted by id.
    pub fn profiles(&self) -> Result<Vec<Profile>> {
        known_profiles(&self.root.join("data/profiles"))
            .iter()
            .map(|id| self.profile(id))
            .collect()
    }

    /// Load `data/profiles/<id>.toml`. Where there is no such file, the error is an
    /// [`UnknownName`], and for a path [`Refused`].
    pub fn profile(&self, id: &str) -> Result<Profile> {
        if id.contains('/') {
            let text = format!(
                "{id:?} is a path, and a profile is given by its name: `cargo xtask list profiles` lists what there is"
            );
            return Err(Refused(text).into());
        }
        let dir = self.root.join("data/profiles");
        let path = dir.join(format!("{id}.toml"));
        ensure!(
            !path.is_dir(),
            "{} is a directory, where a profile is a file: remove it, or put the profile in its place",
            path.display()
        );
        if !path.exists() {
            return Err(UnknownName::new(Kind::Profile, id, known_profiles(&dir)).into());
        }
        Ok(Profile::load(&path)?)
    }
}

fn golden_name(begin: &str, own_weights: Option<&str>) -> String {
    let stem = own_weights.map(|name| name.rsplit_once('.').map_or(name, |(stem, _)| stem));
    match stem {
        Some(stem) => format!("{begin}.{stem}.json"),
        None => format!("{begin}.json"),
    }
}

fn known_profiles(dir: &Path) -> Vec<String> {
    let files = toml_files(dir).unwrap_or_default();
    let stems = files.iter().filter_map(|path| path.file_stem()?.to_str());
    let mut ids: Vec<String> = stems.map(str::to_owned).collect();
    ids.sort();
    ids
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_and_a_directory_are_no_profiles() {
        let dir = tempfile::tempdir().unwrap();
        let repo = Repo::under(dir.path());
        std::fs::create_dir_all(dir.path().join("data/profiles/test.toml")).unwrap();
        let error = repo.profile("test").unwrap_err().to_string();
        assert!(error.contains("test.toml is a directory"), "{error}");
        let error = repo.profile("../profiles/test").unwrap_err();
        assert!(error.is::<Refused>(), "{error}");
        assert!(error.to_string().contains("is a path"), "{error}");
        assert!(repo.profile("tset").unwrap_err().is::<UnknownName>());
    }

    #[test]
    fn only_toml_files_are_profiles() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(known_profiles(&dir.path().join("none")), [""; 0]);
        for name in [
            "cpu-1b.toml",
            "cpu.toml",
            "cpu.toml~",
            "cpu.toml.orig",
            "README.md",
        ] {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        assert_eq!(known_profiles(dir.path()), ["cpu", "cpu-1b"]);
    }
}
