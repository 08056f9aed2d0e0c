//! Implements [`Decoder`] with llama.cpp: a model, a context, a thread pool and a batch, each
//! freed by the type that made it. Parameters that are not set here have llama.cpp's defaults.

use crate::device::{self, Device};
use crate::file::Contents;
use crate::log;
use crate::slots::Decoder;
use llama_cpp_sys_2 as sys;
use protocol::engine::EngineError;
use protocol::wire::{FailureKind, Load, Loaded};
use std::ffi::CString;
use std::ptr::NonNull;

/// Largest number of tokens that a step feeds: llama-server's default.
const BATCH_TOKENS: u32 = 2048;
/// The status of `llama_decode` if the cache has no room.
const NO_KV_ROOM: i32 = 1;

/// A loaded model, ready to run. The order of the fields matters: they are dropped in this order.
pub struct Llama {
    batch: Batch,
    context: Context,
    _pool: Pool,
    _model: Model,
    vocabulary: usize,
    tokens_max: usize,
}

impl Llama {
    /// Load the model that `load` asks for.
    pub fn load(load: &Load) -> Result<(Self, Loaded), EngineError> {
        let file = load.weights_path();
        let path = file
            .to_str()
            .ok_or_else(|| EngineError::unsupported("llama.cpp takes only paths in UTF-8"))?;
        if !path.ends_with(".gguf") {
            return Err(EngineError::unsupported("llama.cpp reads only GGUF").in_file(&file));
        }
        let device = device::find(&load.backend, load.device)?;
        let contents =
            Contents::read(path).map_err(|why| EngineError::unavailable(why).in_file(&file))?;
        protocol::check_precision(&contents.main_type, &load.precision)
            .map_err(|why| EngineError::unsupported(why).in_file(&file))?;

        // SAFETY: takes nothing, and this thread is the only one that does it.
        unsafe { sys::llama_backend_init() };
        let _ = log::last_error(); // discard errors from before this model
        let fault = |why: String| EngineError::of_library(why).in_file(&file);
        let model = Model::load(path, device).map_err(fault)?;
        let context = Context::new(&model, load).map_err(fault)?;
        let pool = Pool::new(load.threads)?;
        // SAFETY: both live until the context, dropped before the pool, is freed.
        unsafe {
            sys::llama_attach_threadpool(context.0.as_ptr(), pool.0.as_ptr(), pool.0.as_ptr());
        };
        let vocabulary = model.vocabulary();
        // SAFETY: the context is open.
        let tokens_max = unsafe { sys::llama_n_batch(context.0.as_ptr()) };
        let mut llama = Self {
            batch: Batch::new(tokens_max as i32),
            context,
            _pool: pool,
            _model: model,
            vocabulary,
            tokens_max: tokens_max as usize,
        };
        llama.warm_up()?;
        let loaded = Loaded {
            weight_bytes: contents.weight_bytes,
            kv_bytes_per_token: contents.kv_bytes_per_token,
            ..Loaded::default()
        };
        Ok((llama, loaded))
    }

    /// Number of token ids.
    pub fn vocabulary(&self) -> usize {
        self.vocabulary
    }

    /// Make an empty run, as `common_init_from_params` does for each of llama.cpp's own tools.
    fn warm_up(&mut self) -> Result<(), EngineError> {
        for position in 0..2.min(self.tokens_max) {
            self.feed(0, position, 0, position == 1);
        }
        self.step()?;
        let context = self.context.0.as_ptr();
        // SAFETY: the context is open and owned by this thread.
        unsafe {
            sys::llama_memory_clear(sys::llama_get_memory(context), true);
            sys::llama_synchronize(context);
        }
        Ok(())
    }
}

impl Decoder for Llama {
    fn tokens_max(&self) -> usize {
        self.tokens_max
    }

    fn feed(&mut self, slot: usize, position: usize, token: u32, wanted: bool) {
        assert!((self.batch.0.n_tokens as usize) < self.tokens_max);
        let batch = &mut self.batch.0;
        let index = batch.n_tokens as usize;
        // SAFETY: `llama_batch_init` made each array long enough for `tokens_max`
        // tokens of one sequence, and `index` is below.
        unsafe {
            *batch.token.add(index) = token as i32;
            *batch.pos.add(index) = position as i32;
            *batch.n_seq_id.add(index) = 1;
            **batch.seq_id.add(index) = slot as i32;
            *batch.logits.add(index) = i8::from(wanted);
        }
        batch.n_tokens += 1;
    }

    fn step(&mut self) -> Result<(), EngineError> {
        // SAFETY: the context is open, and the batch holds `n_tokens` tokens whose
        // ids, slots and positions are within what it was made for.
        let status = unsafe { sys::llama_decode(self.context.0.as_ptr(), self.batch.0) };
        self.batch.0.n_tokens = 0;
        if status == 0 {
            return Ok(());
        }
        let why = log::last_error().unwrap_or_else(|| "it says no more".to_string());
        let message = format!("llama_decode returned {status}: {why}");
        let kind = match status {
            NO_KV_ROOM => FailureKind::Oom,
            _ => EngineError::of_library(why).kind,
        };
        Err(EngineError::new(kind, message))
    }

