//! Starts a mistral.rs from a model directory: with its own loaders, which are given paths instead
//! of a model's name, so that nothing is looked up on a network.

use crate::gguf;
use crate::safetensors;
use candle_core::Device;
use mistralrs::core::{
    AdapterPaths, DefaultSchedulerMethod, GGUFLoaderBuilder, GGUFSpecificConfig, Loader,
    LocalModelPaths, MistralRsBuilder, ModelPaths, NormalLoaderBuilder, NormalSpecificConfig,
    Pipeline, SchedulerConfig,
};
use mistralrs::{
    DeviceMapSetting, IsqType, MemoryGpuConfig, MistralRs, ModelDType, NormalLoaderType,
    PagedAttentionConfig, PagedCacheType, paged_attn_supported,
};
use protocol::engine::EngineError;
use protocol::panicked::catching;
use protocol::wire::{Load, Loaded};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::runtime::Runtime;
use tokio::sync::Mutex;

/// Bytes and weights per q8_0 block.
const Q8_0_BLOCK: (u64, u64) = (34, 32);
const MIB: u64 = 1 << 20;
/// Positions per block of mistral.rs' paged key/value cache, by default.
const PAGE_POSITIONS: u64 = 32;

/// A running mistral.rs.
pub struct Loading {
    /// The engine, which runs on a thread of its own.
    pub runner: Arc<MistralRs>,
    /// The answer to the request.
    pub loaded: Loaded,
    /// Number of positions that the model is made for.
    pub positions: usize,
}

/// The arguments for mistral.rs' loader.
struct Plan {
    loader: Box<dyn Loader>,
    files: Vec<PathBuf>,
    dtype: ModelDType,
    quantise: Option<IsqType>,
}

/// The effect of an end-of-sequence token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eos {
    /// It ends the sequence, as mistral.rs' users expect.
    Stops,
    /// It has no effect: every sequence is as long as was asked for.
    Ignored,
}

/// Load the model and start the engine, which makes its own dry run.
pub fn load(load: &Load, runtime: &Runtime, eos: Eos) -> Result<Loading, EngineError> {
    let weights = load.weights_path();
    let device = device(&load.backend, load.device as usize)?;
    let (plan, header) = if load.is_gguf() {
        let header =
            gguf::open(&weights).map_err(|err| EngineError::unavailable(err).in_file(&weights))?;
        gguf::check_precision(&header, &load.precision)
            .and_then(|()| gguf::check_architecture(&header))
            .map_err(|err| EngineError::unsupported(err).in_file(&weights))?;
        (gguf_plan(load), Some(header))
    } else {
        (safetensors_plan(load)?, None)
    };
    let paged = paged(&load.backend);
    let pipeline = start(&plan, load, &device, paged)
        .map_err(|err| EngineError::of_library(err).in_file(&weights))?;

    let metadata = runtime.block_on(pipeline.lock()).get_metadata();
    let element_bytes = metadata.activation_dtype.size_in_bytes() as u64;
    let model = metadata.model_metadata.as_ref();
    let kv_elements = model.map_or(0, |model| {
        model.num_layers() * model.kv_cache_elements_per_token()
    });
    let weight_bytes = match header {
        Some(header) => gguf::weight_bytes(&header),
        None => {
            let config = Path::new(&load.model_dir).join("config.json");
            let quantised = plan.quantise.map(|_| Q8_0_BLOCK);
            safetensors::weight_bytes(&plan.files, &config, element_bytes, quantised)?
        }
    };
    let max_batch = NonZeroUsize::new(load.max_batch as usize).unwrap_or(NonZeroUsize::MIN);
    let scheduler = match metadata.cache_config.clone() {
        Some(config) if paged => SchedulerConfig::PagedAttentionMeta {
            max_num_seqs: max_batch.get(),
            config,
        },
        _ => SchedulerConfig::DefaultScheduler {
            method: DefaultSchedulerMethod::Fixed(max_batch),
        },
    };
    let runner = MistralRsBuilder::new(pipeline, scheduler, false, None)
        .with_no_prefix_cache(!(load.prefix_cache && keeps_prompts(load)))
        .with_disable_eos_stop(eos == Eos::Ignored)
        .build();
    Ok(Loading {
        runner: runtime.block_on(runner),
        loaded: Loaded {
            weight_bytes,
            kv_bytes_per_token: kv_elements as u64 * element_bytes,
            ..Loaded::default()
        },
        positions: metadata.max_seq_len,
    })
}

/// Whether the key/value cache is paged, which mistral.rs supports only on a GPU.
pub fn paged(backend: &str) -> bool {
    backend != "cpu" && paged_attn_supported()
}

/// Whether mistral.rs can be asked to keep prompts. It can on the CPU, where it keeps the keys and
/// values of each whole sequence that has ended. Its paged cache keeps blocks, which has not been
/// tried here.
pub fn keeps_prompts(load: &Load) -> bool {
    load.backend == "cpu"
}

