//! The adapter of the engine for the benchmark's protocol: it converts options, errors and
//! capabilities.
//!
//! It deliberately times nothing and forms no batches; the runtime does that.

use crate::kernels::{Isa, Kernels};
use crate::model::{Model, Options};
use crate::mutation::{Mutation, Slowdown};
use crate::weights::Precision;
use protocol::engine::{Engine, EngineError};
use protocol::wire::{Batching, Capabilities, Hello, Load, Loaded};
use std::path::Path;

/// A loaded model, with the handicap of its variant.
pub struct Lmrs {
    model: Model,
    slowdown: Slowdown,
}

/// The environment variable that overrides the choice of kernels, for tests.
const ISA_VARIABLE: &str = "LMRS_ISA";

fn choose_kernels() -> Result<Kernels, EngineError> {
    let wanted = std::env::var(ISA_VARIABLE).ok();
    Kernels::choose(wanted.as_deref()).map_err(EngineError::unsupported)
}

impl Engine for Lmrs {
    fn hello(load: &Load) -> Hello {
        let isa = choose_kernels().map_or("none", |kernels| kernels.isa().name());
        let available = Isa::ALL.into_iter().filter(|isa| isa.is_available());
        let available: Vec<&str> = available.map(Isa::name).collect();
        let mut notes = Vec::new();
        if let Ok(Some(mutation)) = Mutation::from_variant(&load.variant) {
            notes.push(format!(
                "DELIBERATELY WRONG: fault {mutation:?} is on, to test the parity gate; \
                 never publish these numbers"
            ));
        }
        if let Some(percent) = Slowdown::from_variant(&load.variant).and_then(Slowdown::percent) {
            notes.push(format!(
                "DELIBERATELY SLOW: every pass takes {percent} % longer, to test the verdicts; \
                 never publish these numbers"
            ));
        }
        if load.precision == "q8_0" {
            notes.push(
                "weights are repacked at load into 16-row tiles (same bytes, same values); \
                 activations are quantised to int8 in blocks of 32"
                    .to_owned(),
            );
        }
        if load.prefix_cache {
            notes.push(
                "a prompt alone goes on from where it leaves the sequence before it; no other \
                 sequence is kept"
                    .to_owned(),
            );
        }
        let capabilities = Capabilities {
            prefix_cache: true,
            notes,
            ..Capabilities::new(Batching::StaticEqualLength)
        };
        Hello::new("lmrs", env!("CARGO_PKG_VERSION"), capabilities)
            .with_build("isa", isa)
            .with_build("isa_available", available.join(" "))
    }

    fn load(load: &Load) -> Result<(Self, Loaded), EngineError> {
        if load.backend != "cpu" {
            let backend = &load.backend;
            return Err(EngineError::unsupported(format!(
                "backend `{backend}`: lmrs computes on `cpu` only"
            )));
        }
        let precision = match load.precision.as_str() {
            "f32" => Precision::F32,
            "q8_0" => Precision::Q8_0,
            other => {
                return Err(EngineError::unsupported(format!(
                    "precision `{other}`: lmrs has f32 (safetensors) and q8_0 (GGUF)"
                )));
            }
        };
        let (mutation, slowdown) = match Slowdown::from_variant(&load.variant) {
            Some(slowdown) => (None, slowdown),
            None => (
                Mutation::from_variant(&load.variant).map_err(EngineError::unsupported)?,
                Slowdown::default(),
            ),
        };
        let model = Model::load(&Options {
            model_dir: Path::new(&load.model_dir),
            weights: &load.weights,
            precision,
            threads: load.threads as usize,
            max_context: load.max_context as usize,
            max_batch: load.max_batch as usize,
            prefix_cache: load.prefix_cache,
            mutation,
            kernels: choose_kernels()?,
        })?;
        let loaded = Loaded {
            weight_bytes: model.weight_bytes(),
            kv_bytes_per_token: model.kv_bytes_per_token(),
            ..Loaded::default()
        };
        Ok((Self { model, slowdown }, loaded))
    }

    fn prefill(&mut self, prompts: &[&[u32]]) -> Result<Vec<u32>, EngineError> {
        self.slowdown.stretch(|| self.model.prefill(prompts))
    }

    fn decode(&mut self, tokens: &[u32]) -> Result<Vec<u32>, EngineError> {
        self.slowdown.stretch(|| self.model.decode(tokens))
    }

    fn logits(&mut self, row: usize) -> Result<Vec<f32>, EngineError> {
        self.model.logits(row).map(<[f32]>::to_vec)
    }
}