    fn logits(&mut self, index: usize) -> Result<&[f32], EngineError> {
        // SAFETY: the context is open. This is also what waits for a GPU.
        let logits = unsafe { sys::llama_get_logits_ith(self.context.0.as_ptr(), index as i32) };
        if logits.is_null() {
            let message = format!("llama.cpp has no logits of token {index} of the step");
            return Err(EngineError::internal(message));
        }
        // SAFETY: a row of the vocabulary's length, which the next step, behind
        // `&mut self`, is the first to change.
        Ok(unsafe { std::slice::from_raw_parts(logits, self.vocabulary) })
    }

    fn forget(&mut self, slot: usize) {
        // SAFETY: the context is open; -1 means every position.
        unsafe {
            let memory = sys::llama_get_memory(self.context.0.as_ptr());
            sys::llama_memory_seq_rm(memory, slot as i32, -1, -1);
        }
    }

    fn keep(&mut self, slot: usize, positions: usize) -> bool {
        // SAFETY: the context is open; -1 means to the end.
        unsafe {
            let memory = sys::llama_get_memory(self.context.0.as_ptr());
            sys::llama_memory_seq_rm(memory, slot as i32, positions as i32, -1)
        }
    }
}

struct Model(NonNull<sys::llama_model>);

impl Model {
    fn load(path: &str, device: Device) -> Result<Self, String> {
        let path = CString::new(path).map_err(|err| err.to_string())?;
        // Ended by null, as llama.cpp expects; without a device it uses the processor.
        let mut devices = [std::ptr::null_mut(); 2];
        let layers = match device {
            Device::Cpu => 0,
            Device::Gpu(gpu) => {
                devices[0] = gpu;
                -1
            }
        };
        // SAFETY: takes nothing.
        let mut params = unsafe { sys::llama_model_default_params() };
        params.devices = devices.as_mut_ptr();
        params.n_gpu_layers = layers;
        // SAFETY: path and devices outlive the call, which copies them.
        let model = unsafe { sys::llama_model_load_from_file(path.as_ptr(), params) };
        let model = NonNull::new(model).ok_or_else(|| why("llama.cpp can't load it"))?;
        Ok(Self(model))
    }

    fn vocabulary(&self) -> usize {
        // SAFETY: the model is loaded, and its vocabulary is a part of it.
        let tokens =
            unsafe { sys::llama_vocab_n_tokens(sys::llama_model_get_vocab(self.0.as_ptr())) };
        tokens as usize
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        // SAFETY: loaded by us, freed once, and the context is gone.
        unsafe { sys::llama_model_free(self.0.as_ptr()) };
    }
}

struct Context(NonNull<sys::llama_context>);

impl Context {
    fn new(model: &Model, load: &Load) -> Result<Self, String> {
        let sequences = sequences(load) as u32;
        let threads = load.threads.max(1) as i32;
        // SAFETY: takes nothing.
        let mut params = unsafe { sys::llama_context_default_params() };
        params.n_ctx = sequences.saturating_mul(load.max_context.max(1));
        params.n_batch = BATCH_TOKENS.max(sequences);
        params.n_seq_max = sequences;
        params.kv_unified = true;
        params.n_threads = threads;
        params.n_threads_batch = threads;
        // SAFETY: the model is loaded and outlives the context.
        let context = unsafe { sys::llama_init_from_model(model.0.as_ptr(), params) };
        let context = NonNull::new(context).ok_or_else(|| why("llama.cpp can't make a context"))?;
        Ok(Self(context))
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: made by us, and freed once.
        unsafe { sys::llama_free(self.0.as_ptr()) };
    }
}

/// A pool of threads that persist between steps. Without one, each step would start its own
/// threads.
struct Pool(NonNull<sys::ggml_threadpool>);

impl Pool {
    fn new(threads: u32) -> Result<Self, EngineError> {
        // SAFETY: takes a number; the pool copies the parameters.
        let pool = unsafe {
            let mut params = sys::ggml_threadpool_params_default(threads.max(1) as i32);
            sys::ggml_threadpool_new(&mut params)
        };
        let pool = NonNull::new(pool);
        pool.map(Self)
            .ok_or_else(|| EngineError::internal(why("ggml can't make its threads")))
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: made by us, freed once, and the context that uses it is gone.
        unsafe { sys::ggml_threadpool_free(self.0.as_ptr()) };
    }
}

struct Batch(sys::llama_batch);

impl Batch {
    /// Create a batch with room for `tokens` tokens, each in one sequence.
    fn new(tokens: i32) -> Self {
        // SAFETY: takes numbers.
        Self(unsafe { sys::llama_batch_init(tokens, 0, 1) })
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        // SAFETY: made by us, and freed once.
        unsafe { sys::llama_batch_free(self.0) };
    }
}

/// Return how many sequences may run at a time; more have to wait.
pub fn sequences(load: &Load) -> usize {
    // SAFETY: takes nothing.
    let most = unsafe { sys::llama_max_parallel_sequences() };
    (load.max_batch as usize).clamp(1, most)
}

fn why(what: &str) -> String {
    match log::last_error() {
        Some(error) => format!("{what}: {error}"),
        None => what.to_string(),
    }
}
