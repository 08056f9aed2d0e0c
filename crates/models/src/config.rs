//! Makes `config.json` and `tokenizer_config.json` as transformers writes them for each
//! architecture; the engines that follow transformers read them.
//!
//! Structs fix the order of the fields, so the bytes are the same in every build.

use serde::Serialize;

use crate::architecture::Architecture;
use crate::spec::{ModelSpec, Storage};
use crate::tokenizer::{BOS, BOS_ID, EOS, EOS_ID, PAD, PAD_ID};

/// The content of `config.json`. Fields that only some architectures have are `None` for the
/// others, and then not written.
#[derive(Serialize)]
struct Config<'a> {
    architectures: [&'a str; 1],
    model_type: &'a str,
    vocab_size: usize,
    hidden_size: usize,
    intermediate_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    num_key_value_heads: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    head_dim: Option<usize>,
    max_position_embeddings: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    original_max_position_embeddings: Option<usize>,
    rope_theta: f64,
    rope_scaling: Option<RopeScaling<'a>>,
    rms_norm_eps: f64,
    hidden_act: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    attention_bias: Option<bool>,
    attention_dropout: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    embd_pdrop: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resid_pdrop: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mlp_bias: Option<bool>,
    initializer_range: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pretraining_tp: Option<usize>,
    /// Written as null where there is none, because to transformers its absence means a default.
    #[serde(skip_serializing_if = "Option::is_none")]
    sliding_window: Option<Option<usize>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    use_sliding_window: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_window_layers: Option<usize>,
    tie_word_embeddings: bool,
    use_cache: bool,
    bos_token_id: u32,
    eos_token_id: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pad_token_id: Option<u32>,
    torch_dtype: &'a str,
}

#[derive(Serialize)]
struct RopeScaling<'a> {
    rope_type: &'a str,
    factor: f64,
    low_freq_factor: f64,
    high_freq_factor: f64,
    original_max_position_embeddings: usize,
}

/// The text of `config.json`.
pub fn config_json(spec: &ModelSpec) -> String {
    let architecture = spec.architecture;
    let llama = architecture == Architecture::Llama;
    let phi3 = architecture == Architecture::Phi3;
    let qwen3 = architecture == Architecture::Qwen3;
    let config = Config {
        architectures: [architecture.class_name()],
        model_type: architecture.model_type(),
        vocab_size: spec.vocab_size,
        hidden_size: spec.hidden_size,
        intermediate_size: spec.intermediate_size,
        num_hidden_layers: spec.num_layers,
        num_attention_heads: spec.num_heads,
        num_key_value_heads: spec.num_kv_heads,
        // The other architectures' classes derive it.
        head_dim: (llama || qwen3).then_some(spec.head_dim),
        max_position_embeddings: spec.max_position,
        original_max_position_embeddings: phi3.then_some(spec.max_position),
        rope_theta: spec.rope_theta,
        rope_scaling: spec.rope_scaling.map(|scaling| RopeScaling {
            rope_type: "llama3",
            factor: scaling.factor,
            low_freq_factor: scaling.low_freq_factor,
            high_freq_factor: scaling.high_freq_factor,
            original_max_position_embeddings: scaling.original_max_position,
        }),
        rms_norm_eps: spec.rms_norm_eps,
        hidden_act: "silu",
        attention_bias: (architecture != Architecture::Mistral).then_some(false),
        attention_dropout: 0.0,
        embd_pdrop: phi3.then_some(0.0),
        resid_pdrop: phi3.then_some(0.0),
        mlp_bias: llama.then_some(false),
        initializer_range: 0.02,
        pretraining_tp: llama.then_some(1),
        sliding_window: (!llama).then_some(None),
        use_sliding_window: qwen3.then_some(false),
        max_window_layers: qwen3.then_some(spec.num_layers),
        tie_word_embeddings: spec.tied,
        use_cache: true,
        bos_token_id: BOS_ID,
        eos_token_id: EOS_ID,
        // transformers' default for Phi-3 lies outside a small vocabulary.
        pad_token_id: phi3.then_some(PAD_ID),
        torch_dtype: match spec.storage {
            Storage::F32 => "float32",
            Storage::Bf16 => "bfloat16",
        },
    };
    pretty(&config)
}

#[derive(Serialize)]
struct TokenizerConfig<'a> {
    tokenizer_class: &'a str,
    model_max_length: usize,
    add_bos_token: bool,
    add_eos_token: bool,
    bos_token: &'a str,
    eos_token: &'a str,
    pad_token: &'a str,
    clean_up_tokenization_spaces: bool,
}

/// The text of `tokenizer_config.json`. There is no chat template: prompts are plain text.
pub fn tokenizer_config_json(spec: &ModelSpec) -> String {
    pretty(&TokenizerConfig {
        tokenizer_class: "PreTrainedTokenizerFast",
        model_max_length: spec.max_position,
        add_bos_token: true,
        add_eos_token: false,
        bos_token: BOS,
        eos_token: EOS,
        pad_token: PAD,
        clean_up_tokenization_spaces: false,
    })
}

pub(crate) fn pretty(value: &impl Serialize) -> String {
    let mut json = serde_json::to_string_pretty(value).expect("plain structs serialise");
    json.push('\n');
    json
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(spec: &ModelSpec) -> serde_json::Value {
        serde_json::from_str(&config_json(spec)).unwrap()
    }

    #[test]
    fn each_architecture_has_its_own_fields() {
        let llama = parse(&ModelSpec::tiny_llama());
        assert_eq!(llama["architectures"][0], "LlamaForCausalLM");
        assert!(llama.get("sliding_window").is_none());
        for (spec, class, model_type) in [
            (ModelSpec::tiny_mistral(), "MistralForCausalLM", "mistral"),
            (ModelSpec::tiny_phi3(), "Phi3ForCausalLM", "phi3"),
            (ModelSpec::tiny_qwen3(), "Qwen3ForCausalLM", "qwen3"),
        ] {
            let config = parse(&spec);
            assert_eq!(config["architectures"][0], class);
            assert_eq!(config["model_type"], model_type);
            assert_eq!(config["tie_word_embeddings"], spec.tied);
            // Without the field, Mistral and Qwen3 would have a window of 4 096 positions.
            assert_eq!(config.get("sliding_window"), Some(&serde_json::Value::Null));
            assert!(config.get("mlp_bias").is_none());
        }
        let qwen3 = parse(&ModelSpec::tiny_qwen3());
        assert_eq!(
            (&qwen3["head_dim"], &qwen3["use_sliding_window"]),
            (&128.into(), &false.into())
        );
        assert_eq!(parse(&ModelSpec::tiny_phi3())["pad_token_id"], 0);
    }

    #[test]
    fn rope_scaling_is_null_or_llama3() {
        assert!(parse(&ModelSpec::tiny_llama())["rope_scaling"].is_null());
        let scaling = &parse(&ModelSpec::tiny_llama3())["rope_scaling"];
        assert_eq!(scaling["rope_type"], "llama3");
        assert_eq!(scaling["original_max_position_embeddings"], 512);
    }
}
