//! The provenance of a run: the sources, programs and machine it was made with.

use crate::adoption::Adoption;
use crate::model::Model;
use crate::pins::Pins;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The provenance of a run: where and with what it was made. What can't be read is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    /// Revision of this repository.
    #[serde(default)]
    pub git_revision: Option<String>,
    /// Whether tracked files differed from that revision.
    #[serde(default)]
    pub git_dirty: Option<bool>,
    /// Lockfile path → sha256.
    #[serde(default)]
    pub lockfiles: BTreeMap<String, String>,
    /// Model file → sha256.
    #[serde(default)]
    pub model_files: BTreeMap<String, String>,
    /// The model, where the user brought it, so that the record can be shown anywhere; absent for a
    /// model of `data/models.toml`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<Model>,
    /// Target id → sha256 of its program.
    #[serde(default)]
    pub binaries: BTreeMap<String, String>,
    /// Program id → the cost of adopting it, for programs that could be built.
    #[serde(default)]
    pub adoption: BTreeMap<String, Adoption>,
    /// Environment of the programs; empty in records older than this field.
    #[serde(default, skip_serializing_if = "Pins::is_empty")]
    pub pins: Pins,
    /// Other facts about the machine and its tools, such as `rustc`, `cpu_model`, `cpu_signature`,
    /// `cpu_flags`, `cpus`, `memory_bytes`, `kernel`, `governor`, `gpu`, `driver`, `cuda`,
    /// `python`, `memory_read_bytes_per_s`, `flops_f32_per_s`, `cuda_flops_f16_per_s`.
    #[serde(default)]
    pub facts: BTreeMap<String, String>,
}
