//! `tch-micro`: runs libtorch's scaled dot-product attention by itself, called from Rust, for the
//! micro suites.

use micro_inputs::sdpa::{Inputs, Shape};
use protocol::engine::EngineError;
use protocol::micro::wire::{Hello, Load, Prepare};
use protocol::micro::{Suite, unknown_variant};
use std::process::ExitCode;
use tch::{Kind, Tensor};

fn main() -> ExitCode {
    protocol::micro::main::<Attention>()
}

struct Attention {
    seed: u64,
    kind: Kind,
    case: Option<(Shape, [Tensor; 3])>,
    output: Option<Tensor>,
}

impl Suite for Attention {
    fn open(load: &Load) -> Result<(Self, Hello), EngineError> {
        let kind = match (&*load.variant, &*load.backend, &*load.precision) {
            ("sdpa", "cpu", "f32") => Kind::Float,
            ("sdpa", "cpu", "f16") => Kind::Half,
            _ => return Err(unknown_variant(load)),
        };
        tch::set_num_threads(load.threads as i32);
        tch::set_num_interop_threads(1);
        let attention = Self {
            seed: load.seed,
            kind,
            case: None,
            output: None,
        };
        Ok((attention, Hello::of(env!("BENCH_LIBTORCH"))))
    }

    fn prepare(&mut self, case: &Prepare) -> Result<f64, EngineError> {
        let shape = Shape::read(case)?;
        let inputs = Inputs::draw(self.seed, &shape);
        let dims = shape.dims().map(|n| n as i64);
        let upload = |values: &[f32]| {
            let flat = Tensor::f_from_slice(values)?;
            flat.f_reshape(dims)?.f_to_kind(self.kind)
        };
        let upload = |values: &[f32]| upload(values).map_err(EngineError::internal);
        self.output = None;
        self.case = Some((
            shape,
            [upload(&inputs.q)?, upload(&inputs.k)?, upload(&inputs.v)?],
        ));
        Ok(shape.flop())
    }

    fn call(&mut self) -> Result<(), EngineError> {
        let case = self.case.as_ref();
        let (shape, [q, k, v]) = case.ok_or_else(|| EngineError::internal("no case"))?;
        let mask = None::<&Tensor>;
        let output = tch::no_grad(|| {
            Tensor::f_scaled_dot_product_attention(q, k, v, mask, 0.0, shape.causal, None, false)
        });
        self.output = Some(output.map_err(EngineError::internal)?);
        Ok(())
    }

    fn output(&mut self) -> Result<Vec<f64>, EngineError> {
        let output = self.output.as_ref();
        let output = output.ok_or_else(|| EngineError::internal("nothing was called"))?;
        let flat = output
            .f_to_kind(Kind::Double)
            .and_then(|o| o.f_flatten(0, -1));
        flat.and_then(|o| Vec::try_from(&o))
            .map_err(EngineError::internal)
    }
}
