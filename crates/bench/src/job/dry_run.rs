//! `--dry-run`: describes what a run would build, fetch and measure, as far as that can be known
//! without doing it. It builds, fetches, locks and writes nothing, and makes no directory.

use super::building::Building;
use super::first_look::FirstLook;
use super::opening::{Planned, headline};
use super::{Asked, Options, forecast, preflight};
use anyhow::{Context, Result};
use base::repo::Repo;
use base::text::without_escapes;
use harness::devices::Named;
use harness::micro;
use harness::run::pending;
use provision::fetch;
use runs::shard;
use schema::budget::about;
use schema::key::CellKey;
use schema::micro::{MicroLog, PlannedSuite};
use schema::model::{Model, Source};
use schema::plan::{Launch, Plan};
use schema::registry::{Registry, Target};
use schema::run::Run;
use std::collections::BTreeMap;
use std::path::Path;

const END: &str = "A dry run: nothing was built, fetched, measured, locked or written.\n";

/// Describe the whole run. Nothing in a record's words reaches the terminal as an escape.
pub(super) fn text(
    repo: &Repo,
    registry: &Registry,
    results_dir: &Path,
    options: &Options,
    asked: &Asked,
) -> Result<String> {
    let text = match asked {
        Asked::New(planned) => new(repo, registry, results_dir, options, planned)?,
        Asked::Earlier(run_dir) => earlier(repo, registry, run_dir)?,
    };
    Ok(without_escapes(&(text + END)))
}

fn new(
    repo: &Repo,
    registry: &Registry,
    results_dir: &Path,
    options: &Options,
    planned: &Planned,
) -> Result<String> {
    let plan = &planned.plan;
    let look = FirstLook::new(repo, registry, results_dir, &planned.profile, options)?;
    let ours = |block| options.shard.is_none_or(|shard| shard.has(block));
    let launches = plan.launches.iter().filter(|l| ours(l.invocation));
    let launches: Vec<&Launch> = launches.collect();
    let mut text = headline(plan) + "\n";
    let named = Named::new(&options.engines);
    text += &Building::new(repo, registry, plan, look.as_ref(), &named)?.report();
    text += &models(repo, plan)?;
    text += &preflight::check(repo, registry, plan)?.report();
    text += &prompts(plan);
    text += &to_measure(plan, &launches);
    if options.shard.is_some() {
        text += "These are the blocks of one shard\n";
    }
    if !plan.targets.is_empty() {
        text += &forecast::in_words(&planned.profile);
    }
    text += &suites(plan, &[], ours);
    text += &format!("Records would go into {}", results_dir.display());
    text += match options.site && options.shard.is_none() {
        true => ", the report into target/site\n",
        false => "\n",
    };
    Ok(text)
}

fn earlier(repo: &Repo, registry: &Registry, run_dir: &Path) -> Result<String> {
    let run = Run::load(run_dir)?;
    let (header, plan) = (&run.header, &run.header.plan);
    shard::refuse_merged(header)?;
    let named = Named::new(&header.argv);
    let ours = |block| header.origin.has(block);
    let launches = plan.launches.iter().filter(|l| ours(l.invocation));
    let launches: Vec<&Launch> = launches.collect();
    let mut text = format!("Run {} would be continued\n{}\n", header.id, headline(plan));
    text += &Building::new(repo, registry, plan, None, &named)?.report();
    text += &models(repo, plan)?;
    text += &prompts(plan);
    text += &match run.verify.is_empty() {
        true => to_measure(plan, &launches),
        false => {
            let logs = [&run.launches[..], &run.twins[..]].concat();
            let left = pending::of_run(&run, &logs).len();
            format!("Launches left to be measured: {left}\n")
        }
    };
    text += &suites(plan, &run.micro, ours);
    text += &format!("Records would go into {}\n", run_dir.display());
    Ok(text)
}

/// Describe the user's prompts, a line for each scenario that uses them.
fn prompts(plan: &Plan) -> String {
    let all = plan.scenarios.iter();
    let words = all.filter_map(|scenario| plan.prompts_words(scenario));
    words.map(|words| format!("Prompts: {words}\n")).collect()
}

/// Describe the model and the one with outliers, as far as the plan needs them.
fn models(repo: &Repo, plan: &Plan) -> Result<String> {
    let text = model(repo, &plan.model, &plan.targets)?;
    match repo
        .parity_limits()?
        .outliers_beside(&plan.model, &plan.targets)
    {
        Some(outliers) => Ok(text + &model(repo, outliers, &plan.targets)?),
        None => Ok(text),
    }
}

/// Describe whether a model is here, else how it is got and how large it is; and for which targets
/// it has no weights.
fn model(repo: &Repo, id: &str, targets: &[Target]) -> Result<String> {
    let models = repo.models()?;
    let model = models.get(id).context("a plan's model was looked up")?;
    let mut names = fetch::file_names(&models, id)?;
    let missing = fetch::missing(&models, id, &repo.models_dir)?;
    let mut text = match missing.as_slice() {
        [] => format!("Model {id}: here\n"),
        missing => to_fetch(model, missing, names.len()),
    };
    let dir = repo.model_dir(id);
    for made in fetch::makeable(model).iter().map(|file| file.name()) {
        let is_wanted = targets.iter().any(|target| target.weights == made);
        if is_wanted && !dir.join(made).is_file() {
            text += &format!("  {made} is made of its safetensors\n");
        }
        names.push(made.to_owned());
    }
    for target in targets {
        // Weights in several files have an index, whose name begins with that of a single file.
        if !names.iter().any(|name| name.starts_with(&target.weights)) {
            text += &format!("  {}: {id} has no {}\n", target.id, target.weights);
        }
    }
    Ok(text)
}

