//! `cargo xtask fetch`, and the same for stages that need a model to be there.

use super::{Bar, How, Options, Verify, fetch};
use crate::repo::Repo;
use anyhow::Result;
use models::ModelSpec;

/// Fetch by hand (where none are named, the small ones), and say what is where.
pub fn command(repo: &Repo, ids: &[String], full: bool) -> Result<()> {
    let ids = ModelSpec::named_or_small(ids);
    let files = fetch_into(repo, &ids, if full { Verify::Full } else { Verify::Stamp })?;
    for file in files {
        let how = match file.how {
            How::Present => "present",
            How::Generated => "made",
            How::Cached => "from the hub's cache",
            How::Downloaded => "downloaded",
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
    fetch_into(repo, ids, Verify::Stamp).map(drop)
}

fn fetch_into(repo: &Repo, ids: &[String], verify: Verify) -> Result<Vec<super::FetchedFile>> {
    let options = Options {
        verify,
        interrupted: crate::interrupt::requested,
        ..Options::from_env()
    };
    fetch(
        &repo.models()?,
        ids,
        &repo.models_dir,
        &repo.models_lock_path(),
        &options,
        &mut Bar::stderr(),
    )
}
