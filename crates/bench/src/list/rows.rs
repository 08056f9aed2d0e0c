//! The items of each kind: their fields in JSON, whose names are stable, and their cells in a
//! table.

use anyhow::Result;
use base::repo::Repo;
use harness::plan::profile_targets;
use provision::fetch;
use runs::results::Results;
use schema::micro::scenario_id;
use schema::model::Source;
use schema::registry::{self, Device};
use schema::run::RunHeader;
use serde::Serialize;
use stats::analysis::MetricId;
use stats::metrics::Better;

/// An item of a listing.
pub(super) trait Row: Serialize {
    /// The headings of the table's columns.
    const HEAD: &'static [&'static str];
    /// Return the item's cells in a table, the id first.
    fn cells(&self) -> Vec<String>;
    /// Tell whether it can be chosen only by name, and so is left out of tables.
    fn is_hidden(&self) -> bool {
        false
    }
}

#[derive(Serialize)]
pub(super) struct Engine {
    id: String,
    name: String,
    about: String,
    homepage: String,
    /// Architectures of models that it runs; `*` means any.
    architectures: Vec<String>,
    /// Ids of the engine's targets, hidden ones included.
    targets: Vec<String>,
    #[serde(skip)]
    shown_targets: usize,
    hidden: bool,
}

impl Row for Engine {
    const HEAD: &'static [&'static str] = &["engine", "targets", "architectures", "about"];

    fn cells(&self) -> Vec<String> {
        let targets = self.shown_targets.to_string();
        let architectures = self.architectures.join(", ");
        vec![self.id.clone(), targets, architectures, self.about.clone()]
    }

    fn is_hidden(&self) -> bool {
        self.hidden
    }
}

pub(super) fn engines(repo: &Repo) -> Result<Vec<Engine>> {
    let registry = repo.registry()?;
    let targets = registry.targets();
    let engines = registry.engines.iter().map(|engine| {
        let own = || targets.iter().filter(|target| target.engine == engine.id);
        Engine {
            id: engine.id.clone(),
            name: engine.name.clone(),
            about: engine.about.clone(),
            homepage: engine.homepage.clone(),
            architectures: engine.architectures.clone(),
            targets: own().map(|target| target.id.clone()).collect(),
            shown_targets: own().filter(|target| !target.hidden).count(),
            hidden: engine.hidden,
        }
    });
    Ok(engines.collect())
}

#[derive(Serialize)]
pub(super) struct Target {
    #[serde(flatten)]
    target: registry::Target,
    /// Devices of which it needs one; empty for a processor.
    devices: Vec<Device>,
    /// Ids of the profiles that run it.
    profiles: Vec<String>,
}

impl Row for Target {
    const HEAD: &'static [&'static str] = &[
        "target",
        "engine",
        "backend",
        "precision",
        "device",
        "profiles",
    ];

    fn cells(&self) -> Vec<String> {
        let device = |device: &Device| match device {
            Device::VulkanDevice => "Vulkan",
            Device::CudaDriver => "NVIDIA",
            Device::Metal => "Metal",
        };
        let devices: Vec<&str> = self.devices.iter().map(device).collect();
        let devices = match devices.as_slice() {
            [] => "CPU".to_owned(),
            devices => devices.join(" or "),
        };
        let own = &self.target;
        let known = [&own.id, &own.engine, &own.backend, &own.precision].map(String::clone);
        [known.as_slice(), &[devices, or_dash(&self.profiles)]].concat()
    }

    fn is_hidden(&self) -> bool {
        self.target.hidden
    }
}

fn or_dash(names: &[String]) -> String {
    match names {
        [] => "-".into(),
        names => names.join(", "),
    }
}

pub(super) fn targets(repo: &Repo) -> Result<Vec<Target>> {
    let registry = repo.registry()?;
    let profiles = profiles(repo)?;
    let targets = registry.targets().into_iter().map(|target| Target {
        devices: registry
            .backends
            .get(&target.backend)
            .cloned()
            .unwrap_or_default(),
        profiles: profiles
            .iter()
            .filter(|profile| profile.targets.contains(&target.id))
            .map(|profile| profile.id.clone())
            .collect(),
        target,
    });
    Ok(targets.collect())
}

