//! The cost of adopting an engine, beside its speed: the size of what is shipped, its dependencies,
//! its build time and the code that joins it to the protocol. Measured on the program that was run;
//! a value that can't be read or doesn't apply is absent.

use serde::{Deserialize, Serialize};

/// The cost of adopting one program. Cold start is not here: every launch records it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Adoption {
    /// Engine id.
    pub engine: String,
    /// Ids of the run's targets that the program serves.
    pub targets: Vec<String>,
    /// Size of the binary without symbols and debug information, in bytes.
    pub stripped_bytes: Option<u64>,
    /// Number of crates that are linked into the program or expanded for it, each name and version
    /// once, on this platform with its features; without this repository's own.
    pub crates: Option<u64>,
    /// Number of packages in its Python environment.
    pub packages: Option<u64>,
    /// Size of those packages as installed, in bytes.
    pub packages_bytes: Option<u64>,
    /// Shared libraries that the program names itself (ELF `NEEDED`), without those of the C and
    /// C++ runtime. Libraries that it opens by name while it runs aren't found.
    pub libraries: Vec<String>,
    /// Size of all shared libraries that are loaded for these, including what they need in turn,
    /// without the C and C++ runtime, in bytes.
    pub libraries_bytes: Option<u64>,
    /// Number of lines of its folder under `engines/` that are neither blank nor comment nor test.
    /// For an adapter that is the code that joins the engine to the protocol; for an engine written
    /// here, the whole engine.
    pub adapter_lines: Option<u64>,
    /// The build of the program, where the command that recorded this built something.
    pub built: Option<Built>,
}

/// A release build by Cargo.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Built {
    /// Time from the start of the first crate to the end, in seconds. Other work of the machine
    /// makes it longer.
    pub build_s: f64,
    /// Number of crates that were compiled; the others had been compiled before.
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