fn to_fetch(model: &Model, missing: &[String], files: usize) -> String {
    let how = match (&model.source, model.gated) {
        (Source::Embedded | Source::Trained { .. }, _) => "made here",
        (Source::Directory { .. }, _) => "copied",
        (Source::Hub { .. }, false) => "downloaded",
        (Source::Hub { .. }, true) => "downloaded, perhaps with a token in HF_TOKEN",
    };
    let id = &model.id;
    if missing.len() < files {
        return format!("Model {id}: to be {how}: {}\n", missing.join(", "));
    }
    match model.size_mb {
        0 => format!("Model {id}: to be {how}\n"),
        mb => format!("Model {id}: to be {how}, about {}\n", fetch::about_size(mb)),
    }
}

/// Count the cells, the launches, and the fewest requests that these make.
fn to_measure(plan: &Plan, launches: &[&Launch]) -> String {
    let of_scenario = |measured: bool| -> usize {
        let scenarios = plan.scenarios.iter().map(|scenario| {
            let targets = plan.targets.iter().filter(|t| scenario.runs(&t.id)).count();
            match measured {
                true => targets * scenario.measured_cases().count(),
                false => targets * scenario.cases.len(),
            }
        });
        scenarios.sum()
    };
    if plan.targets.is_empty() {
        return String::new();
    }
    let (cells, measured) = (of_scenario(false), of_scenario(true));
    let shared = match cells - measured {
        0 => String::new(),
        shared => format!(" ({shared} of them take their numbers from a cell with the same load)"),
    };
    let twins = match plan.aa_pairs {
        true => ", plus second launches of the two targets that run twice",
        false => "",
    };
    let mut blocks: Vec<u32> = launches.iter().map(|l| l.invocation).collect();
    blocks.dedup();
    format!(
        "To be measured: {cells} cells{shared} by {} launches in {} blocks{twins}\n{}",
        launches.len(),
        blocks.len(),
        samples(plan, launches)
    )
}

/// Count the requests, and those of the cell that has fewest.
fn samples(plan: &Plan, launches: &[&Launch]) -> String {
    let mut of_cell: BTreeMap<CellKey, u64> = BTreeMap::new();
    for launch in launches {
        let scenario = plan.scenario(&launch.scenario);
        let cases = scenario
            .iter()
            .flat_map(|s| s.cases.iter().map(move |case| (s, case)));
        for (scenario, case) in cases.filter(|(_, case)| launch.cases.contains(&case.id)) {
            let cell = scenario.cell_key(case, &launch.target);
            *of_cell.entry(cell).or_default() += u64::from(case.requests);
        }
    }
    match of_cell.values().min() {
        None => String::new(),
        Some(least) => format!(
            "Samples: {} requests or more, {least} or more of each cell\n",
            of_cell.values().sum::<u64>()
        ),
    }
}

/// Describe the micro suites, and how long what is left of them takes.
fn suites(plan: &Plan, logs: &[MicroLog], ours: impl Fn(u32) -> bool) -> String {
    let all = &plan.micro;
    if all.is_empty() {
        return String::new();
    }
    let launches = all.launches.iter().filter(|l| ours(l.invocation));
    let launches: Vec<&PlannedSuite> = launches.filter_map(|l| all.suite(&l.suite)).collect();
    let samples = |suite: &&PlannedSuite| suite.cases.len() as u64 * u64::from(suite.samples);
    let ids: Vec<&str> = all.suites.iter().map(|suite| suite.id.as_str()).collect();
    format!(
        "Micro suites ({}): {} launches, {} samples; what is left takes about {}\n",
        ids.join(", "),
        launches.len(),
        launches.iter().map(samples).sum::<u64>(),
        about(micro::expected_s(plan, logs, ours))
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use fixtures::{plan, target};

    #[test]
    fn cells_launches_and_samples_are_counted() {
        let mut plan = plan();
        plan.targets = vec![target("t")];
        let launches: Vec<&Launch> = plan.launches.iter().collect();
        // Two cases of 20 requests each, in two blocks.
        assert_eq!(
            to_measure(&plan, &launches),
            "To be measured: 2 cells by 2 launches in 2 blocks\n\
             Samples: 80 requests or more, 40 or more of each cell\n"
        );
        let half = samples(&plan, &launches[..1]);
        assert!(half.contains("20 or more of each"), "{half}");
        assert_eq!(samples(&plan, &[]), "");
        let twins = Plan {
            aa_pairs: true,
            ..plan.clone()
        };
        assert!(to_measure(&twins, &launches).contains("run twice"));
        assert_eq!(suites(&plan, &[], |_| true), "", "it has none");
    }

    #[test]
    fn what_is_to_be_fetched_is_said_with_its_size() {
        let mut model = Model {
            id: "m".into(),
            name: "M".into(),
            parameters: 1,
            size_mb: 3800,
            ..Model::default()
        };
        let missing = ["a".to_owned(), "b".to_owned()];
        assert_eq!(
            to_fetch(&model, &missing, 2),
            "Model m: to be made here, about 3.8 GB\n"
        );
        assert_eq!(
            to_fetch(&model, &missing, 3),
            "Model m: to be made here: a, b\n"
        );
        model.source = Source::Hub { files: vec![] };
        model.gated = true;
        model.size_mb = 0;
        assert_eq!(
            to_fetch(&model, &missing, 2),
            "Model m: to be downloaded, perhaps with a token in HF_TOKEN\n"
        );
    }
}
