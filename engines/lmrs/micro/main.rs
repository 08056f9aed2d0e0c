//! `lmrs-micro`: this engine's attention by itself, for the micro suites: one query
//! after the other against keys and values laid out as in its cache, spread over its
//! own threads, as a prefill does it.

use lmrs_bench::attention::{Attend, KEY_BLOCK};
use lmrs_bench::kernels::Kernels;
use lmrs_bench::pool::{Pool, SharedMut};
use micro_inputs::sdpa::{Inputs, Shape};
use protocol::engine::EngineError;
use protocol::micro::wire::{Hello, Load, Prepare};
use protocol::micro::{Suite, unknown_variant};
use std::process::ExitCode;

fn main() -> ExitCode {
    protocol::micro::main::<Attention>()
}

struct Attention {
    seed: u64,
    kernels: Kernels,
    pool: Pool,
    case: Option<Case>,
}

struct Case {
    shape: Shape,
    q: Vec<f32>,
    /// Of each head [position / 16][padded dimension][16].
    k: Vec<f32>,
    /// Of each head [position][padded dimension].
    v: Vec<f32>,
    /// Of one head.
    cached: usize,
    /// Of each thread.
    scores: Vec<f32>,
    output: Vec<f32>,
}

impl Suite for Attention {
    fn open(load: &Load) -> Result<(Self, Hello), EngineError> {
        if (&*load.variant, &*load.backend, &*load.precision) != ("sdpa", "cpu", "f32") {
            return Err(unknown_variant(load));
        }
        let kernels = Kernels::choose(None).map_err(EngineError::internal)?;
        let pool = Pool::new(load.threads.max(1) as usize).map_err(EngineError::internal)?;
        let hello = Hello {
            version: env!("CARGO_PKG_VERSION").into(),
            notes: vec![format!("instructions: {}", kernels.isa().name())],
            ..Hello::default()
        };
        let attention = Self {
            seed: load.seed,
            kernels,
            pool,
            case: None,
        };
        Ok((attention, hello))
    }

    fn prepare(&mut self, case: &Prepare) -> Result<f64, EngineError> {
        let shape = Shape::of(case)?;
        self.case = Some(Case::new(self.seed, shape, self.pool.threads()));
        Ok(shape.flop())
    }

    fn call(&mut self) -> Result<(), EngineError> {
        let case = self.case.as_mut();
        let case = case.ok_or_else(|| EngineError::internal("no case is prepared"))?;
        case.attend(&self.pool, self.kernels);
        Ok(())
    }

    fn output(&mut self) -> Result<Vec<f64>, EngineError> {
        let case = self.case.as_ref();
        let case = case.ok_or_else(|| EngineError::internal("no case is prepared"))?;
        Ok(case.output.iter().map(|&x| f64::from(x)).collect())
    }
}

impl Case {
    fn new(seed: u64, shape: Shape, threads: usize) -> Self {
        let inputs = Inputs::draw(seed, &shape);
        let (seq, dim) = (shape.seq, shape.dim);
        let padded = dim.next_multiple_of(KEY_BLOCK);
        let room = seq.next_multiple_of(KEY_BLOCK);
        let cached = room * padded;
        let heads = shape.batch * shape.heads;
        let (mut k, mut v) = (vec![0.0; heads * cached], vec![0.0; heads * cached]);
        for head in 0..heads {
            for position in 0..seq {
                let from = (head * seq + position) * dim;
                let block = head * cached + position / KEY_BLOCK * KEY_BLOCK * padded;
                for d in 0..dim {
                    k[block + d * KEY_BLOCK + position % KEY_BLOCK] = inputs.k[from + d];
                    v[head * cached + position * padded + d] = inputs.v[from + d];
                }
            }
        }
        Self {
            shape,
            q: inputs.q,
            k,
            v,
            cached,
            scores: vec![0.0; threads * room],
            output: vec![0.0; shape.values()],
        }
    }

    fn attend(&mut self, pool: &Pool, kernels: Kernels) {
        let Shape {
            seq, dim, causal, ..
        } = self.shape;
        let room = seq.next_multiple_of(KEY_BLOCK);
        let heads = self.shape.batch * self.shape.heads;
        let outputs = SharedMut::new(&mut self.output);
        let scratch = SharedMut::new(&mut self.scores);
        let (q, k, v, cached) = (&self.q, &self.k, &self.v, self.cached);
        pool.run(heads * seq, |worker, task| {
            let (head, position) = (task / seq, task % seq);
            let len = match causal {
                true => position + 1,
                false => seq,
            };
            // SAFETY: tasks write to places of their own, and workers to scratches of
            // their own.
            let (out, scores) = unsafe {
                (
                    outputs.part(task * dim, dim),
                    scratch.part(worker * room, room),
                )
            };
            kernels.attend(Attend {
                q: &q[task * dim..][..dim],
                k: &k[head * cached..][..cached],
                v: &v[head * cached..][..cached],
                len,
                dim,
                scale: 1.0 / (dim as f32).sqrt(),
                scores: &mut scores[..len.next_multiple_of(KEY_BLOCK)],
                out,
            });
        });
    }
}