/// Return the model's name for mistral.rs, which looks nothing up under it.
fn name(load: &Load) -> String {
    let name = Path::new(&load.model_dir).file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

fn gguf_plan(load: &Load) -> Plan {
    let loader = GGUFLoaderBuilder::new(
        None,
        None,
        name(load),
        vec![load.weights.clone()],
        GGUFSpecificConfig::default(),
        false,
        None,
    );
    Plan {
        loader: loader.build(),
        files: vec![load.weights_path()],
        // mistral.rs itself always uses this for a GGUF file.
        dtype: ModelDType::Auto,
        quantise: None,
    }
}

fn safetensors_plan(load: &Load) -> Result<Plan, EngineError> {
    let (dtype, quantise) = match (load.variant.as_str(), load.precision.as_str()) {
        ("", "f32") => (ModelDType::F32, None),
        ("", "f16") => (ModelDType::F16, None),
        ("", "bf16") => (ModelDType::BF16, None),
        ("isq", "q8_0") => (ModelDType::Auto, Some(IsqType::Q8_0)),
        (variant, precision) => {
            return Err(EngineError::unsupported(format!(
                "no {precision} of variant {variant:?} from safetensors: f32, f16 or bf16, or \
                 q8_0 of variant \"isq\"; for {precision} as it is, give it a GGUF file"
            )));
        }
    };
    let dir = Path::new(&load.model_dir);
    let files = protocol::only_safetensors(dir, &load.weights)?;
    let architecture = architecture(load)?;
    let loader = NormalLoaderBuilder::new(
        NormalSpecificConfig::default(),
        None,
        None,
        Some(name(load)),
        false,
        None,
    );
    let loader = loader
        .build(Some(architecture))
        .map_err(EngineError::internal)?;
    Ok(Plan {
        loader,
        files,
        dtype,
        quantise,
    })
}

/// Return which of mistral.rs' models of unquantised weights to use. An old `config.json` names no
/// architecture and is a Llama's.
fn architecture(load: &Load) -> Result<NormalLoaderType, EngineError> {
    let dir = Path::new(&load.model_dir);
    let named = protocol::architecture(dir);
    match named.as_deref().unwrap_or("llama") {
        "llama" => Ok(NormalLoaderType::Llama),
        "mistral" => Ok(NormalLoaderType::Mistral),
        "phi3" => Ok(NormalLoaderType::Phi3),
        "qwen3" => Ok(NormalLoaderType::Qwen3),
        other => {
            let message =
                format!("no model_type {other:?} here; there are llama, mistral, phi3, qwen3");
            Err(EngineError::unsupported(message).in_file(&dir.join("config.json")))
        }
    }
}

fn start(
    plan: &Plan,
    load: &Load,
    device: &Device,
    paged: bool,
) -> Result<Arc<Mutex<dyn Pipeline>>, String> {
    let dir = Path::new(&load.model_dir);
    let template = dir.join("tokenizer_config.json");
    let paths = LocalModelPaths {
        tokenizer_filename: dir.join("tokenizer.json"),
        config_filename: dir.join("config.json"),
        template_filename: template.exists().then_some(template),
        filenames: plan.files.clone(),
        adapter_paths: AdapterPaths::None,
        // The sampling defaults, which every request sets itself.
        gen_conf: None,
        preprocessor_config: None,
        processor_config: None,
        chat_template_json_filename: None,
    };
    let paths: Box<dyn ModelPaths> = Box::new(paths);
    let paged = paged.then(|| cache(load)).transpose()?;
    catching(|| {
        let pipeline = plan.loader.load_model_from_path(
            &paths,
            &plan.dtype,
            device,
            true,
            // The whole model goes on one device.
            DeviceMapSetting::dummy(),
            plan.quantise,
            paged,
        );
        match pipeline {
            Ok(pipeline) => Ok(pipeline as Arc<Mutex<dyn Pipeline>>),
            Err(err) => Err(format!("{err:#}")),
        }
    })
}

/// Configure a paged cache of the size that the harness will need, instead of all memory that is
/// free on the GPU, because memory use is measured too.
fn cache(load: &Load) -> Result<PagedAttentionConfig, String> {
    let config = Path::new(&load.model_dir).join("config.json");
    let elements = safetensors::kv_elements(&config).map_err(|err| err.message)?;
    let positions = u64::from(load.max_context).next_multiple_of(PAGE_POSITIONS);
    // An upper bound for every cache type: four bytes per element, as for f32.
    let bytes = positions * u64::from(load.max_batch.max(1)) * elements * 4;
    let size = MemoryGpuConfig::MbAmount(bytes.div_ceil(MIB) as usize + 1);
    PagedAttentionConfig::new(None, size, PagedCacheType::Auto).map_err(|err| err.to_string())
}

fn device(backend: &str, index: usize) -> Result<Device, EngineError> {
    type Open = fn(usize) -> candle_core::Result<Device>;
    let (name, built, open): (_, _, Open) = match backend {
        "cpu" => return Ok(Device::Cpu),
        "cuda" => ("CUDA", cfg!(feature = "cuda"), Device::new_cuda),
        "metal" => ("Metal", cfg!(feature = "metal"), Device::new_metal),
        other => {
            return Err(EngineError::unsupported(format!(
                "no backend {other:?}; there are cpu, cuda, metal"
            )));
        }
    };
    let opened = if built {
        // Without a driver, the bindings panic instead of returning an error.
        catching(|| open(index))
    } else {
        Err(format!(
            "this mistralrs-bench was built without its `{backend}` feature"
        ))
    };
    opened.map_err(|why| EngineError::unavailable(format!("no {name} device {index}: {why}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::wire::FailureKind;

    #[test]
    fn a_missing_device_is_unavailable() {
        assert!(device("cpu", 0).is_ok());
        assert_eq!(device("tpu", 0).unwrap_err().kind, FailureKind::Unsupported);
        if !cfg!(feature = "cuda") {
            let missing = device("cuda", 0).unwrap_err();
            assert_eq!(missing.kind, FailureKind::Unavailable);
            assert!(missing.message.starts_with("no CUDA device 0: "));
        }
    }
}
