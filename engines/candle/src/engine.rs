//! The adapter: it chooses the device, feeds token ids and returns greedy ids. Only the modules
//! below know which file format the model came from.

use crate::model::Model;
use crate::{gguf, safetensors};
use candle_core::{D, Device, Tensor};
use protocol::engine::{Engine, EngineError};
use protocol::panicked::catching;
use protocol::wire::{Batching, Capabilities, Hello, Load, Loaded};

/// The version of candle-core, candle-nn and candle-transformers, which are released together. A
/// test compares it with the lockfile.
const VERSION: &str = "0.11.1";

/// A loaded model of Candle's on its device.
pub struct Candle {
    model: Box<dyn Model>,
    device: Device,
    /// Number of tokens fed so far in each row.
    position: usize,
    /// The logits of the last step, rows × vocabulary; `None` before the first.
    logits: Option<Tensor>,
}

impl Candle {
    fn step(&mut self, ids: Vec<u32>, rows: usize) -> Result<Vec<u32>, EngineError> {
        let tokens = ids.len() / rows;
        let end = self.position + tokens;
        if end > self.model.positions() {
            return Err(EngineError::unsupported(format!(
                "position {end} is beyond the {} of Candle's RoPE table",
                self.model.positions()
            )));
        }
        let forward = || -> candle_core::Result<_> {
            let ids = Tensor::from_vec(ids, (rows, tokens), &self.device)?;
            let logits = self.model.forward(&ids, self.position)?;
            // Copying to the host waits for the GPU to finish.
            let next = logits.argmax(D::Minus1)?.to_vec1::<u32>()?;
            Ok((logits, next))
        };
        let (logits, next) = forward().map_err(EngineError::of_library)?;
        self.position = end;
        self.logits = Some(logits);
        Ok(next)
    }
}

impl Engine for Candle {
    fn hello(load: &Load) -> Hello {
        let mut capabilities = Capabilities::new(Batching::StaticEqualLength);
        if load.is_gguf() {
            gguf::describe(load, &mut capabilities);
        } else {
            safetensors::describe(load, &mut capabilities);
        }
        if load.backend == "cuda" {
            let note = "cudarc's event tracking is on, as it is by default and in Candle's example \
                        llama: each allocation on the GPU makes two CUDA events. Candle's example \
                        llama2-c and mistral.rs turn it off.";
            capabilities.notes.push(note.to_string());
        }
        let features = protocol::features!("cuda" "cudnn" "flash-attn" "mkl" "metal");
        Hello::new("candle", VERSION, capabilities).with_build("features", features)
    }

    fn backends_by_hand() -> &'static [&'static str] {
        if cfg!(feature = "cuda") {
            &["cuda", "cpu"]
        } else if cfg!(feature = "metal") {
            &["metal", "cpu"]
        } else {
            &["cpu"]
        }
    }

    fn load(load: &Load) -> Result<(Self, Loaded), EngineError> {
        let device = device(&load.backend, load.device as usize)?;
        let (model, loaded) = if load.is_gguf() {
            gguf::load(load, &device)?
        } else {
            safetensors::load(load, &device)?
        };
        device.synchronize().map_err(EngineError::of_library)?;
        let engine = Self {
            model,
            device,
            position: 0,
            logits: None,
        };
        Ok((engine, loaded))
    }

    fn prefill(&mut self, prompts: &[&[u32]]) -> Result<Vec<u32>, EngineError> {
        self.model.forget();
        self.position = 0;
        self.step(prompts.concat(), prompts.len())
    }

    fn decode(&mut self, tokens: &[u32]) -> Result<Vec<u32>, EngineError> {
        self.step(tokens.to_vec(), tokens.len())
    }

    fn logits(&mut self, row: usize) -> Result<Vec<f32>, EngineError> {
        let logits = self
            .logits
            .as_ref()
            .ok_or_else(|| EngineError::internal("nothing was fed"))?;
        logits
            .get(row)
            .and_then(|row| row.to_vec1())
            .map_err(EngineError::of_library)
    }
}

fn device(backend: &str, index: usize) -> Result<Device, EngineError> {
    let absent = |name: &'static str| {
        move |why: String| EngineError::unavailable(format!("no {name} device {index}: {why}"))
    };
    match backend {
        "cpu" => Ok(Device::Cpu),
        "cuda" if !cfg!(feature = "cuda") => Err(EngineError::unavailable(
            "this candle-bench was built without its `cuda` feature; \
             `cargo xtask build --cuda` builds it with that",
        )),
        "metal" if !cfg!(feature = "metal") => Err(EngineError::unavailable(
            "this candle-bench was built without its `metal` feature",
        )),
        // Without a driver, the CUDA bindings panic instead of returning an error.
        "cuda" => catching(|| Device::new_cuda(index)).map_err(absent("CUDA")),
        "metal" => catching(|| Device::new_metal(index)).map_err(absent("Metal")),
        other => Err(EngineError::unsupported(format!(
            "no backend {other:?}; there are cpu, cuda, metal"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::engine::testing::assert_locked;
    use protocol::wire::FailureKind;

    #[test]
    fn the_version_is_the_lockfiles() {
        let lock = include_str!("../../../Cargo.lock");
        let packages = ["candle-core", "candle-nn", "candle-transformers"];
        assert_locked(lock, &packages, VERSION);
    }

    #[test]
    fn a_missing_device_is_unavailable() {
        assert!(device("cpu", 0).is_ok());
        assert_eq!(device("tpu", 0).unwrap_err().kind, FailureKind::Unsupported);
        if !cfg!(feature = "cuda") {
            assert_eq!(
                device("cuda", 0).unwrap_err().kind,
                FailureKind::Unavailable
            );
        }
    }
}
