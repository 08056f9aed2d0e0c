//! What adopting an engine costs a team beside its speed: what is shipped, what is
//! depended on, how long it builds, how much code joins it. Measured on the program
//! that was run; what can't be read or doesn't apply is absent.

use serde::{Deserialize, Serialize};

/// What it costs to adopt one program. Cold start is not here: every launch records it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Adoption {
    /// Engine id.
    pub engine: String,
    /// Ids of the run's targets that it serves.
    pub targets: Vec<String>,
    /// Size of the binary without symbols and debug information, in bytes.
    pub stripped_bytes: Option<u64>,
    /// Crates linked into it or expanded for it, each name and version once, on this
    /// platform with its features; without this repository's own.
    pub crates: Option<u64>,
    /// Packages in its Python environment, each once.
    pub packages: Option<u64>,
    /// Size of those packages as installed, in bytes.
    pub packages_bytes: Option<u64>,
    /// Shared libraries it names itself (ELF `NEEDED`), without those of the C and
    /// C++ runtime. What it opens by name while running isn't seen.
    pub libraries: Vec<String>,
    /// Size of all shared libraries that are loaded for these, in bytes, with what
    /// they need in turn, without the C and C++ runtime.
    pub libraries_bytes: Option<u64>,
    /// Lines of its folder under `engines/` that are neither blank nor comment nor
    /// test: of an adapter what joins the engine to the protocol, of an engine written
    /// here the whole engine.
    pub adapter_lines: Option<u64>,
    /// How long it was built, where the command that recorded this built something.
    pub built: Option<Built>,
}

/// A build by Cargo, in release.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Built {
    /// From the first crate's start to the end, in seconds. Whatever else the machine
    /// did is in it.
    pub build_s: f64,
    /// How many crates were compiled: the others were there already.
    pub crates_compiled: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_record_lacks_is_absent() {
        let old: Adoption = serde_json::from_str(r#"{"engine":"a","stripped_bytes":3}"#).unwrap();
        assert_eq!(old.stripped_bytes, Some(3));
        assert_eq!((old.crates, old.built), (None, None));
        let provenance: crate::provenance::Provenance = serde_json::from_str("{}").unwrap();
        assert!(provenance.adoption.is_empty());
    }
}
