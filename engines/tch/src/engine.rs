//! The adapter: it sets device, precision and threads, feeds token ids to the model, and makes the
//! greedy choice on the device that has the logits.

use crate::model::{Model, Place};
use crate::weights::Weights;
use protocol::engine::{Engine, EngineError};
use protocol::wire::{Batching, Capabilities, Hello, Load, Loaded};
use shape::{Computes, Shape};
use std::path::Path;
use tch::{Cuda, Device, Kind, Tensor};

/// Biases of projections are refused, because this engine doesn't add them.
const COMPUTES: Computes = Computes {
    engine: "tch-bench",
    biases: false,
};

/// A loaded model with the state of the current batch.
pub struct Tch {
    model: Model,
    /// Number of tokens fed so far in each row.
    position: i64,
    /// The logits of the last step, rows × vocabulary; `None` before the first.
    logits: Option<Tensor>,
}

impl Tch {
    fn step(&mut self, ids: &[u32], rows: usize) -> Result<Vec<u32>, EngineError> {
        let logits = self.model.forward(ids, rows as i64, self.position)?;
        let chosen = logits
            .f_argmax(-1, false)
            // Copying to the host waits for the GPU to finish.
            .and_then(|chosen| Vec::<i64>::try_from(&chosen))
            .map_err(EngineError::of_library)?;
        self.position += (ids.len() / rows) as i64;
        self.logits = Some(logits);
        Ok(chosen.into_iter().map(|id| id as u32).collect())
    }
}

impl Engine for Tch {
    fn hello(load: &Load) -> Hello {
        let mut notes = vec![
            "our own forward pass over libtorch: fused attention, joined q/k/v and gate/up \
             weights, a key/value cache allocated at load"
                .to_string(),
        ];
        if (load.backend.as_str(), load.precision.as_str()) == ("cpu", "f32") {
            notes.push(
                "f32 products on a processor are left to libtorch's own choice, on x86-64 MKL, \
                 which has no AVX-512 for processors that are not Intel's"
                    .to_string(),
            );
        }
        let capabilities = Capabilities {
            notes,
            ..Capabilities::new(Batching::StaticEqualLength)
        };
        // libtorch does the computation; `tch` only binds it.
        Hello::new("tch", env!("BENCH_LIBTORCH"), capabilities).with_build("tch", TCH_VERSION)
    }

    fn load(load: &Load) -> Result<(Self, Loaded), EngineError> {
        if !load.variant.is_empty() {
            let message = format!("tch has no variant {:?}", load.variant);
            return Err(EngineError::unsupported(message));
        }
        let kind = kind(&load.precision)?;
        let dir = Path::new(&load.model_dir);
        let shape = Shape::read(&dir.join("config.json"), &COMPUTES)?;
        shape.within_window(load.max_context as usize)?;
        let mut weights = Weights::open(dir, &load.weights)?;

        set_threads(load.threads);
        let place = Place {
            device: device(&load.backend, load.device)?,
            kind,
            rows: i64::from(load.max_batch),
            positions: i64::from(load.max_context),
        };
        let kv_bytes = shape.kv_elements() * kind.elt_size_in_bytes();
        let model = Model::load(shape, &mut weights, &place)?;
        if let Device::Cuda(index) = place.device {
            Cuda::synchronize(index as i64);
        }
        let loaded = Loaded {
            weight_bytes: model.weight_bytes(),
            kv_bytes_per_token: kv_bytes as u64,
            ..Loaded::default()
        };
        let engine = Self {
            model,
            position: 0,
            logits: None,
        };
        Ok((engine, loaded))
    }

    fn prefill(&mut self, prompts: &[&[u32]]) -> Result<Vec<u32>, EngineError> {
        // The last batch's memory is freed before this batch allocates.
        self.logits = None;
        self.position = 0;
        self.step(&prompts.concat(), prompts.len())
    }

    fn decode(&mut self, tokens: &[u32]) -> Result<Vec<u32>, EngineError> {
        self.step(tokens, tokens.len())
    }

    fn logits(&mut self, row: usize) -> Result<Vec<f32>, EngineError> {
        let logits = self
            .logits
            .as_ref()
            .ok_or_else(|| EngineError::internal("nothing was fed"))?;
        logits
            .f_get(row as i64)
            .and_then(|row| Vec::try_from(&row))
            .map_err(EngineError::of_library)
    }
}

/// The version of the `tch` crate. A test compares it with the lockfile.
const TCH_VERSION: &str = "0.26.0";

fn kind(precision: &str) -> Result<Kind, EngineError> {
    match precision {
        "f32" => Ok(Kind::Float),
        "f16" => Ok(Kind::Half),
        "bf16" => Ok(Kind::BFloat16),
        other => Err(EngineError::unsupported(format!(
            "tch runs f32, f16 and bf16, not {other}"
        ))),
    }
}

/// Set the threads within an operator, and disable those between operators: operators run one
/// after the other, so a second pool would only use more threads than were asked for.
fn set_threads(threads: u32) {
    tch::set_num_threads(threads as i32);
    // libtorch allows this to be set only once.
    if tch::get_num_interop_threads() != 1 {
        tch::set_num_interop_threads(1);
    }
}

fn device(backend: &str, index: u32) -> Result<Device, EngineError> {
    match backend {
        "cpu" => Ok(Device::Cpu),
        "cuda" => match cuda_devices() {
            Ok(devices) if index < devices => Ok(Device::Cuda(index as usize)),
            Ok(0) => Err(unavailable(index, "libtorch finds none on this machine")),
            Ok(devices) => Err(unavailable(index, &format!("this machine has {devices}"))),
            Err(why) => Err(unavailable(index, &why)),
        },
        other => Err(EngineError::unsupported(format!(
            "tch has no backend {other:?}; there are cpu, cuda"
        ))),
    }
}

fn unavailable(index: u32, why: &str) -> EngineError {
    EngineError::unavailable(format!("no CUDA device {index}: {why}"))
}

/// Count the CUDA devices. libtorch's CUDA library is opened here and not linked, so that CPU
/// targets neither wait for it nor count it as their memory.
fn cuda_devices() -> Result<u32, String> {
    // SAFETY: opening runs the library's initialisers, which register its
    // kernels; they expect nothing of us. It is never closed.
    let library = unsafe {
        libc::dlopen(
            c"libtorch_cuda.so".as_ptr(),
            libc::RTLD_NOW | libc::RTLD_GLOBAL,
        )
    };
    if library.is_null() {
        let libtorch = env!("BENCH_LIBTORCH");
        return Err(format!("libtorch {libtorch} came without libtorch_cuda.so"));
    }
    // The count is an `int` that is never negative.
    Ok(Cuda::device_count().max(0) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::engine::testing::assert_locked;
    use protocol::wire::FailureKind;

    #[test]
    fn the_version_is_the_lockfiles() {
        let lock = include_str!("../Cargo.lock");
        assert_locked(lock, &["tch"], TCH_VERSION);
        assert_ne!(env!("BENCH_LIBTORCH"), "unknown");
    }

    #[test]
    fn a_missing_device_is_unavailable() {
        assert_eq!(device("cpu", 0).unwrap(), Device::Cpu);
        assert_eq!(device("tpu", 0).unwrap_err().kind, FailureKind::Unsupported);
        let error = device("cuda", 99).unwrap_err();
        assert_eq!(error.kind, FailureKind::Unavailable);
        assert!(error.message.starts_with("no CUDA device 99: "));
    }
}
