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

/// The weight files of a run as they were when it began. (Their hashes were checked
/// before; this only sees that nobody has touched them since.)
pub struct Weights {
    model_dir: PathBuf,
    began_as: BTreeMap<String, Look>,
}

impl Weights {
    /// Those of every target.
    pub fn of(plan: &Plan, model_dir: &Path) -> Self {
        let look = |target: &Target| {
            let found = std::fs::metadata(model_dir.join(&target.weights)).ok()?;
            Some((target.weights.clone(), look(&found)))
        };
        Self {
            model_dir: model_dir.to_owned(),
            began_as: plan.targets.iter().filter_map(look).collect(),
        }
    }

    /// What is wrong with those of a target, if anything.
    pub fn changed(&self, target: &Target) -> Option<String> {
        // A target whose file never was there fails by itself.
        let began_as = self.began_as.get(&target.weights)?;
        let path = self.model_dir.join(&target.weights);
        let what = match std::fs::metadata(&path) {
            Err(error) => format!("can't be read any more ({error})"),
            Ok(found) if look(&found) != *began_as => "is another file now".to_owned(),
            Ok(_) => return None,
        };
        Some(format!(
            "{} {what}, while a run measures with it: put the model back (`cargo xtask fetch`)",
            path.display()
        ))
    }
}

fn look(file: &Metadata) -> Look {
    (file.len(), file.mtime(), file.mtime_nsec(), file.ino())
}
