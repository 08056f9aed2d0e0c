//! `cargo xtask fetch`, and the same work for stages that need a model.

use super::{How, Progress, brought, fetch, make};
use anyhow::Result;
use base::repo::Repo;
use models::ModelSpec;
use schema::plan::Plan;
use schema::registry::Target;

/// What the command line says.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Models: ids of data/models.toml, `hf:org/repo[@revision]` or directories; none: the tiny ones.
    pub models: Vec<String>,
    /// Hash every byte again, instead of trusting size and time of files verified before.
    #[arg(long)]
    pub full: bool,
    /// Print what is where as JSON.
    #[arg(long)]
    pub json: bool,
}

/// Fetch the models that are named (or else the small ones), and print their files.
pub fn command(repo: &Repo, options: &Options) -> Result<()> {
    let named = brought::ids(repo, &options.models)?;
    let ids = ModelSpec::named_or_small(&named);
    let fetching = super::Options {
        full: options.full,
        ..super::Options::from_env()
    };
    let files = fetch(repo, &ids, &fetching, &mut Progress::stderr())?;
    if options.json {
        println!("{}", serde_json::to_string_pretty(&files)?);
        return Ok(());
    }
    for file in files {
        let how = match file.how {
            How::Present => "present",
            How::Generated => "made",
            How::Cached => "from the hub's cache",
            How::Downloaded => "downloaded",
            How::Copied => "copied",
        };
        println!(
            "{}/{}  {}  {} bytes, {how}",
            file.model,
            file.name,
            &file.sha256[..16],
            file.size_bytes
        );
    }
    Ok(())
}

/// Make sure that models are complete and verified.
pub fn ensure(repo: &Repo, ids: &[String]) -> Result<()> {
    let options = super::Options::from_env();
    fetch(repo, ids, &options, &mut Progress::stderr()).map(drop)
}

/// Make sure that the files by which a model's prompts are encoded are here. A model that is
/// generated here is generated as a whole.
pub fn ensure_small(repo: &Repo, id: &str) -> Result<()> {
    let options = super::Options {
        small: true,
        ..super::Options::from_env()
    };
    fetch(repo, &[id.to_owned()], &options, &mut Progress::stderr()).map(drop)
}

/// Make sure that a model is complete and verified, as [`ensure`] does, together with the GGUF
/// files that targets need and that are made of the model's safetensors.
pub fn ensure_for(repo: &Repo, id: &str, targets: &[Target]) -> Result<()> {
    ensure(repo, std::slice::from_ref(&id.to_owned()))?;
    let wanted: Vec<String> = targets.iter().map(|t| t.weights.clone()).collect();
    let options = super::Options::from_env();
    make(repo, id, &wanted, &options, &mut Progress::stderr()).map(drop)
}

/// Make sure that what a run needs is here: its model, and the one with outliers that its targets
/// are asked about too.
pub fn ensure_for_run(repo: &Repo, plan: &Plan) -> Result<()> {
    ensure_for(repo, &plan.model, &plan.targets)?;
    match repo
        .parity_limits()?
        .outliers_beside(&plan.model, &plan.targets)
    {
        Some(outliers) => ensure_for(repo, outliers, &plan.targets),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_names_every_field_as_scripts_know_it() {
        let file = super::super::FetchedFile {
            model: "m".into(),
            name: "config.json".into(),
            sha256: "00ff".into(),
            size_bytes: 7,
            how: How::Downloaded,
        };
        assert_eq!(
            serde_json::to_value(file).unwrap(),
            serde_json::json!({
                "model": "m",
                "name": "config.json",
                "sha256": "00ff",
                "size_bytes": 7,
                "how": "downloaded",
            })
        );
    }
}
