//! The number format of a target's keys and values: what a target declares of it, and what the size
//! of its cache, which its engine reports, says of it.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The number format of the keys and values in a target's cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KvFormat {
    /// 32 bits.
    F32,
    /// 16 bits, IEEE 754.
    F16,
    /// 16 bits, with the exponent of f32.
    Bf16,
    /// Integers of 8 bits with scales.
    Int8,
}

impl KvFormat {
    const ALL: [Self; 4] = [Self::F32, Self::F16, Self::Bf16, Self::Int8];

    /// The format of this name, which may be a target's precision; `None` where there is none, as
    /// for `q8_0`.
    pub fn named(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.id() == id)
    }

    /// The name in `engines.toml`, e.g. `f16`.
    pub fn id(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::Int8 => "int8",
        }
    }

    /// Whether a cache of this format can have so many bits per key or value, scales included.
    /// Nothing tells f16 from bf16.
    pub fn has_bits(self, bits: f64) -> bool {
        match self {
            Self::F32 => bits == 32.0,
            Self::F16 | Self::Bf16 => bits == 16.0,
            // A scale and a zero point in f32 for every 16 values would be 12 bits.
            Self::Int8 => (8.0..=12.0).contains(&bits),
        }
    }
}

/// Bits per key or value, scales included, of a cache with so many bytes per token. `facts` are
/// those of a run's provenance about the model; `None` where they don't say how many keys and
/// values a token has.
pub fn kv_bits(facts: &BTreeMap<String, String>, bytes_per_token: u64) -> Option<f64> {
    let values: f64 = facts.get("model_kv_values_per_token")?.parse().ok()?;
    (values > 0.0).then(|| 8.0 * bytes_per_token as f64 / values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_is_read_by_its_name() {
        for id in ["f32", "f16", "bf16", "int8"] {
            let read: KvFormat = serde_json::from_value(id.into()).expect("it is a format");
            assert_eq!((read.id(), KvFormat::named(id)), (id, Some(read)));
        }
        assert_eq!(KvFormat::named("q8_0"), None);
    }

    #[test]
    fn the_size_of_a_cache_says_how_many_bits_its_numbers_have() {
        let facts = |values: &str| {
            let fact = ("model_kv_values_per_token".to_owned(), values.to_owned());
            BTreeMap::from([fact])
        };
        let fitting = |bytes| {
            let bits = kv_bits(&facts("2048"), bytes).expect("the model is known");
            let formats = KvFormat::ALL.into_iter();
            let fitting = formats.filter(|format| format.has_bits(bits));
            fitting.map(KvFormat::id).collect::<Vec<_>>()
        };
        assert_eq!(fitting(8192), ["f32"]);
        assert_eq!(fitting(4096), ["f16", "bf16"]);
        // 8 bits; with an f16 scale for 32 values; with a scale and a zero point in f32 for 64.
        for bytes in [2048, 2176, 2304] {
            assert_eq!(fitting(bytes), ["int8"], "{bytes}");
        }
        for bytes in [0, 1024, 2047, 3073, 4097] {
            assert!(fitting(bytes).is_empty(), "{bytes}");
        }
        assert_eq!(kv_bits(&facts("0"), 1), None);
        assert_eq!(kv_bits(&BTreeMap::new(), 1), None);
    }
}
