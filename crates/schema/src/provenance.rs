//! Where and with what a run was made.

use crate::adoption::Adoption;
use crate::model::Model;
use crate::pins::Pins;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Where and with what a run was made. What can't be read is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    /// Revision of this repository.
    #[serde(default)]
    pub git_revision: Option<String>,
    /// Whether tracked files differed from it.
    #[serde(default)]
    pub git_dirty: Option<bool>,
    /// Lockfile path → sha256.
    #[serde(default)]
    pub lockfiles: BTreeMap<String, String>,
    /// Model file → sha256.
    #[serde(default)]
    pub model_files: BTreeMap<String, String>,
    /// The model, where the user brought it, so that a record shows it wherever it is read; absent
    /// for one of `data/models.toml`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<Model>,
    /// Target id → sha256 of its program.
    #[serde(default)]
    pub binaries: BTreeMap<String, String>,
    /// Program → what adopting it costs, of those that could be built.
    #[serde(default)]
    pub adoption: BTreeMap<String, Adoption>,
    /// What stood around the programs; empty in records older than this field.
    #[serde(default, skip_serializing_if = "Pins::is_empty")]
    pub pins: Pins,
    /// Everything else about the machine and tools, e.g. `rustc`, `cpu_model`,
    /// `cpu_signature`, `cpu_flags`, `cpus`, `memory_bytes`, `kernel`, `governor`, `gpu`,
    /// `driver`, `cuda`, `python`, `memory_read_bytes_per_s`, `flops_f32_per_s`,
    /// `cuda_flops_f16_per_s`.
    #[serde(default)]
    pub facts: BTreeMap<String, String>,
}