#[derive(Serialize)]
pub(super) struct Scenario {
    id: String,
    version: u32,
    title: String,
    question: String,
    /// Whether this is a micro suite.
    micro: bool,
    /// Ids of the profiles that give it a size.
    profiles: Vec<String>,
}

impl Row for Scenario {
    const HEAD: &'static [&'static str] = &["scenario", "question"];

    fn cells(&self) -> Vec<String> {
        vec![self.id.clone(), self.question.clone()]
    }
}

pub(super) fn scenarios(repo: &Repo) -> Result<Vec<Scenario>> {
    let profiles = profiles(repo)?;
    let sized_by = |id: &String| -> Vec<String> {
        let sizing = profiles
            .iter()
            .filter(|profile| profile.scenarios.contains(id));
        sizing.map(|profile| profile.id.clone()).collect()
    };
    let scenarios = repo.scenarios()?.into_iter().map(|scenario| Scenario {
        profiles: sized_by(&scenario.id),
        id: scenario.id,
        version: scenario.version,
        title: scenario.title,
        question: scenario.question,
        micro: false,
    });
    let suites = repo.suites()?.into_iter().map(|suite| Scenario {
        profiles: sized_by(&scenario_id(&suite.id)),
        id: scenario_id(&suite.id),
        version: suite.version,
        title: suite.title,
        question: suite.question,
        micro: true,
    });
    Ok(scenarios.chain(suites).collect())
}

#[derive(Serialize)]
pub(super) struct Profile {
    id: String,
    about: String,
    publishable: bool,
    model: String,
    /// About how long measuring takes on two cores (min); 0 = unknown.
    measure_min: f64,
    /// Longest time that it may take (s); 0 = unlimited.
    budget_s: f64,
    invocations: u32,
    /// Ids of the targets that it runs.
    targets: Vec<String>,
    /// Ids of its scenarios and micro suites.
    scenarios: Vec<String>,
}

impl Row for Profile {
    const HEAD: &'static [&'static str] = &["profile", "model", "targets", "time", "about"];

    fn cells(&self) -> Vec<String> {
        let time = match (self.measure_min, self.budget_s) {
            (min, _) if min > 0.0 => schema::budget::about(60.0 * min),
            (_, budget_s) if budget_s > 0.0 => format!("≤ {}", schema::budget::about(budget_s)),
            _ => "-".into(),
        };
        let targets = self.targets.len().to_string();
        let (id, model, about) = (self.id.clone(), self.model.clone(), self.about.clone());
        vec![id, model, targets, time, about]
    }
}

pub(super) fn profiles(repo: &Repo) -> Result<Vec<Profile>> {
    let all = repo.registry()?.targets();
    let profiles = repo.profiles()?.into_iter().map(|profile| {
        // A bundle may lack all targets of the profile; then none are listed.
        let targets = profile_targets(&profile, &all, &[]).unwrap_or_default();
        let suites = profile.micro.iter().flat_map(|micro| micro.suites.keys());
        let suites = suites.map(|suite| scenario_id(suite));
        Profile {
            targets: targets.into_iter().map(|target| target.id).collect(),
            scenarios: profile.scenarios.keys().cloned().chain(suites).collect(),
            id: profile.id,
            about: profile.about,
            publishable: profile.publishable,
            model: profile.model,
            measure_min: profile.measure_min,
            budget_s: profile.budget_s,
            invocations: profile.invocations,
        }
    });
    Ok(profiles.collect())
}

#[derive(Serialize)]
pub(super) struct Model {
    id: String,
    name: String,
    about: String,
    parameters: u64,
    /// Approximate size of all of its files together (MB); 0 = unknown.
    size_mb: u64,
    /// Whether its hub may ask users to accept its terms first, which takes a token.
    gated: bool,
    /// Whether it is made on this machine instead of downloaded.
    made_here: bool,
    /// Whether it was copied from a directory that the user named.
    #[serde(skip)]
    copied: bool,
    /// Whether all of its files are here. `fetch` checks that they are the right ones.
    present: bool,
}

