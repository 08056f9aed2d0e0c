//! Checks whether the weights are still those that the run began with. If a model is removed or
//! made anew while a run measures, that is no engine's failure.

use schema::plan::Plan;
use schema::registry::Target;
use std::collections::BTreeMap;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Metadata that show whether a file changed: size, modification time (s, ns) and inode.
type Look = (u64, i64, i64, u64);

/// The weight files of a run as they were when it began. Their hashes were checked before; this
/// only notices changes since then.
pub struct Weights {
    /// The files by the name that targets use: one file, or the shards in its place.
    began_as: BTreeMap<String, Vec<(PathBuf, Look)>>,
}

impl Weights {
    /// Note the weight files of every target.
    pub fn new(plan: &Plan, model_dir: &Path) -> Self {
        let look = |target: &Target| {
            let files = protocol::safetensors_files(model_dir, &target.weights).ok()?;
            let look = |file: PathBuf| {
                let found = std::fs::metadata(&file).ok()?;
                Some((file, look(&found)))
            };
            let files: Option<Vec<_>> = files.into_iter().map(look).collect();
            Some((target.weights.clone(), files?))
        };
        Self {
            began_as: plan.targets.iter().filter_map(look).collect(),
        }
    }

    /// What has changed about the weight files of a target; `None` if nothing has.
    pub fn changed(&self, target: &Target) -> Option<String> {
        // A target whose file was never there fails when it loads.
        let files = self.began_as.get(&target.weights)?;
        let (path, what) = files.iter().find_map(|(path, began_as)| {
            let what = match std::fs::metadata(path) {
                Err(error) => format!("can't be read any more ({error})"),
                Ok(found) if look(&found) != *began_as => "is another file now".to_owned(),
                Ok(_) => return None,
            };
            Some((path, what))
        })?;
        Some(format!(
            "{} {what}, while a run measures with it: put the model back (`cargo xtask fetch`)",
            path.display()
        ))
    }
}

fn look(file: &Metadata) -> Look {
    (file.len(), file.mtime(), file.mtime_nsec(), file.ino())
}
