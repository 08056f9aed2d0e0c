//! The adapter: it takes token ids, returns greedy ids, and describes the chosen backend in
//! `hello`.

use crate::backend::{self, Backend, Kind};
use crate::captured::Captured;
use crate::caught::caught;
use crate::model::Llama;
use crate::weights::Files;
use burn::tensor::Tensor;
use protocol::engine::{Engine, EngineError};
use protocol::wire::{Batching, Capabilities, Hello, Load, Loaded};
use shape::{Computes, Shape};
use std::path::Path;

/// The version of Burn. A test compares it with the lockfile.
pub const VERSION: &str = "0.22.1";

const COMPUTES: Computes = Computes {
    engine: "burn-bench",
    biases: true,
};

/// The name of the variant that records the decode steps of one row.
const GRAPH: &str = "graph";

/// A loaded model with its limits.
pub struct Burn {
    llama: Llama,
    /// The recorded decode steps for a batch of one row, in the variant `graph`.
    captured: Option<Captured>,
    vocabulary: usize,
    max_batch: usize,
    max_context: usize,
    /// Number of tokens fed so far in each row.
    position: usize,
    /// The logits of the last step, rows × vocabulary; `None` before the first.
    logits: Option<Tensor<2>>,
}

impl Burn {
    fn step(&mut self, ids: &[u32], rows: usize) -> Result<Vec<u32>, EngineError> {
        let end = self.position + ids.len() / rows.max(1);
        if rows == 0 || rows > self.max_batch || end > self.max_context {
            return Err(EngineError::unsupported(format!(
                "{rows} rows of {end} tokens; loaded for {} rows of {}",
                self.max_batch, self.max_context
            )));
        }
        // On a GPU, an index outside the table would read arbitrary memory.
        protocol::check_ids(ids, self.vocabulary)?;
        let forward = || {
            let (logits, next) = match (&mut self.captured, ids) {
                (Some(one), ids) if rows == 1 && self.position == 0 => one.prefill(ids),
                (Some(one), [id]) if rows == 1 => one.decode(*id, self.position),
                _ => {
                    let logits = self.llama.forward(ids, rows, self.position);
                    let next = logits.clone().argmax(1);
                    (logits, next)
                }
            };
            // Reading the few ids back waits for the GPU to finish.
            (logits, next.try_into_vec_as::<i64>())
        };
        let (logits, next) = caught(forward).map_err(EngineError::of_library)?;
        let next = next.map_err(EngineError::of_library)?;
        self.position = end;
        self.logits = Some(logits);
        Ok(next.into_iter().map(|id| id as u32).collect())
    }

    /// Compile and tune the kernels that requests will need, because that time belongs to loading.
    /// The key of autotuning has lengths rounded to powers of two.
    fn warm_up(&mut self, kind: Kind) -> Result<(), EngineError> {
        let longest = self.max_context.saturating_sub(1).max(1);
        let lengths: Vec<usize> = match kind {
            Kind::Cube => (3..).map(|n| 1 << n).take_while(|n| *n < longest).collect(),
            _ => Vec::new(),
        };
        let row_counts = match self.max_batch {
            1 => vec![1],
            most => vec![1, most],
        };
        for rows in row_counts {
            for &length in lengths.iter().chain([&longest.min(8)]) {
                self.position = 0;
                self.step(&vec![0; rows * length], rows)?;
                if length < self.max_context {
                    self.step(&vec![0; rows], rows)?;
                }
            }
        }
        self.record()?;
        self.position = 0;
        self.logits = None;
        Ok(())
    }

    /// Record a decode step for each number of visible positions.
    fn record(&mut self) -> Result<(), EngineError> {
        let Some(one) = &mut self.captured else {
            return Ok(());
        };
        let windows = || {
            let mut last = 0;
            for position in 0..self.max_context {
                let visible = self.llama.visible_at(position);
                if visible != last {
                    one.decode(0, position);
                    last = visible;
                }
            }
        };
        caught(windows).map_err(EngineError::of_library)
    }
}

impl Engine for Burn {
    fn hello(load: &Load) -> Hello {
        let features = protocol::features!(
            "flex" "x86-v4" "ndarray" "wgpu" "vulkan" "cuda" "metal" "cpu" "tch"
        );
        let capabilities = Capabilities {
            notes: notes(load),
            ..Capabilities::new(Batching::StaticEqualLength)
        };
        Hello::new("burn", VERSION, capabilities).with_build("features", features)
    }

