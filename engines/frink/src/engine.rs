//! The adapter: it feeds token ids to Frink's decoder and returns greedy ids.

use crate::file::{check_precision, weight_bytes};
use frink_core::cache::KvCache;
use frink_gguf::GgufFile;
use frink_models::{BudgetBackend, Decoder, LoadError, ModelConfig, host_kv_dtype_from_env};
use protocol::argmax;
use protocol::engine::{Engine, EngineError};
use protocol::wire::{Batching, Capabilities, FailureKind, Hello, Load, Loaded};
use std::path::Path;

/// The version of Frink's crates, which are released together. A test compares it with the
/// lockfile.
const VERSION: &str = "0.50.0";

/// What a reader of the numbers must know.
const NOTES: [&str; 4] = [
    "Keys and values are f16, as in Frink's programs. On x86-64 its kernels use AVX2. A decode step \
     of one row multiplies quantised weights by f32 activations; prompts of four tokens or more, and \
     the attention of several rows, by activations in 8 bits.",
    "Prompts of a batch are computed one after another. A decode step computes several rows \
     together, but reads the weights of the MLP once for each row: Frink's own way.",
    "Weights are mapped from the file. For products with activations in 8 bits Frink keeps a second \
     copy of them in another layout, in a quarter of the memory that is free beyond 4 GiB; what does \
     not fit is laid out anew for every prompt.",
    "Loading ends with a step of one token, as in Frink's program for one prompt. A kept prefix is \
     what a row still holds of its last prompt.",
];

/// A loaded model of Frink's.
pub struct Frink {
    decoder: Decoder,
    /// The caches of each row, one per layer.
    caches: Vec<Vec<KvCache>>,
    /// The tokens whose keys and values each row's caches hold.
    fed: Vec<Vec<u32>>,
    /// The logits of each row after the last step; empty before the first.
    logits: Vec<Vec<f32>>,
    /// Whether a prompt goes on from what its row holds of an earlier one.
    keeps_prefixes: bool,
}

impl Frink {
    /// Feed a prompt to `row`; return the logits after its last token. Tokens that the row already
    /// holds are not computed again, except the last one, whose logits are wanted.
    fn feed(&mut self, row: usize, prompt: &[u32]) -> Vec<f32> {
        let (caches, fed) = (&mut self.caches[row], &mut self.fed[row]);
        let kept = match self.keeps_prefixes {
            true => common(fed, &prompt[..prompt.len() - 1]),
            false => 0,
        };
        for cache in caches.iter_mut() {
            match kept {
                0 => cache.clear(),
                _ => cache.truncate(kept),
            }
        }
        fed.clear();
        fed.extend_from_slice(prompt);
        let rest: Vec<usize> = prompt[kept..].iter().map(|&id| id as usize).collect();
        self.decoder.forward_batch_last(&rest, kept, caches)
    }

    /// Check that the model has an embedding of each id: for another one Frink would panic.
    fn check(&self, ids: &[u32]) -> Result<(), EngineError> {
        protocol::check_ids(ids, self.decoder.embedding.rows())
    }

    fn greedy(&self) -> Vec<u32> {
        self.logits.iter().map(|logits| argmax(logits)).collect()
    }
}

