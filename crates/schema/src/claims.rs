//! `data/claims.toml`: what an engine's own project claims of its speed, each claim with its
//! condition, its page, and the comparisons of a run that come nearest to it. The words are the
//! project's; no number and no verdict rests on them.

use crate::error::{DataError, read_checked};
use crate::prices::is_date;
use crate::registry::Registry;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The content of `data/claims.toml`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claims {
    /// Date on which all pages were read, `YYYY-MM-DD`.
    pub read: String,
    /// The claims, those of one engine in the order of its page.
    #[serde(rename = "claim", default)]
    pub claims: Vec<Claim>,
}

/// A claim that a project makes of its engine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Engine id.
    pub engine: String,
    /// Text of the claim, a sentence or two.
    pub says: String,
    /// Version, machine and model that the claim is about.
    pub condition: String,
    /// Address of the page that it was read from.
    pub source: String,
    /// Known differences between the claim's conditions and ours, so that the numbers need not
    /// agree.
    #[serde(default)]
    pub differs: String,
    /// Comparisons that come nearest to the claim; empty where nothing here is comparable.
    #[serde(default)]
    pub here: Vec<Comparison>,
}

/// A comparison of two targets that a run can contain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Comparison {
    /// Target id.
    pub target: String,
    /// Id of the target that it is compared with.
    pub against: String,
    /// Scenario id; all of its cases count.
    pub scenario: String,
    /// The metric's name, such as `tpot_ns`.
    pub metric: String,
}

impl Claims {
    /// Read the file in the repository at `root`; `None` where there is none.
    ///
    /// # Errors
    /// If the file can't be read, a date is no date, the registry lacks an engine or a target, or a
    /// source is no web page.
    pub fn load(root: &Path, registry: &Registry) -> Result<Option<Self>, DataError> {
        let path = &root.join("data/claims.toml");
        if !path.is_file() {
            return Ok(None);
        }
        let check = |all: &Self| all.fault(registry).map_or(Ok(()), Err);
        read_checked(path, check).map(Some)
    }

    /// The claims of an engine's project.
    pub fn by_engine<'a>(&'a self, engine: &'a str) -> impl Iterator<Item = &'a Claim> {
        let all = self.claims.iter();
        all.filter(move |claim| claim.engine == engine)
    }

    fn fault(&self, registry: &Registry) -> Option<String> {
        if !is_date(&self.read) {
            return Some(format!("read = {:?} is no date YYYY-MM-DD", self.read));
        }
        let targets = registry.targets();
        self.claims.iter().find_map(|claim| {
            let engine = &claim.engine;
            if registry.engine(engine).is_none() {
                return Some(format!("the registry has no engine {engine:?}"));
            }
            if !claim.source.starts_with("https://") {
                let source = &claim.source;
                return Some(format!("{engine}: {source:?} is no https:// address"));
            }
            let named = claim.here.iter();
            let mut named = named.flat_map(|here| [&here.target, &here.against]);
            let unknown = named.find(|id| !targets.iter().any(|target| target.id == **id))?;
            Some(format!("{engine}: the registry has no target {unknown:?}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::tests::repository;

    const FILE: &str = r#"
        read = "2026-11-24"
        [[claim]]
        engine = "candle"
        says = "Twice as fast."
        condition = "Version 1, on a laptop."
        source = "https://example.org/a"
        [[claim.here]]
        target = "candle.cpu.q8_0"
        against = "candle.cpu.f32"
        scenario = "single_request"
        metric = "tpot_ns"
    "#;

    fn fault(text: &str) -> Option<String> {
        let (_, registry) = repository();
        toml::from_str::<Claims>(text).unwrap().fault(&registry)
    }

    #[test]
    fn what_is_wrong_with_a_file_is_said() {
        assert_eq!(fault(FILE), None);
        for (good, bad, word) in [
            ("\"2026-11-24\"", "\"today\"", "no date"),
            ("\"candle\"", "\"nothing\"", "no engine \"nothing\""),
            ("candle.cpu.f32", "candle.cpu.f99", "no target"),
            ("https://", "http://", "no https:// address"),
        ] {
            let said = fault(&FILE.replace(good, bad)).unwrap();
            assert!(said.contains(word), "{said}");
        }
        assert!(toml::from_str::<Claims>(&FILE.replace("says", "sings")).is_err());
    }

    #[test]
    fn the_file_of_this_repository_loads() {
        let (root, registry) = repository();
        let all = Claims::load(&root, &registry).unwrap();
        let all = all.expect("there is a file");
        for claim in &all.claims {
            assert!(all.by_engine(&claim.engine).any(|other| other == claim));
            for here in &claim.here {
                let scenario = root.join(format!("data/scenarios/{}.toml", here.scenario));
                assert!(scenario.is_file(), "{}", scenario.display());
            }
        }
    }
}