    fn backends_by_hand() -> &'static [&'static str] {
        backend::BUILT
    }

    fn load(load: &Load) -> Result<(Self, Loaded), EngineError> {
        let dir = Path::new(&load.model_dir);
        let config = Shape::read(&dir.join("config.json"), &COMPUTES)?;
        let (max_batch, max_context) = (load.max_batch.max(1) as usize, load.max_context as usize);
        config.within_window(max_context)?;
        // In every variant the weights are cut into a batch of products, see `linear`.
        if !["", GRAPH].contains(&load.variant.as_str()) {
            return Err(EngineError::unsupported(format!(
                "no variant {:?}; there is {GRAPH}",
                load.variant
            )));
        }
        let backend = Backend::open(load, 1)?;
        let files = Files::map(dir, &load.weights)?;
        let tensors = files.tensors()?;
        let element = backend.dtype.size() as u64;
        let loaded = Loaded {
            weight_bytes: weights_read(&config) * element,
            kv_bytes_per_token: config.kv_elements() as u64 * element,
            ..Loaded::default()
        };
        let vocabulary = config.vocabulary;
        let llama = caught(|| Llama::load(config, &tensors, &backend, max_context, max_batch))
            .map_err(EngineError::of_library)??;
        let captured = (load.variant == GRAPH).then(|| Captured::new(&llama, &backend.device));
        let mut engine = Self {
            llama,
            captured,
            vocabulary,
            max_batch,
            max_context,
            position: 0,
            logits: None,
        };
        engine.warm_up(backend.kind)?;
        let is_plain = engine
            .captured
            .as_ref()
            .is_some_and(|one| !one.is_recorded());
        if is_plain && backend.kind == Kind::Cube {
            return Err(EngineError::internal(
                "Burn recorded no graph of a decode step on this device: the variant graph would be \
                 the plain one",
            ));
        }
        Ok((engine, loaded))
    }

    fn prefill(&mut self, prompts: &[&[u32]]) -> Result<Vec<u32>, EngineError> {
        self.position = 0;
        self.step(&prompts.concat(), prompts.len())
    }

    fn decode(&mut self, tokens: &[u32]) -> Result<Vec<u32>, EngineError> {
        self.step(tokens, tokens.len())
    }

    fn logits(&mut self, row: usize) -> Result<Vec<f32>, EngineError> {
        let logits = self.logits.as_ref();
        let logits = logits.ok_or_else(|| EngineError::internal("nothing was fed"))?;
        let row = logits.clone().slice([row..row + 1, 0..self.vocabulary]);
        row.try_into_vec_as::<f32>().map_err(EngineError::internal)
    }
}

fn notes(load: &Load) -> Vec<String> {
    let note = match load.backend.as_str() {
        "cpu" | "flex" => {
            "flex multiplies one row by a matrix on one thread; here each matrix is a batch of \
             column groups, which it spreads over all threads. Built with Burn's feature x86-v4, \
             which is off by default: AVX-512 in products, where the processor has it."
        }
        "ndarray" => {
            "Burn 0.22 calls its ndarray backend deprecated. Each matrix is a batch of column \
             groups, which it spreads over all threads."
        }
        "tch" => "Burn 0.22 calls its libtorch backend deprecated.",
        "wgpu" => {
            "CubeCL's kernels as WGSL, for whatever device wgpu finds: without a GPU that is a \
             software rasteriser on the processor. They are compiled and tuned while the model \
             loads, and what tuning found serves later launches; a length of another shape may \
             still compile once, in warm-up requests."
        }
        _ => {
            "CubeCL compiles and tunes kernels while the model loads, with prompts of 8, 16, 32, … \
             tokens, and what tuning found serves later launches; a length of another shape may \
             still compile once, in warm-up requests."
        }
    };
    let llama = "A Llama of our own on Burn's public tensor operations; Burn itself brings none.";
    let mut notes = vec![llama.to_string(), note.to_string()];
    if !matches!(load.backend.as_str(), "cpu" | "flex" | "tch") {
        notes.push(
            "Attention is composed of products and a softmax, so the scores of a prompt are in \
             memory, up to 2^26 at a time. Burn's own attention function, which may be fused, is \
             used for prompts on flex and libtorch alone."
                .to_string(),
        );
    }
    if load.variant == GRAPH {
        notes.push(
            "graph: a decode step of one row is recorded while the model loads, once for each 64 \
             positions, and replayed as one dispatch (CUDA graphs); batches run as in the plain \
             variant."
                .to_string(),
        );
    }
    notes
}

/// Return the number of weights that a decode step reads. Of an embedding that is not also the
/// output head, only single rows are read.
fn weights_read(shape: &Shape) -> u64 {
    let (q, kv) = (shape.q_dim(), shape.kv_dim());
    let products = shape.dim * (2 * q + 2 * kv + 3 * shape.hidden);
    let of_heads = match shape.has_qk_norm() {
        true => 2 * shape.head_dim,
        false => 0,
    };
    let norms = 2 * shape.dim + of_heads;
    let mut biases = 0;
    if shape.attention_bias {
        biases += q + 2 * kv + shape.dim;
    }
    if shape.mlp_bias {
        biases += 2 * shape.hidden + shape.dim;
    }
    let layers = shape.layers * (products + norms + biases);
    (layers + shape.dim + shape.vocabulary * shape.dim) as u64
}

#[cfg(test)]
mod tests {
    use super::VERSION;
    use protocol::engine::testing::assert_locked;

    #[test]
    fn the_version_is_the_lockfiles() {
        assert_locked(include_str!("../../../Cargo.lock"), &["burn"], VERSION);
    }
}
