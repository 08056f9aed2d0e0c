//! What a run was pinned to, item by item, and which libraries were kept from some of the
//! processor's instructions, with the reason.

use crate::fmt;
use crate::view::Shown;
use crate::view::reported::instruction_limits_of;
use schema::provenance::Provenance;

/// List every pinned item; one that the record doesn't have is a dash, never left out.
pub fn rows(provenance: &Provenance) -> Vec<(String, String)> {
    let pins = provenance.pins.items();
    let hash = |name: &str| provenance.lockfiles.get(name).cloned();
    let fact = |name: &str| provenance.facts.get(name).cloned();
    let others = [
        ("flake.lock (sha256)", hash("flake.lock")),
        ("rustc", fact("rustc")),
        ("driver", fact("driver")),
        ("newest CUDA of the driver", fact("cuda")),
    ];
    let all = pins.into_iter().chain(others);
    all.map(|(item, value)| (item.to_owned(), value.unwrap_or(fmt::NONE.into())))
        .collect()
}

/// The targets that had an instruction limit, as (target, limits).
pub fn instruction_limits(shown: &Shown) -> Vec<(String, String)> {
    let targets = shown.targets().iter();
    let rows = targets.map(|target| {
        let limits = instruction_limits_of(shown, &target.id);
        (target.id.clone(), limits.join("; "))
    });
    rows.filter(|(_, limits)| !limits.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use schema::pins::{Pin, Pins};

    #[test]
    fn every_item_is_shown_whether_it_is_known_or_not() {
        let mut provenance = Provenance::default();
        let blank = rows(&provenance);
        assert!(blank.iter().all(|(_, value)| value == fmt::NONE));
        provenance.pins = Pins {
            nix_shell: Some("default".into()),
            nix_shell_pure: Some(true),
            libtorch: Some(Pin {
                version: Some("2.9.0+cu128".into()),
                from: "/nix/store/x-libtorch".into(),
                sha256: None,
            }),
            ..Pins::default()
        };
        provenance
            .lockfiles
            .insert("flake.lock".into(), "ab".repeat(32));
        provenance.facts.insert("driver".into(), "580.1".into());
        let known = rows(&provenance);
        assert_eq!(known.len(), blank.len());
        let of = |item: &str| {
            let row = known.iter().find(|(name, _)| name == item);
            row.map(|(_, value)| value.as_str())
        };
        assert_eq!(
            of("libtorch"),
            Some("2.9.0+cu128 from /nix/store/x-libtorch")
        );
        assert_eq!(of("nix shell is pure"), Some("yes"));
        assert_eq!(of("driver"), Some("580.1"));
        assert_eq!(of("cuda toolkit"), Some(fmt::NONE));
    }
}
