//! The registry of the synthetic run: a target of every kind that a page tells apart.

use super::launch::SPEEDS;
use schema::registry::{Build, Engine, Registry, Target, TargetEntry};
use std::collections::BTreeMap;

pub fn registry() -> Registry {
    let mut engines: Vec<Engine> = Vec::new();
    for target in targets() {
        let entry = TargetEntry {
            variant: String::new(),
            backend: target.backend,
            precision: target.precision,
            weights: target.weights,
            architectures: Vec::new(),
            hidden: false,
        };
        match engines.iter_mut().find(|engine| engine.id == target.engine) {
            Some(engine) => engine.targets.push(entry),
            None => engines.push(Engine {
                name: format!("{} (synthetic)", target.engine),
                about: "An invented engine: its numbers show the page, nothing else.".into(),
                homepage: "https://example.org/".into(),
                build: Build::Cargo {
                    package: format!("{}-bench", target.engine),
                    bin: format!("{}-bench", target.engine),
                    manifest: None,
                    features: Vec::new(),
                    default_features: true,
                    needs: Vec::new(),
                },
                on: BTreeMap::new(),
                direct: None,
                env: Vec::new(),
                architectures: vec!["llama".into()],
                test_server: None,
                hidden: false,
                ours: false,
                id: target.engine,
                targets: vec![entry],
            }),
        }
    }
    engines[0].targets.push(TargetEntry {
        variant: String::new(),
        backend: "cuda".into(),
        precision: "bf16".into(),
        weights: "model.safetensors".into(),
        architectures: Vec::new(),
        hidden: false,
    });
    Registry {
        baseline: "pytorch.cpu.f32".into(),
        reference: "pytorch.cpu.f32".into(),
        cross_check: "candle.cpu.f32".into(),
        instrument: None,
        handicap: None,
        isa_ladders: vec![],
        backends: Default::default(),
        build_s: Default::default(),
        engines,
    }
}

pub fn targets() -> Vec<Target> {
    SPEEDS
        .iter()
        .map(|(id, ..)| {
            let parts: Vec<&str> = id.split('.').collect();
            Target {
                id: (*id).into(),
                engine: parts[0].into(),
                variant: String::new(),
                backend: parts[1].into(),
                precision: parts[2].into(),
                weights: "model.safetensors".into(),
                hidden: false,
            }
        })
        .collect()
}
