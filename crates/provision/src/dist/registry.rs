//! The registry of a bundle: every program that Cargo makes is one that is there already.
//! Pure.

use schema::registry::{Build, Registry};

/// The same targets, with their programs where a bundle has them. What only builds and
/// tests need is left out.
pub fn prebuilt(registry: &Registry) -> Registry {
    let mut registry = registry.clone();
    registry.build_s.clear();
    for engine in &mut registry.engines {
        let ids: Vec<(String, String)> = engine
            .on
            .keys()
            .map(|backend| (backend.clone(), engine.program_id(backend)))
            .collect();
        for (backend, id) in ids {
            if let Some(how) = engine.on.get_mut(&backend) {
                *how = there_already(&id, how);
            }
        }
        engine.build = there_already(&engine.id, &engine.build);
        engine.direct = None;
        engine.test_server = None;
    }
    registry
}

/// Where a bundle has a program; `None` for one that isn't Cargo's.
pub fn program_path(id: &str, how: &Build) -> Option<String> {
    match how {
        Build::Cargo { bin, .. } => Some(format!("programs/{id}/{bin}")),
        Build::Prebuilt { .. } | Build::Python { .. } => None,
    }
}

fn there_already(id: &str, how: &Build) -> Build {
    let Some(path) = program_path(id, how) else {
        return how.clone();
    };
    // What else it needs, it needs to be built.
    let needs = how.needs().iter().filter(|need| need.is_to_run());
    Build::Prebuilt {
        path,
        needs: needs.copied().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schema::registry::Need;
    use std::path::Path;

    #[test]
    fn a_bundles_registry_loads_and_runs_the_same_targets() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let ours = Registry::load(&root.join("engines/engines.toml")).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("engines.toml");
        std::fs::write(&path, toml::to_string(&prebuilt(&ours)).unwrap()).unwrap();
        let theirs = Registry::load(&path).unwrap();
        assert_eq!(theirs.targets(), ours.targets());
        for target in ours.targets() {
            let id = ours.program_id(&target).unwrap();
            assert_eq!(theirs.program_id(&target).as_ref(), Some(&id));
            let engine = theirs.engine(&target.engine).unwrap();
            match engine.build_for(&target.backend) {
                Build::Prebuilt { path, needs } => {
                    assert!(path.starts_with(&format!("programs/{id}/")), "{path}");
                    let wanted = ours.engine(&target.engine).unwrap();
                    let wanted = wanted.build_for(&target.backend).needs();
                    let stays = |need: &Need| needs.contains(need) == need.is_to_run();
                    assert!(wanted.iter().all(stays), "{id}");
                }
                Build::Python { .. } => {}
                Build::Cargo { .. } => panic!("{id} would have to be built"),
            }
        }
        assert!(theirs.engines.iter().all(|engine| engine.direct.is_none()));
    }
}
