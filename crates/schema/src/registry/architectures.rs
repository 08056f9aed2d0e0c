//! The model architectures that an engine runs. An architecture is what a model's config.json calls
//! `model_type`; whether an engine computes it correctly is judged by the parity gate.

use super::{Registry, Target};
use crate::error::fits;

/// Entry in a list of architectures that means any of them, even one that nothing else names.
pub const ANY_ARCHITECTURE: &str = "*";

/// The architectures of an engine whose entry names none.
pub(super) fn only_llama() -> Vec<String> {
    vec!["llama".to_owned()]
}

impl Registry {
    /// The architectures that a target runs: its own list, or its engine's. Empty where the
    /// target isn't in this registry.
    pub fn architectures_of(&self, target: &Target) -> &[String] {
        match self.entry(target) {
            Some((_, entry)) if !entry.architectures.is_empty() => &entry.architectures,
            Some((engine, _)) => &engine.architectures,
            None => &[],
        }
    }

    /// Whether a target runs models of an architecture, as far as this registry knows.
    pub fn runs(&self, target: &Target, architecture: &str) -> bool {
        let all = self.architectures_of(target);
        all.iter()
            .any(|one| one == ANY_ARCHITECTURE || one == architecture)
    }

    /// Every architecture that an engine names, in the order in which they are first named.
    pub fn architectures(&self) -> Vec<&str> {
        let mut all: Vec<&str> = Vec::new();
        for engine in &self.engines {
            let entries = engine.targets.iter().flat_map(|entry| &entry.architectures);
            for one in engine.architectures.iter().chain(entries) {
                if one != ANY_ARCHITECTURE && !all.contains(&one.as_str()) {
                    all.push(one);
                }
            }
        }
        all
    }

    /// Check that each list names an architecture, and none twice.
    pub(super) fn check_architectures(&self) -> Result<(), String> {
        for engine in &self.engines {
            if engine.architectures.is_empty() {
                return Err(format!(
                    "engine {:?} has no architectures; leave the field out for llama alone, or write \"{ANY_ARCHITECTURE}\" for any",
                    engine.id
                ));
            }
            let lists = engine.targets.iter().map(|entry| &entry.architectures);
            for list in lists.chain([&engine.architectures]) {
                for (i, one) in list.iter().enumerate() {
                    if one != ANY_ARCHITECTURE {
                        fits("architecture", one)?;
                    }
                    if list[..i].contains(one) {
                        return Err(format!(
                            "engine {:?} names the architecture {one:?} twice",
                            engine.id
                        ));
                    }
                }
            }
        }
        Ok(())
    }
}
