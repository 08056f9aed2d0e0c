//! Writes the merged run to disk. It is made beside its final place and renamed when complete, so
//! that an interrupted merge leaves no run behind.

use super::{Part, combine};
use anyhow::{Context, Result, ensure};
use base::files::{Appender, write_json};
use schema::kernels::TRACES_DIR;
use schema::key::original;
use schema::run::{Run, RunHeader};
use serde::Serialize;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Write the whole run, with the parts' judgements combined; return its directory in `out`.
pub(super) fn write(parts: &[Part], header: &RunHeader, out: &Path) -> Result<PathBuf> {
    let runs: Vec<&Run> = parts.iter().map(|part| &part.run).collect();
    // It fails where the parts' limits differ, and then nothing may be made.
    let checks = combine::checks(&runs)?;
    let place = out.join(&header.id);
    ensure!(
        !place.exists(),
        "{} is there already: these runs have been merged",
        place.display()
    );
    std::fs::create_dir_all(out).with_context(|| format!("{} can't be made", out.display()))?;
    let staged = tempfile::Builder::new()
        .prefix(".merging-")
        .tempdir_in(out)
        .with_context(|| format!("{} can't be written to", out.display()))?;
    let root = staged.path();
    for part in parts {
        copy(part, root)?;
    }
    lines(&root.join("verify.jsonl"), &combine::verify(&runs))?;
    lines(&root.join("check.jsonl"), &checks)?;
    lines(&root.join("capacity.jsonl"), &combine::capacities(&runs))?;
    if let Some(budget) = combine::budget(&runs) {
        write_json(&root.join("budget.json"), &budget)?;
    }
    write_json(&root.join("run.json"), header)?;
    // A temporary directory is readable by its owner only; a run is readable by everyone.
    std::fs::set_permissions(root, PermissionsExt::from_mode(0o755))
        .and_then(|()| std::fs::rename(root, &place))
        .with_context(|| format!("{} can't be made", place.display()))?;
    // The directory was renamed, so there is nothing left to remove.
    let _ = staged.keep();
    Ok(place)
}

fn lines<T: Serialize>(path: &Path, values: &[T]) -> Result<()> {
    if values.is_empty() {
        return Ok(());
    }
    let mut file = Appender::create(path)?;
    values
        .iter()
        .try_for_each(|value| file.append(value).map(drop))?;
    file.sync()
}

/// Copy a part's records into the run, and kernel traces that no earlier part had. Everything else
/// goes under `sources/<id>/`, where it is kept unchanged and no command reads it.
fn copy(part: &Part, root: &Path) -> Result<()> {
    let targets = &part.run.header.plan.targets;
    let kept = Path::new("sources").join(part.id());
    for name in part.files.names() {
        let relative = Path::new(name);
        let dir = relative.parent().and_then(Path::to_str);
        let is_record = relative.extension().is_some_and(|ext| ext == "jsonl")
            && dir.is_some_and(|dir| targets.iter().any(|target| target.id == original(dir)))
            || relative.starts_with(schema::micro::DIR);
        let is_first_trace = relative.starts_with(TRACES_DIR) && !root.join(relative).exists();
        let to = match is_record || is_first_trace {
            true => root.join(relative),
            false => root.join(&kept).join(relative),
        };
        let from = part.files.path(name);
        ensure!(
            !to.exists(),
            "{}: another part has a record of that name",
            from.display()
        );
        let bytes = part.files.bytes(name)?.unwrap_or_default();
        to.parent()
            .map_or(Ok(()), std::fs::create_dir_all)
            .and_then(|()| std::fs::write(&to, &bytes))
            .with_context(|| format!("{} can't be copied", from.display()))?;
    }
    Ok(())
}
