//! The variant `graph`: a decode step of one row is recorded once for each 64 positions, and
//! replayed for every token as a single dispatch, where Burn can record (CUDA graphs, and command
//! lists through wgpu). Without it a step is about a hundred launches, whose cost dominates in a
//! small model.
//!
//! A recorded step reads and writes the very buffers that it was recorded with. So the values that
//! change from token to token, the id and its position, are in two buffers that are written in
//! place, and the one row has a cache of its own, into which its prompt is read too.

use crate::model::Llama;
use burn::tensor::{Device, Graph, Int, Tensor, TensorData, capture};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The logits (1 × vocabulary) and the greedy token (1 × 1).
type Output = (Tensor<2>, Tensor<2, Int>);
type Recorded = Graph<Output, Box<dyn FnMut() -> Output>>;

/// Decodes one row with recorded steps.
pub struct Captured {
    // Declared before the state, so that it is dropped before the buffers that it replays into.
    graphs: BTreeMap<usize, Recorded>,
    state: Arc<Mutex<State>>,
    device: Device,
}

/// The tensors that a recorded step reads and writes; they live as long as the recorded steps.
struct State {
    llama: Llama,
    id: Tensor<1, Int>,
    position: Tensor<1, Int>,
}

impl State {
    fn step(&mut self, visible: usize) -> Output {
        let (id, position) = (self.id.clone(), self.position.clone());
        let logits = self.llama.decode_at(id, position, visible);
        let next = logits.clone().argmax(1);
        (logits, next)
    }
}

impl Captured {
    /// Create a decoder of one row that shares the weights of `llama`.
    pub fn new(llama: &Llama, device: &Device) -> Self {
        let state = State {
            llama: llama.with_own_cache(1),
            id: number(0, device),
            position: number(0, device),
        };
        Self {
            graphs: BTreeMap::new(),
            state: Arc::new(Mutex::new(state)),
            device: device.clone(),
        }
    }

    /// Feed a prompt; return the logits and the greedy token after its last token.
    pub fn prefill(&mut self, ids: &[u32]) -> Output {
        let logits = locked(&self.state).llama.forward(ids, 1, 0);
        let next = logits.clone().argmax(1);
        (logits, next)
    }

    /// Feed the token at `position`; return the logits and the greedy token, which the next step
    /// overwrites.
    pub fn decode(&mut self, id: u32, position: usize) -> Output {
        let visible = {
            let mut state = locked(&self.state);
            let (id, at) = (
                number(id, &self.device),
                number(position as u32, &self.device),
            );
            // In place, since a tensor with one owner is written where it lies.
            state.id.inplace(|old| old.slice_assign([0..1], id));
            state.position.inplace(|old| old.slice_assign([0..1], at));
            state.llama.visible_at(position)
        };
        let (state, device) = (&self.state, &self.device);
        let graph = self.graphs.entry(visible).or_insert_with(|| {
            let state = Arc::clone(state);
            // Recording runs the step several times, which writes the same into the same place.
            let step: Box<dyn FnMut() -> Output> = Box::new(move || locked(&state).step(visible));
            capture(device, step)
        });
        // SAFETY: what the step reads and writes lives in `self.state`, which outlives the graphs;
        // only this thread uses it, and its updates are queued on the stream that is replayed on.
        let (logits, next) = unsafe { graph.replay() };
        (logits.clone(), next.clone())
    }

    /// Whether every step so far is replayed by the device; `false` if one runs its code again
    /// instead.
    pub fn is_recorded(&self) -> bool {
        self.graphs.values().all(Graph::is_hardware)
    }
}

fn number(value: u32, device: &Device) -> Tensor<1, Int> {
    Tensor::from_data(TensorData::new(vec![value as i32], [1]), device)
}

fn locked(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
