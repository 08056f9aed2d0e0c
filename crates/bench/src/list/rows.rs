//! The items of each kind: their cells in a table, and their fields in JSON, whose names are
//! stable.

use anyhow::Result;
use base::repo::Repo;
use base::text::{WIDTH_MAX, fitted};
use harness::plan::profile_targets;
use provision::fetch;
use runs::results::Results;
use schema::budget::about;
use schema::micro::scenario_id;
use schema::model::Source;
use schema::profile::Profile;
use schema::registry::Device;
use schema::run::RunHeader;
use serde_json::{Value, json};
use stats::analysis::MetricId;
use stats::metrics::Better;

/// An item: its cells in a table, the id first, and its JSON. One whose JSON says that it is
/// `hidden` can be chosen only by name, and so is left out of tables.
type Row<const COLUMNS: usize> = ([String; COLUMNS], Value);

/// Everything of one kind.
pub(super) struct Listing {
    pub(super) head: Vec<String>,
    /// Rows that aren't hidden; the first cell is the id.
    pub(super) rows: Vec<Vec<String>>,
    pub(super) hidden: usize,
    pub(super) json: Value,
}

impl Listing {
    fn new<const COLUMNS: usize>(
        head: [&str; COLUMNS],
        all: impl IntoIterator<Item = Row<COLUMNS>>,
    ) -> Self {
        let (mut rows, mut hidden, mut items) = (Vec::new(), 0, Vec::new());
        for (cells, item) in all {
            match item["hidden"] == true {
                true => hidden += 1,
                false => rows.push(Vec::from(cells)),
            }
            items.push(item);
        }
        Self {
            head: head.map(str::to_owned).into(),
            rows,
            hidden,
            json: Value::Array(items),
        }
    }

    pub(super) fn text(&self) -> String {
        if self.rows.is_empty() {
            return "There is none\n".into();
        }
        let all = std::iter::once(&self.head).chain(&self.rows);
        let hidden = match self.hidden {
            0 => String::new(),
            n => format!("\n{n} more are hidden, to be chosen only by name: --json has them\n"),
        };
        fitted(all, WIDTH_MAX) + &hidden
    }
}

pub(super) fn engines(repo: &Repo) -> Result<Listing> {
    let registry = repo.registry()?;
    let targets = registry.targets();
    let rows = registry.engines.iter().map(|engine| {
        let own = || targets.iter().filter(|target| target.engine == engine.id);
        let ids: Vec<&str> = own().map(|target| target.id.as_str()).collect();
        let shown = own().filter(|target| !target.hidden).count();
        let json = json!({
            "id": engine.id,
            "name": engine.name,
            "about": engine.about,
            "homepage": engine.homepage,
            // Of models that it runs; `*` means any.
            "architectures": engine.architectures,
            // Hidden ones included.
            "targets": ids,
            "hidden": engine.hidden,
        });
        let (id, about) = (engine.id.clone(), engine.about.clone());
        let architectures = engine.architectures.join(", ");
        ([id, shown.to_string(), architectures, about], json)
    });
    let head = ["engine", "targets", "architectures", "about"];
    Ok(Listing::new(head, rows))
}

/// A profile, and the ids of what it runs.
struct Contents {
    profile: Profile,
    targets: Vec<String>,
    /// Ids of its scenarios and micro suites.
    scenarios: Vec<String>,
}

fn contents(repo: &Repo) -> Result<Vec<Contents>> {
    let all = repo.registry()?.targets();
    let contents = repo.profiles()?.into_iter().map(|profile| {
        // A bundle may lack all targets of the profile; then none are listed.
        let targets = profile_targets(&profile, &all, &[]).unwrap_or_default();
        let suites = profile.micro.iter().flat_map(|micro| micro.suites.keys());
        let suites = suites.map(|suite| scenario_id(suite));
        Contents {
            targets: targets.into_iter().map(|target| target.id).collect(),
            scenarios: profile.scenarios.keys().cloned().chain(suites).collect(),
            profile,
        }
    });
    Ok(contents.collect())
}

/// Return the ids of the profiles that run something.
fn profiles_with(all: &[Contents], runs: impl Fn(&Contents) -> bool) -> Vec<&str> {
    let with = all.iter().filter(|contents| runs(contents));
    with.map(|contents| contents.profile.id.as_str()).collect()
}

pub(super) fn targets(repo: &Repo) -> Result<Listing> {
    let registry = repo.registry()?;
    let contents = contents(repo)?;
    let mut rows = Vec::new();
    for target in registry.targets() {
        // It needs one of these; none for a processor.
        let devices = registry.backends.get(&target.backend);
        let devices = devices.map_or(&[][..], Vec::as_slice);
        let profiles = profiles_with(&contents, |of| of.targets.contains(&target.id));
        let mut json = serde_json::to_value(&target)?;
        json["devices"] = json!(devices);
        json["profiles"] = json!(profiles);
        let devices: Vec<&str> = devices.iter().map(device).collect();
        let cells = [
            target.id,
            target.engine,
            target.backend,
            target.precision,
            joined(&devices, " or ", "CPU"),
            joined(&profiles, ", ", "-"),
        ];
        rows.push((cells, json));
    }
    let head = [
        "target",
        "engine",
        "backend",
        "precision",
        "device",
        "profiles",
    ];
    Ok(Listing::new(head, rows))
}

fn device(device: &Device) -> &'static str {
    match device {
        Device::VulkanDevice => "Vulkan",
        Device::CudaDriver => "NVIDIA",
        Device::Metal => "Metal",
    }
}

/// Join the words, or return `none` where there are none.
fn joined(words: &[&str], between: &str, none: &str) -> String {
    match words {
        [] => none.to_owned(),
        words => words.join(between),
    }
}

