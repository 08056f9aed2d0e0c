//! Pieces of this engine for the micro suites: attention, and a small GPT's forward pass, on any
//! backend. They consist of plain operations of Burn's public interface, as a team would write
//! them, and one kernel of this project for comparison.

#[cfg(feature = "cube")]
pub mod flash;
mod gpt;
mod sdpa;

use crate::backend::Backend;
use crate::caught::caught;
use burn::tensor::Tensor;
use gpt::Gpt;
use micro_inputs::gpt::GptConfig;
use micro_inputs::sdpa::Shape;
use protocol::engine::EngineError;
use protocol::micro::wire::{Hello, Load, Prepare};
use protocol::micro::{Suite, unknown_variant};
use sdpa::Attention;

/// One piece, on one backend.
pub struct Micro {
    backend: Backend,
    seed: u64,
    kind: Kind,
    work: Option<Work>,
    /// The output of the last call, flattened.
    output: Option<Tensor<1>>,
}

#[derive(Clone, Copy)]
enum Kind {
    /// Attention composed of plain operations.
    Composed,
    /// Burn's own attention operation, for which a backend may have a kernel.
    Fused,
    /// Attention by this project's kernel.
    #[cfg(feature = "cube")]
    Flash,
    /// A forward pass of the small GPT.
    Gpt,
}

impl Kind {
    /// Return the number of threads for a single product of ndarray. Attention is a batch of
    /// products, which has threads already; a linear layer of the GPT is a single product.
    fn product_threads(self, threads: u32) -> u32 {
        match self {
            Kind::Gpt => threads,
            _ => 1,
        }
    }
}

enum Work {
    Attention(Box<Attention>),
    Gpt(Box<Gpt>),
}

impl Suite for Micro {
    fn open(load: &Load) -> Result<(Self, Hello), EngineError> {
        let seed = load.seed;
        let kind = match load.variant.as_str() {
            "composed" => Kind::Composed,
            "fused" => Kind::Fused,
            #[cfg(feature = "cube")]
            "flash" => Kind::Flash,
            "gpt" => Kind::Gpt,
            _ => return Err(unknown_variant(load)),
        };
        // Without the cache, the first call includes all tuning, also what an earlier process
        // tuned before. Shaders that a driver keeps, as Mesa does, are still missing from it.
        // SAFETY: as in the runtime: no thread that reads the environment runs.
        unsafe { std::env::set_var("CUBECL_AUTOTUNE_CACHE", "0") };
        let load = protocol::wire::Load {
            model_dir: load.model_dir.clone(),
            precision: load.precision.clone(),
            backend: load.backend.clone(),
            threads: load.threads,
            ..Default::default()
        };
        let backend = Backend::open(&load, kind.product_threads(load.threads))?;
        #[cfg(feature = "cube")]
        if matches!(kind, Kind::Flash) && backend.kind != crate::backend::Kind::Cube {
            return Err(EngineError::unsupported(format!(
                "the kernel of our own on {}: it is written in CubeCL, and runs on its backends",
                load.backend
            )));
        }
        let micro = Self {
            backend,
            seed,
            kind,
            work: None,
            output: None,
        };
        Ok((micro, Hello::of(crate::engine::VERSION)))
    }

    fn prepare(&mut self, case: &Prepare) -> Result<f64, EngineError> {
        self.work = None;
        self.output = None;
        let (work, amount) = match self.kind {
            Kind::Gpt => {
                let config = GptConfig::read(case)?;
                let gpt = Gpt::new(self.seed, config, &self.backend);
                (Work::Gpt(Box::new(gpt)), config.tokens() as f64)
            }
            _ => {
                let shape = Shape::read(case)?;
                #[cfg(feature = "cube")]
                if matches!(self.kind, Kind::Flash) {
                    flash::check(shape.dim).map_err(EngineError::unsupported)?;
                }
                let attention = Attention::new(self.seed, shape, &self.backend);
                (Work::Attention(Box::new(attention)), shape.flop())
            }
        };
        self.work = Some(work);
        // Uploads still in progress would count in the first call's time.
        self.sync()?;
        Ok(amount)
    }

    fn call(&mut self) -> Result<(), EngineError> {
        let work = self.work.as_ref();
        let work = work.ok_or_else(|| EngineError::internal("no case is prepared"))?;
        let output = match (work, self.kind) {
            (Work::Attention(attention), Kind::Fused) => attention.fused(),
            #[cfg(feature = "cube")]
            (Work::Attention(attention), Kind::Flash) => attention.flash(),
            (Work::Attention(attention), _) => attention.composed(),
            (Work::Gpt(gpt), _) => gpt.forward(),
        };
        self.output = Some(output);
        // Some backends compute asynchronously; the call ends when the result is computed.
        self.sync()
    }

    fn output(&mut self) -> Result<Vec<f64>, EngineError> {
        let output = self.output.clone();
        let output = output.ok_or_else(|| EngineError::internal("nothing was called"))?;
        let values = caught(|| output.try_into_vec_as::<f32>()).map_err(EngineError::internal)?;
        let values = values.map_err(EngineError::internal)?;
        Ok(values.into_iter().map(f64::from).collect())
    }
}

impl Micro {
    /// Wait until the device has done all work.
    fn sync(&self) -> Result<(), EngineError> {
        self.backend.device.sync().map_err(EngineError::internal)
    }
}

#[cfg(test)]
mod tests {
    use super::Kind;

    #[test]
    fn only_a_single_product_has_threads_of_its_own() {
        assert_eq!(Kind::Gpt.product_threads(6), 6);
        assert_eq!(Kind::Composed.product_threads(6), 1);
        assert_eq!(Kind::Fused.product_threads(6), 1);
    }
}
