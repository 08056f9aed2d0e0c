//! `lmrs-micro`: this engine's attention by itself, for the micro suites. As in a prefill, one
//! query after the other attends to keys and values, which each call writes in the layout of the
//! engine's cache, and the work is spread over the engine's own threads.

use lmrs_bench::kernels::Kernels;
use lmrs_bench::kernels::attention::{Attend, KEY_BLOCK};
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
    inputs: Inputs,
    /// The keys of each head, [position / 16][padded dimension][16], rewritten by every call.
    k: Vec<f32>,
    /// The values of each head, [position][padded dimension], rewritten by every call.
    v: Vec<f32>,
    /// Number of elements of `k`, and of `v`, for one head.
    cached: usize,
    /// Scratch memory for the scores of each thread.
    scores: Vec<f32>,
    /// The output of the last call.
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
        let shape = Shape::read(case)?;
        self.case = Some(Case::new(self.seed, shape, self.pool.threads()));
        Ok(shape.flop())
    }

    fn call(&mut self) -> Result<(), EngineError> {
        let case = self.case.as_mut();
        let case = case.ok_or_else(|| EngineError::internal("no case is prepared"))?;
        case.store(&self.pool);
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
        let padded = shape.dim.next_multiple_of(KEY_BLOCK);
        let room = shape.seq.next_multiple_of(KEY_BLOCK);
        let cached = room * padded;
        let heads = shape.batch * shape.heads;
        Self {
            shape,
            inputs: Inputs::draw(seed, &shape),
            // Made here and not per call, since a real cache is allocated once for all prompts.
            k: vec![0.0; heads * cached],
            v: vec![0.0; heads * cached],
            cached,
            scores: vec![0.0; threads * room],
            output: Vec::new(),
        }
    }

    /// Write keys and values in the cache's layout, with one block of positions per task.
    fn store(&mut self, pool: &Pool) {
        let Shape { seq, dim, .. } = self.shape;
        let padded = dim.next_multiple_of(KEY_BLOCK);
        let block = KEY_BLOCK * padded;
        let blocks = self.cached / block; // of one head
        let heads = self.shape.batch * self.shape.heads;
        let (inputs, cached) = (&self.inputs, self.cached);
        let keys = SharedMut::new(&mut self.k);
        let values = SharedMut::new(&mut self.v);
        pool.run(heads * blocks, |_, task| {
            let (head, index) = (task / blocks, task % blocks);
            let at = head * cached + index * block;
            // SAFETY: tasks write to blocks of their own.
            let (k, v) = unsafe { (keys.part(at, block), values.part(at, block)) };
            let first = index * KEY_BLOCK;
            for position in first..seq.min(first + KEY_BLOCK) {
                let from = (head * seq + position) * dim;
                let lane = position - first;
                v[lane * padded..][..dim].copy_from_slice(&inputs.v[from..][..dim]);
                for (column, &key) in k.chunks_exact_mut(KEY_BLOCK).zip(&inputs.k[from..][..dim]) {
                    column[lane] = key;
                }
            }
        });
    }

    fn attend(&mut self, pool: &Pool, kernels: Kernels) {
        let Shape {
            seq, dim, causal, ..
        } = self.shape;
        let room = seq.next_multiple_of(KEY_BLOCK);
        let heads = self.shape.batch * self.shape.heads;
        // Allocated in every call, as every other variant's output is.
        self.output = vec![0.0; self.shape.values()];
        let outputs = SharedMut::new(&mut self.output);
        let scratch = SharedMut::new(&mut self.scores);
        let (q, k, v, cached) = (&self.inputs.q, &self.k, &self.v, self.cached);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The test has two heads of 24 over 20 positions, neither of which is a multiple of a block.
    #[test]
    fn every_call_lays_out_its_inputs_and_gives_a_new_output() {
        let shape = Shape {
            batch: 1,
            heads: 2,
            seq: 20,
            dim: 24,
            causal: true,
        };
        let params = [("batch", 1), ("heads", 2), ("seq", 20), ("dim", 24)];
        let params = params.iter().chain([&("causal", 1)]);
        let case = Prepare {
            case: "small".into(),
            params: params.map(|&(k, v)| (k.to_owned(), v)).collect(),
        };
        let load = Load {
            suite: "sdpa".into(),
            variant: "sdpa".into(),
            backend: "cpu".into(),
            precision: "f32".into(),
            threads: 2,
            model_dir: String::new(),
            seed: 5,
        };
        let (mut attention, _) = Attention::open(&load).expect("it runs everywhere");
        attention.prepare(&case).expect("the case is whole");
        let made = attention.case.as_mut().expect("it was prepared");
        assert!(made.output.is_empty() && made.k.iter().all(|k| *k == 0.0));
        attention.call().expect("it can be called");
        let values = attention.output().expect("it was called");
        let expected = micro_inputs::reference::sdpa(&Inputs::draw(5, &shape), &shape);
        for (value, expected) in values.iter().zip(expected) {
            assert!((value - expected).abs() < 1e-5, "{value} {expected}");
        }
    }
}