impl Row for Model {
    const HEAD: &'static [&'static str] = &["model", "parameters", "size", "here", "from"];

    fn cells(&self) -> Vec<String> {
        let size = match self.size_mb {
            0 => "-".into(),
            mb => fetch::about_size(mb),
        };
        let from = match (self.made_here, self.copied, self.gated) {
            (true, ..) => "made here",
            (_, true, _) => "copied",
            (.., false) => "downloaded",
            (.., true) => "downloaded, may take a token in HF_TOKEN",
        };
        let here = if self.present { "yes" } else { "no" };
        let parameters = format!("{:.1} M", self.parameters as f64 / 1e6);
        vec![self.id.clone(), parameters, size, here.into(), from.into()]
    }
}

pub(super) fn models(repo: &Repo) -> Result<Vec<Model>> {
    let all = repo.models()?;
    let models = all.models.iter().map(|model| -> Result<Model> {
        let missing = fetch::missing(&all, &model.id, &repo.models_dir)?;
        Ok(Model {
            id: model.id.clone(),
            name: model.name.clone(),
            about: model.about.trim().replace('\n', " "),
            parameters: model.parameters,
            size_mb: model.size_mb,
            gated: model.gated,
            made_here: matches!(model.source, Source::Embedded | Source::Trained { .. }),
            copied: matches!(model.source, Source::Directory { .. }),
            present: missing.is_empty(),
        })
    });
    models.collect()
}

#[derive(Serialize)]
pub(super) struct Run {
    id: String,
    started: String,
    profile: String,
    model: String,
    /// Ids of the run's targets.
    targets: Vec<String>,
    /// The part of a plan that it measured, e.g. `1/2`; null for a whole run.
    shard: Option<String>,
    /// Whether its profile's numbers may be published, and it is a whole run from a clean checkout.
    publishable: bool,
}

impl Row for Run {
    const HEAD: &'static [&'static str] = &["run", "profile", "targets", "started", "publishable"];

    fn cells(&self) -> Vec<String> {
        let publishable = match (self.publishable, &self.shard) {
            (true, _) => "yes".into(),
            (false, None) => "no".into(),
            (false, Some(shard)) => format!("no, shard {shard}"),
        };
        let targets = self.targets.len().to_string();
        let (id, profile, started) = (self.id.clone(), self.profile.clone(), self.started.clone());
        vec![id, profile, targets, started, publishable]
    }
}

/// List the runs, newest first. A run whose header can't be read causes a warning and is left out.
pub(super) fn runs(results: &Results) -> Vec<Run> {
    let mut runs = Vec::new();
    for (id, place) in results.places().into_iter().rev() {
        let header = match RunHeader::load(&place) {
            Ok(header) => header,
            Err(error) => {
                watch::warn(format!("left out of the list: {error}"));
                continue;
            }
        };
        let shard = header.origin.shard.map(|shard| shard.to_string());
        let is_clean = header.provenance.git_dirty == Some(false);
        runs.push(Run {
            id,
            started: header.started,
            profile: header.plan.profile,
            model: header.plan.model,
            publishable: header.plan.publishable && is_clean && shard.is_none(),
            targets: header.plan.targets.into_iter().map(|t| t.id).collect(),
            shard,
        });
    }
    runs
}

#[derive(Serialize)]
pub(super) struct Metric {
    id: &'static str,
    unit: &'static str,
    title: &'static str,
    /// `lower`, `higher` or `neither`.
    better: &'static str,
    definition: &'static str,
}

impl Row for Metric {
    const HEAD: &'static [&'static str] = &["metric", "better", "definition"];

    fn cells(&self) -> Vec<String> {
        let definition = format!("{}. {}", self.title, self.definition);
        vec![self.id.into(), self.better.into(), definition]
    }
}

pub(super) fn metrics() -> Vec<Metric> {
    let all = MetricId::ALL.into_iter().map(MetricId::describe);
    all.map(|metric| Metric {
        id: metric.name,
        unit: metric.unit,
        title: metric.title,
        better: match metric.better {
            Better::Lower => "lower",
            Better::Higher => "higher",
            Better::Neither => "neither",
        },
        definition: metric.definition,
    })
    .collect()
}
