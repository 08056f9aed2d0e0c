//! Whether the weights are still those the run began with. A model that goes away or
//! is made anew while a run measures is this machine's doing and no engine's failure.

use schema::plan::Plan;
use schema::registry::Target;
use std::collections::BTreeMap;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What a file looks like without being read.
type Look = (u64, i64, i64, u64);

/// The weight files of a run as they were when it began. Their hashes were checked
/// before; this only notices changes since then.
pub struct Weights {
    /// By the name that targets give them: a file, or the shards in its place.
    began_as: BTreeMap<String, Vec<(PathBuf, Look)>>,
}

impl Weights {
    /// Those of every target.
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

    /// What is wrong with those of a target, if anything.
    pub fn changed(&self, target: &Target) -> Option<String> {
        // A target whose file never was there fails by itself.
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
