//! One run at a time on a machine: two would measure each other.

use crate::repo::Repo;
use anyhow::{Context, Result, bail};

/// Hold the machine for as long as the file is held; refused where another run does.
pub(crate) fn exclusive(repo: &Repo) -> Result<std::fs::File> {
    let path = repo.build_dir.join("bench.lock");
    std::fs::create_dir_all(&repo.build_dir)
        .with_context(|| format!("{} can't be made", repo.build_dir.display()))?;
    let file = std::fs::File::create(&path)
        .with_context(|| format!("{} can't be made", path.display()))?;
    if file.try_lock().is_err() {
        bail!(
            "another run is measuring on this machine ({} is locked): two at once would measure each other; wait for it",
            path.display()
        );
    }
    Ok(file)
}
