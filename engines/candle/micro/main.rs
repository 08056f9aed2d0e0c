//! `candle-micro`: Candle's attention by itself, for the micro suites. One variant is composed of
//! the operations that candle-transformers' Llama uses, the other is candle-nn's flash attention
//! for processors.

use candle_core::{DType, Device, Tensor};
use candle_nn::attention::{AttnMask, flash_attn};
use micro_inputs::sdpa::{Inputs, Shape};
use protocol::engine::EngineError;
use protocol::micro::wire::{Hello, Load, Prepare};
use protocol::micro::{Suite, unknown_variant};
use std::process::ExitCode;

/// The version of candle-core and candle-nn, the same as the engine's.
const VERSION: &str = "0.11.1";

fn main() -> ExitCode {
    // As in the engine: Candle would prefer this variable to the number that the harness asked
    // for.
    // SAFETY: nothing else runs yet.
    unsafe { std::env::remove_var("CANDLE_NUM_THREADS") };
    protocol::micro::main::<Attention>()
}

struct Attention {
    seed: u64,
    dtype: DType,
    is_fused: bool,
    case: Option<Case>,
    output: Option<Tensor>,
}

struct Case {
    shape: Shape,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    /// The causal mask, 1 × 1 × positions × positions, 1 where hidden; and the score to put there.
    hidden: Option<(Tensor, Tensor)>,
}

impl Suite for Attention {
    fn open(load: &Load) -> Result<(Self, Hello), EngineError> {
        let dtype = match (load.backend.as_str(), load.precision.as_str()) {
            ("cpu", "f32") => DType::F32,
            ("cpu", "f16") => DType::F16,
            _ => return Err(unknown_variant(load)),
        };
        let is_fused = match load.variant.as_str() {
            "composed" => false,
            "fused" => true,
            _ => return Err(unknown_variant(load)),
        };
        let attention = Self {
            seed: load.seed,
            dtype,
            is_fused,
            case: None,
            output: None,
        };
        Ok((attention, Hello::of(VERSION)))
    }

    fn prepare(&mut self, case: &Prepare) -> Result<f64, EngineError> {
        let shape = Shape::read(case)?;
        self.output = None;
        self.case = Some(self.case(shape).map_err(EngineError::internal)?);
        Ok(shape.flop())
    }

    fn call(&mut self) -> Result<(), EngineError> {
        let case = self.case.as_ref();
        let case = case.ok_or_else(|| EngineError::internal("no case is prepared"))?;
        let output = match (self.is_fused, self.dtype) {
            (false, _) => case.composed(),
            (true, DType::F16) => case.fused::<half::f16>(),
            (true, _) => case.fused::<f32>(),
        };
        self.output = Some(output.map_err(EngineError::internal)?);
        Ok(())
    }

    fn output(&mut self) -> Result<Vec<f64>, EngineError> {
        let output = self.output.as_ref();
        let output = output.ok_or_else(|| EngineError::internal("nothing was called"))?;
        let flat = output.to_dtype(DType::F64).and_then(|o| o.flatten_all());
        flat.and_then(|o| o.to_vec1())
            .map_err(EngineError::internal)
    }
}

impl Attention {
    fn case(&self, shape: Shape) -> candle_core::Result<Case> {
        let device = Device::Cpu;
        let inputs = Inputs::draw(self.seed, &shape);
        let upload = |values: Vec<f32>| -> candle_core::Result<Tensor> {
            let all = Tensor::from_vec(values, &shape.dims()[..], &device)?;
            all.to_dtype(self.dtype)
        };
        let hidden = match shape.causal && !self.is_fused {
            true => {
                let seq = shape.seq;
                let mask: Vec<u8> = (0..seq)
                    .flat_map(|i| (0..seq).map(move |j| u8::from(j > i)))
                    .collect();
                let mask = Tensor::from_vec(mask, (1, 1, seq, seq), &device)?;
                let lowest = Tensor::new(f32::NEG_INFINITY, &device)?.to_dtype(self.dtype)?;
                Some((mask, lowest))
            }
            false => None,
        };
        Ok(Case {
            shape,
            q: upload(inputs.q)?,
            k: upload(inputs.k)?,
            v: upload(inputs.v)?,
            hidden,
        })
    }
}

impl Case {
    /// Compute attention with the same operations as candle-transformers' Llama.
    fn composed(&self) -> candle_core::Result<Tensor> {
        let scores = (self.q.matmul(&self.k.t()?)? * self.shape.scale())?;
        let scores = match &self.hidden {
            None => scores,
            Some((mask, lowest)) => {
                let mask = mask.broadcast_as(scores.shape())?;
                let lowest = lowest.broadcast_as(scores.shape())?;
                mask.where_cond(&lowest, &scores)?
            }
        };
        let shares = candle_nn::ops::softmax_last_dim(&scores)?;
        shares.matmul(&self.v.contiguous()?)
    }

    fn fused<T>(&self) -> candle_core::Result<Tensor>
    where
        T: candle_core::WithDType + num_traits::Float,
    {
        let mask = match self.shape.causal {
            true => AttnMask::causal(),
            false => AttnMask::None,
        };
        let scale = self.shape.scale() as f32;
        // It expects batch × positions × heads × dimension, and copies inputs of another layout.
        // The copies are part of its time, as those of every other variant are.
        let turned = |all: &Tensor| all.transpose(1, 2);
        let (q, k, v) = (turned(&self.q)?, turned(&self.k)?, turned(&self.v)?);
        flash_attn::<T>(&q, &k, &v, scale, mask, None, None)
    }
}
