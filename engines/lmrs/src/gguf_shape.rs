//! Reads the shape of a model from the metadata of a GGUF file, and checks it before anything is
//! sized by it. A setting that would silently change the arithmetic (experts, other RoPE scalings)
//! is refused by name.

use crate::gguf::{Gguf, Value};
use protocol::engine::EngineError;
use shape::{Architecture, Rope, Scaling, Shape};

/// The architectures that this engine computes, for messages.
const ARCHITECTURES: &str = "`llama`, `mistral`, `phi3` and `qwen3`";

/// Read the shape from the metadata of a GGUF file; `divisors` is its `rope_freqs.weight`.
///
/// # Errors
/// The same as those of [`Shape::from_json`].
pub fn read(gguf: &Gguf<'_>, divisors: Option<Vec<f32>>) -> Result<Shape, EngineError> {
    let name = gguf.name();
    let refused = |what: &str| EngineError::unsupported(format!("{name}: {what}"));
    // Mistral's files say `llama`.
    let found = gguf.value("general.architecture").and_then(Value::as_str);
    let (prefix, architecture) = match found {
        Some("llama") => ("llama", Architecture::Llama),
        Some("phi3") => ("phi3", Architecture::Phi3),
        Some("qwen3") => ("qwen3", Architecture::Qwen3),
        _ => {
            let found = found.unwrap_or("none");
            return Err(refused(&format!(
                "architecture `{found}`; lmrs computes only {ARCHITECTURES}"
            )));
        }
    };
    let missing = |key: &str| {
        EngineError::internal(format!(
            "{name}: metadata `{prefix}.{key}` is missing or no such number; \
             fetch the file again"
        ))
    };
    let find = |key: &str| gguf.value(&format!("{prefix}.{key}"));
    let number = |key: &str| {
        find(key)
            .and_then(Value::as_u64)
            .map(|n| n as usize)
            .ok_or_else(|| missing(key))
    };
    let float = |key: &str| {
        find(key)
            .and_then(Value::as_f32)
            .ok_or_else(|| missing(key))
    };
    if find("expert_count")
        .and_then(Value::as_u64)
        .is_some_and(|count| count > 0)
    {
        return Err(refused("experts; lmrs has none"));
    }
    if gguf.find("rope_factors_long.weight").is_some() {
        return Err(refused("RoPE scaling `longrope`"));
    }
    if let Some(kind) = find("rope.scaling.type").and_then(Value::as_str)
        && kind != "none"
        && divisors.is_none()
    {
        return Err(refused(&format!("RoPE scaling `{kind}`")));
    }
    let dim = number("embedding_length")?;
    let heads = number("attention.head_count")?;
    if heads == 0 {
        return Err(missing("attention.head_count"));
    }
    let or = |key: &str, default: usize| match find(key) {
        Some(_) => number(key),
        None => Ok(default),
    };
    let head_dim = or("attention.key_length", dim / heads)?;
    if or("rope.dimension_count", head_dim)? != head_dim {
        let what = "RoPE over a part of the head; lmrs rotates all of it";
        return Err(refused(what));
    }
    let shape = Shape {
        dim,
        hidden: number("feed_forward_length")?,
        layers: number("block_count")?,
        heads,
        kv_heads: or("attention.head_count_kv", heads)?,
        head_dim,
        vocabulary: gguf.rows("token_embd.weight")?,
        eps: f64::from(float("attention.layer_norm_rms_epsilon")?),
        rope: Rope {
            theta: match find("rope.freq_base") {
                Some(_) => float("rope.freq_base")?,
                None => 10_000.0,
            },
            scaling: divisors.map_or(Scaling::None, Scaling::Divisors),
        },
        architecture,
        tied: gguf.find("output.weight").is_none(),
        attention_bias: false,
        mlp_bias: false,
        window: match find("attention.sliding_window") {
            Some(_) => Some(number("attention.sliding_window")?).filter(|window| *window > 0),
            None => None,
        },
    };
    shape.checked(name)
}
