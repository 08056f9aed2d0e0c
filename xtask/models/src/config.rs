//! `config.json` and `tokenizer_config.json`, as transformers' `LlamaForCausalLM` and the engines
//! that follow it read them.
//!
//! Structs fix the order of the fields, so the bytes are the same in every build.

use serde::Serialize;

use crate::spec::{ModelSpec, Storage};
use crate::tokenizer::{BOS, BOS_ID, EOS, EOS_ID, PAD};

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
    head_dim: usize,
    max_position_embeddings: usize,
    rope_theta: f64,
    rope_scaling: Option<RopeScaling<'a>>,
    rms_norm_eps: f64,
    hidden_act: &'a str,
    attention_bias: bool,
    attention_dropout: f64,
    mlp_bias: bool,
    initializer_range: f64,
    pretraining_tp: usize,
    tie_word_embeddings: bool,
    use_cache: bool,
    bos_token_id: u32,
    eos_token_id: u32,
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
    let config = Config {
        architectures: ["LlamaForCausalLM"],
        model_type: "llama",
        vocab_size: spec.vocab_size,
        hidden_size: spec.hidden_size,
        intermediate_size: spec.intermediate_size,
        num_hidden_layers: spec.num_layers,
        num_attention_heads: spec.num_heads,
        num_key_value_heads: spec.num_kv_heads,
        head_dim: spec.head_dim,
        max_position_embeddings: spec.max_position,
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
        attention_bias: false,
        attention_dropout: 0.0,
        mlp_bias: false,
        initializer_range: 0.02,
        pretraining_tp: 1,
        tie_word_embeddings: true,
        use_cache: true,
        bos_token_id: BOS_ID,
        eos_token_id: EOS_ID,
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

fn pretty(value: &impl Serialize) -> String {
    let mut json = serde_json::to_string_pretty(value).expect("plain structs serialise");
    json.push('\n');
    json
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rope_scaling_is_null_or_llama3() {
        let parse = |spec: &ModelSpec| -> serde_json::Value {
            serde_json::from_str(&config_json(spec)).unwrap()
        };
        assert!(parse(&ModelSpec::tiny_llama())["rope_scaling"].is_null());
        let scaling = &parse(&ModelSpec::tiny_llama3())["rope_scaling"];
        assert_eq!(scaling["rope_type"], "llama3");
        assert_eq!(scaling["original_max_position_embeddings"], 512);
    }
}
