//! `bundle.json`: the description of what a bundle of built programs was made from, because the
//! machine it is unpacked on has no checkout. Written by `cargo xtask dist`.

use crate::adoption::Adoption;
use crate::error::{DataError, read_json};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// The file's name, at the root of a bundle.
pub const FILE: &str = "bundle.json";
/// The only format there is.
pub const FORMAT: u32 = 1;

/// The origin of a bundle, and its requirements.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Bundle {
    /// Number of the format, [`FORMAT`].
    pub format: u32,
    /// Version of this repository.
    pub version: String,
    /// The checkout's revision.
    pub git_revision: Option<String>,
    /// Whether the checkout differed from that revision.
    pub git_dirty: Option<bool>,
    /// The CPU that its programs are compiled for, as it was named to the compiler.
    pub target_cpu: String,
    /// CPU flags that the programs need, in the kernel's spelling.
    pub cpu_flags: Vec<String>,
    /// Whether its engines are those for an NVIDIA GPU.
    pub cuda: bool,
    /// Lockfile → sha256, of all lockfiles that can affect a measurement.
    pub lockfiles: BTreeMap<String, String>,
    /// Program id → cost of adopting it, as measured where it was built.
    pub adoption: BTreeMap<String, Adoption>,
}

impl Bundle {
    /// Load the description of the bundle at `root`; `None` where that is a checkout.
    pub fn load(root: &Path) -> Result<Option<Self>, DataError> {
        let path = root.join(FILE);
        if !path.is_file() {
            return Ok(None);
        }
        let bundle: Self = read_json(&path)?;
        if bundle.format != FORMAT {
            let message = format!("has format {}, this program reads {FORMAT}", bundle.format);
            return Err(DataError::new(&path, message));
        }
        Ok(Some(bundle))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bundle_is_told_from_a_checkout_and_from_another_format() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        assert_eq!(Bundle::load(dir).unwrap(), None);
        let bundle = Bundle {
            format: FORMAT,
            cuda: true,
            ..Bundle::default()
        };
        std::fs::write(dir.join(FILE), serde_json::to_string(&bundle).unwrap()).unwrap();
        assert_eq!(Bundle::load(dir).unwrap().as_ref(), Some(&bundle));
        let newer = Bundle {
            format: FORMAT + 1,
            ..bundle
        };
        std::fs::write(dir.join(FILE), serde_json::to_string(&newer).unwrap()).unwrap();
        let error = Bundle::load(dir).unwrap_err().to_string();
        assert!(error.contains("has format 2"), "{error}");
    }
}