/// Return how many tokens `a` and `b` begin with alike.
fn common(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

impl Engine for Frink {
    fn hello(load: &Load) -> Hello {
        let capabilities = Capabilities {
            prefix_cache: true,
            // Mistral's files don't mention the window, and Frink runs Phi-3 without it.
            position_gap: protocol::window_gap(Path::new(&load.model_dir), "Frink"),
            notes: NOTES.map(str::to_owned).to_vec(),
            ..Capabilities::new(Batching::StaticEqualLength)
        };
        Hello::new("frink", VERSION, capabilities)
    }

    fn load(load: &Load) -> Result<(Self, Loaded), EngineError> {
        if load.backend != "cpu" {
            return Err(EngineError::unsupported(format!(
                "no backend {:?} here; there is cpu",
                load.backend
            )));
        }
        let path = load.weights_path();
        let of_file =
            |error: LoadError| EngineError::new(kind_of(&error), error.to_string()).in_file(&path);
        let file = GgufFile::open(&path).map_err(|error| of_file(error.into()))?;
        check_precision(&file, &load.precision)
            .map_err(|message| EngineError::unsupported(message).in_file(&path))?;

        // As many threads as the runtime named in RAYON_NUM_THREADS.
        frink_core::threads::init_cpu_pool();
        let mut config = ModelConfig::from_gguf(&file).map_err(of_file)?;
        let positions = load.max_context as usize;
        config.apply_runtime_context(positions);
        // f16, as its programs choose; the library alone would keep f32.
        config.kv_dtype = host_kv_dtype_from_env(BudgetBackend::Cpu);
        let decoder = Decoder::from_gguf(&path, config).map_err(of_file)?;
        // As `frink run` does: it brings in the mapped weights, and starts the threads.
        decoder.forward_token(0, 0, &mut decoder.config.new_kv_caches_with_capacity(1));
        let rows = load.max_batch.max(1) as usize;
        let caches: Vec<Vec<KvCache>> = (0..rows)
            .map(|_| decoder.config.new_kv_caches_with_capacity(positions))
            .collect();
        let kv_bytes_of_token =
            |cache: &KvCache| (cache.k_width() + cache.v_width()) * cache.dtype().elem_bytes();
        let loaded = Loaded {
            weight_bytes: weight_bytes(&file),
            kv_bytes_per_token: caches[0].iter().map(kv_bytes_of_token).sum::<usize>() as u64,
            ..Loaded::default()
        };
        let engine = Self {
            decoder,
            fed: vec![Vec::new(); rows],
            caches,
            logits: Vec::new(),
            keeps_prefixes: load.prefix_cache,
        };
        Ok((engine, loaded))
    }

    fn prefill(&mut self, prompts: &[&[u32]]) -> Result<Vec<u32>, EngineError> {
        if prompts.len() > self.caches.len() {
            return Err(EngineError::unsupported(format!(
                "{} rows, and caches of {}",
                prompts.len(),
                self.caches.len()
            )));
        }
        for prompt in prompts {
            self.check(prompt)?;
        }
        let rows = prompts.iter().enumerate();
        self.logits = rows.map(|(row, prompt)| self.feed(row, prompt)).collect();
        Ok(self.greedy())
    }

    fn decode(&mut self, tokens: &[u32]) -> Result<Vec<u32>, EngineError> {
        self.check(tokens)?;
        let rows = tokens.len();
        let ids: Vec<usize> = tokens.iter().map(|&id| id as usize).collect();
        let positions: Vec<usize> = self.fed[..rows].iter().map(Vec::len).collect();
        let caches = &mut self.caches[..rows];
        self.logits = match ids[..] {
            [id] => vec![self.decoder.forward_token(id, positions[0], &mut caches[0])],
            _ => self.decoder.forward_multi_seq(&ids, &positions, caches),
        };
        for (fed, &id) in self.fed.iter_mut().zip(tokens) {
            fed.push(id);
        }
        Ok(self.greedy())
    }

    fn logits(&mut self, row: usize) -> Result<Vec<f32>, EngineError> {
        let logits = self.logits.get(row);
        logits
            .cloned()
            .ok_or_else(|| EngineError::internal(format!("nothing was fed to row {row}")))
    }
}

/// Whether a file can't be read, or is of a model that Frink refuses.
fn kind_of(error: &LoadError) -> FailureKind {
    match error {
        LoadError::UnsupportedDtype(..)
        | LoadError::UnsupportedArchitecture(_)
        | LoadError::DedicatedArchitectureRequired(..)
        | LoadError::UnsupportedFeature(..)
        | LoadError::UnauditedArchitecture(..)
        | LoadError::UnconsumedTensors(..) => FailureKind::Unsupported,
        _ => FailureKind::Internal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::engine::testing::assert_locked;

    #[test]
    fn the_version_is_the_lockfiles() {
        let lock = include_str!("../../../Cargo.lock");
        assert_locked(lock, &["frink-core", "frink-gguf", "frink-models"], VERSION);
    }

    #[test]
    fn what_two_prompts_share_is_their_common_beginning() {
        assert_eq!(common(&[1, 2, 3], &[1, 2, 4]), 2);
        assert_eq!(common(&[1, 2], &[1, 2, 4]), 2);
        assert_eq!(common(&[], &[1]), 0);
    }
}
