//! The adapter: it converts the weights to an LMRS file on first use, and feeds token ids to
//! `Transformer`.

use crate::config::{self, Config};
use crate::convert::{Storage, convert};
use memmap2::Mmap;
use protocol::engine::{Engine, EngineError};
use protocol::wire::{Batching, Capabilities, Hello, Load, Loaded};
use std::fs::File;
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;
use upstream::transformer::Transformer;

/// The date and revision of the commit in `Cargo.toml`.
const VERSION: &str = "2024-10-19 aa6db5c";
/// Largest number of positions: lm.rs caps every context at this.
const POSITIONS_MAX: u32 = 8192;

/// A loaded model with the state of its sequence.
pub struct Upstream {
    /// Never dropped: its destructor frees memory that was not allocated in the matching way.
    model: ManuallyDrop<Transformer<'static>>,
    position: u32,
    logits: Vec<f32>,
}

impl Upstream {
    fn step(&mut self, token: u32) -> u32 {
        let logits = self.model.forward(token, self.position);
        self.position += 1;
        self.logits.copy_from_slice(logits);
        protocol::argmax(logits)
    }
}

impl Engine for Upstream {
    fn hello(load: &Load) -> Hello {
        // If the config can't be read, `load` reports why.
        let config = config::read(Path::new(&load.model_dir)).ok();
        let capabilities = Capabilities {
            position_gap: config.and_then(|config| config.position_gap),
            notes: vec![
                "Its int8 has groups of 128 weights with an f32 scale, written by us in its LMRS format; the first load includes the conversion.".to_string(),
                "Prompts go through fill_kv_cache, which its own chat uses for pictures only; text there goes one token at a time.".to_string(),
            ],
            ..Capabilities::new(Batching::None)
        };
        Hello::new("lmrs-upstream", VERSION, capabilities).with_build("features", "")
    }

    fn load(load: &Load) -> Result<(Self, Loaded), EngineError> {
        if load.backend != "cpu" {
            let message = format!("no backend {:?}; there is cpu", load.backend);
            return Err(EngineError::unsupported(message));
        }
        let model_dir = Path::new(&load.model_dir);
        let config = config::read(model_dir).map_err(EngineError::unsupported)?;
        let storage = Storage::new(&load.precision, config.hidden_size).ok_or_else(|| {
            let message = format!("no precision {:?}; there are f32, q8_0", load.precision);
            EngineError::unsupported(message)
        })?;
        let most = POSITIONS_MAX.min(config.max_position);
        if load.max_context > most {
            let message = format!("it has {most} positions at most");
            return Err(EngineError::unsupported(message));
        }
        let sources = protocol::only_safetensors(model_dir, &load.weights)?;
        let make = |path: &Path| convert(&sources, &config, storage, path);
        let path =
            lmrs_file(model_dir, &sources, &load.precision, make).map_err(EngineError::internal)?;
        let in_file = |error: std::io::Error| EngineError::internal(error).in_file(&path);
        let file = File::open(&path).map_err(in_file)?;
        // SAFETY: written whole before it got its name, and never again.
        let map = unsafe { Mmap::map(&file) }.map_err(in_file)?;
        let (model, _) = Transformer::new(Box::leak(Box::new(map)));
        let engine = Self {
            logits: vec![0.0; config.vocab_size as usize],
            model: ManuallyDrop::new(model),
            position: 0,
        };
        Ok((engine, loaded(&config, storage)))
    }

    fn prefill(&mut self, prompts: &[&[u32]]) -> Result<Vec<u32>, EngineError> {
        self.position = 0;
        let [prompt] = prompts else {
            return Err(EngineError::unsupported("one request at a time"));
        };
        let Some((last, before)) = prompt.split_last() else {
            return Err(EngineError::bad_request("the prompt is empty"));
        };
        if !before.is_empty() {
            let mut embeddings = self.model.get_embeddings(before);
            self.position = self.model.fill_kv_cache(&mut embeddings, 0);
        }
        Ok(vec![self.step(*last)])
    }

    fn decode(&mut self, tokens: &[u32]) -> Result<Vec<u32>, EngineError> {
        Ok(vec![self.step(tokens[0])])
    }

    fn logits(&mut self, _row: usize) -> Result<Vec<f32>, EngineError> {
        Ok(self.logits.clone())
    }
}

/// Return the LMRS file of the weights, which is made beside them if it doesn't exist. Its name
/// contains the weights' size and modification time, so that new weights get a new file.
fn lmrs_file(
    model_dir: &Path,
    sources: &[PathBuf],
    precision: &str,
    make: impl FnOnce(&Path) -> Result<(), String>,
) -> Result<PathBuf, String> {
    let (mut bytes, mut changed_ns) = (0, 0);
    for source in sources {
        let meta = std::fs::metadata(source).map_err(|e| format!("{}: {e}", source.display()))?;
        let changed = meta.modified().ok();
        let changed = changed.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        bytes += meta.len();
        changed_ns = changed_ns.max(changed.map_or(0, |since| since.as_nanos()));
    }
    let path = model_dir.join(format!("model-{precision}-{bytes:x}-{changed_ns:x}.lmrs"));
    if !path.exists() {
        make(&path)?;
    }
    Ok(path)
}

fn loaded(config: &Config, storage: Storage) -> Loaded {
    let (hidden, layers) = (u64::from(config.hidden_size), u64::from(config.layers));
    let q = u64::from(config.heads * config.head_dim);
    let kv = u64::from(config.kv_heads * config.head_dim);
    let layer = 2 * hidden * q + 2 * hidden * kv + 3 * hidden * u64::from(config.intermediate_size);
    let matrices = layers * layer + hidden * u64::from(config.vocab_size);
    let norms = (2 * layers + 1) * hidden;
    Loaded {
        weight_bytes: storage.bytes(matrices) + 4 * norms,
        kv_bytes_per_token: 2 * 4 * layers * kv,
        ..Loaded::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_weights_get_a_new_file_and_old_ones_none() {
        let dir = tempfile::tempdir().unwrap();
        let sources = ["1.safetensors", "2.safetensors"].map(|name| dir.path().join(name));
        for source in &sources {
            std::fs::write(source, "one").unwrap();
        }
        let make = |path: &Path| std::fs::write(path, "x").map_err(|e| e.to_string());
        let of = |make: &dyn Fn(&Path) -> Result<(), String>| {
            lmrs_file(dir.path(), &sources, "q8_0", make).unwrap()
        };
        let first = of(&make);
        assert_eq!(of(&|_| Err("made twice".to_string())), first);
        std::fs::write(&sources[1], "other").unwrap();
        assert_ne!(of(&make), first);
    }

    #[test]
    fn the_version_is_the_lockfiles() {
        let lock = include_str!("../Cargo.lock");
        let revision = VERSION.split(' ').next_back().unwrap();
        assert!(lock.contains(&format!("#{revision}")));
    }
}