pub(super) fn scenarios(repo: &Repo) -> Result<Listing> {
    let contents = contents(repo)?;
    let row = |id: String, version: u32, title: String, question: String, micro: bool| {
        let profiles = profiles_with(&contents, |of| of.scenarios.contains(&id));
        let json = json!({
            "id": id,
            "version": version,
            "title": title,
            "question": question,
            "micro": micro,
            // The profiles that give it a size.
            "profiles": profiles,
        });
        ([id, question], json)
    };
    let scenarios = repo.scenarios()?.into_iter();
    let scenarios = scenarios.map(|s| row(s.id, s.version, s.title, s.question, false));
    let suites = repo.suites()?.into_iter();
    let suites = suites.map(|s| row(scenario_id(&s.id), s.version, s.title, s.question, true));
    Ok(Listing::new(
        ["scenario", "question"],
        scenarios.chain(suites),
    ))
}

pub(super) fn profiles(repo: &Repo) -> Result<Listing> {
    let rows = contents(repo)?.into_iter().map(|contents| {
        let profile = contents.profile;
        let time = match (profile.measure_min, profile.budget_s) {
            (min, _) if min > 0.0 => about(60.0 * min),
            (_, budget_s) if budget_s > 0.0 => format!("≤ {}", about(budget_s)),
            _ => "-".into(),
        };
        let json = json!({
            "id": profile.id,
            "about": profile.about,
            "publishable": profile.publishable,
            "model": profile.model,
            // About how long measuring takes on two cores (min); 0 = unknown.
            "measure_min": profile.measure_min,
            // Longest time that it may take (s); 0 = unlimited.
            "budget_s": profile.budget_s,
            "invocations": profile.invocations,
            "targets": contents.targets,
            "scenarios": contents.scenarios,
        });
        let targets = contents.targets.len().to_string();
        let cells = [profile.id, profile.model, targets, time, profile.about];
        (cells, json)
    });
    let head = ["profile", "model", "targets", "time", "about"];
    Ok(Listing::new(head, rows))
}

pub(super) fn models(repo: &Repo) -> Result<Listing> {
    let all = repo.models()?;
    let mut rows = Vec::new();
    for model in &all.models {
        // `fetch` checks that the files that are here are the right ones.
        let present = fetch::missing(&all, &model.id, &repo.models_dir)?.is_empty();
        let size = match model.size_mb {
            0 => "-".into(),
            mb => fetch::about_size(mb),
        };
        let made_here = matches!(model.source, Source::Embedded | Source::Trained { .. });
        let from = match (&model.source, model.gated) {
            (Source::Embedded | Source::Trained { .. }, _) => "made here",
            (Source::Directory { .. }, _) => "copied",
            (Source::Hub { .. }, false) => "downloaded",
            (Source::Hub { .. }, true) => "downloaded, may take a token in HF_TOKEN",
        };
        let here = if present { "yes" } else { "no" };
        let parameters = format!("{:.1} M", model.parameters as f64 / 1e6);
        let cells = [model.id.clone(), parameters, size, here.into(), from.into()];
        let json = json!({
            "id": model.id,
            "name": model.name,
            "about": model.about.trim().replace('\n', " "),
            "parameters": model.parameters,
            // Approximate size of all of its files together; 0 = unknown.
            "size_mb": model.size_mb,
            // Whether its hub may ask users to accept its terms first, which takes a token.
            "gated": model.gated,
            "made_here": made_here,
            "present": present,
        });
        rows.push((cells, json));
    }
    let head = ["model", "parameters", "size", "here", "from"];
    Ok(Listing::new(head, rows))
}

/// List the runs, newest first. A run whose header can't be read causes a warning and is left out.
pub(super) fn runs(results: &Results) -> Listing {
    let mut rows = Vec::new();
    for (id, place) in results.places().into_iter().rev() {
        let header = match RunHeader::load(&place) {
            Ok(header) => header,
            Err(error) => {
                watch::warn(format!("left out of the list: {error}"));
                continue;
            }
        };
        let (plan, shard) = (header.plan, header.origin.shard);
        let is_clean = header.provenance.git_dirty == Some(false);
        let publishable = plan.publishable && is_clean && shard.is_none();
        let in_words = match (publishable, shard) {
            (true, _) => "yes".into(),
            (false, None) => "no".into(),
            (false, Some(shard)) => format!("no, shard {shard}"),
        };
        let targets: Vec<&str> = plan.targets.iter().map(|t| t.id.as_str()).collect();
        let json = json!({
            "id": id,
            "started": header.started,
            "profile": plan.profile,
            "model": plan.model,
            "targets": targets,
            // The part of a plan that it measured, e.g. `1/2`; null for a whole run.
            "shard": shard.map(|shard| shard.to_string()),
            // Whether its profile's numbers may be published, and it is a whole run from a clean
            // checkout.
            "publishable": publishable,
        });
        let targets = targets.len().to_string();
        let cells = [id, plan.profile, targets, header.started, in_words];
        rows.push((cells, json));
    }
    let head = ["run", "profile", "targets", "started", "publishable"];
    Listing::new(head, rows)
}

pub(super) fn metrics() -> Listing {
    let all = MetricId::ALL.into_iter().map(MetricId::describe);
    let rows = all.map(|metric| {
        let better = match metric.better {
            Better::Lower => "lower",
            Better::Higher => "higher",
            Better::Neither => "neither",
        };
        let definition = format!("{}. {}", metric.title, metric.definition);
        let json = json!({
            "id": metric.name,
            "unit": metric.unit,
            "title": metric.title,
            "better": better,
            "definition": metric.definition,
        });
        let cells = [metric.name.to_owned(), better.to_owned(), definition];
        (cells, json)
    });
    Listing::new(["metric", "better", "definition"], rows)
}
