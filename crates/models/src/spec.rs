//! The definition of a model: its shape, its seed, and the files it is written to.
//!
//! A spec determines everything: two runs with the same spec write the same bytes. How the weights
//! are scaled is defined in `weights`; the caller decides where the files go.

use crate::architecture::Architecture;

mod architectures;

/// The name of the weights file of a model in one piece.
const SAFETENSORS: &str = "model.safetensors";
/// The name of the index of a model in shards: it maps each tensor to its shard.
pub const SAFETENSORS_INDEX: &str = "model.safetensors.index.json";

/// The RoPE scaling of Llama 3.1 and later: long wavelengths are stretched by `factor`, short ones
/// kept, with a smooth passage between.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Llama3RopeScaling {
    /// The divisor of low frequencies.
    pub factor: f64,
    /// Wavelengths above `original_max_position / low_freq_factor` are scaled in full.
    pub low_freq_factor: f64,
    /// Wavelengths below `original_max_position / high_freq_factor` are not scaled.
    pub high_freq_factor: f64,
    /// Context length before the extension, in positions.
    pub original_max_position: usize,
}

impl Llama3RopeScaling {
    /// The divisor of the frequency whose wave has this length (positions). Formula:
    /// `_compute_llama3_parameters` in transformers' `modeling_rope_utils`.
    pub fn divisor(&self, wavelength: f64) -> f64 {
        let original = self.original_max_position as f64;
        if wavelength < original / self.high_freq_factor {
            1.0
        } else if wavelength > original / self.low_freq_factor {
            self.factor
        } else {
            let smooth = (original / wavelength - self.low_freq_factor)
                / (self.high_freq_factor - self.low_freq_factor);
            1.0 / ((1.0 - smooth) / self.factor + smooth)
        }
    }
}

/// Number format of the safetensors file. The values don't depend on it: every weight is
/// representable in bf16.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Storage {
    /// Four bytes a weight.
    F32,
    /// Two bytes a weight.
    Bf16,
}

/// A weight file a model can be written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelFile {
    /// `model.safetensors`, or shards and their index, in the spec's [`Storage`].
    Safetensors,
    /// `model-f32.gguf`.
    GgufF32,
    /// `model-f16.gguf`.
    GgufF16,
    /// `model-q8_0.gguf`.
    GgufQ8_0,
    /// `model-q4_k_m.gguf`.
    GgufQ4KM,
}

impl ModelFile {
    /// The GGUF files that targets may want, the cheapest to make first.
    pub const GGUF: [Self; 4] = [Self::GgufF32, Self::GgufF16, Self::GgufQ8_0, Self::GgufQ4KM];

    /// The file's name inside the model's directory; the names of shards are
    /// [`ModelSpec::safetensors_names`].
    pub const fn name(self) -> &'static str {
        match self {
            Self::Safetensors => SAFETENSORS,
            Self::GgufF32 => "model-f32.gguf",
            Self::GgufF16 => "model-f16.gguf",
            Self::GgufQ8_0 => "model-q8_0.gguf",
            Self::GgufQ4KM => "model-q4_k_m.gguf",
        }
    }
}

/// The project's own text that a model's tokenizer is trained on and that its prompts are cut from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Corpus {
    /// [`text`](crate::text): varied stories, with numbers, code and other scripts.
    Varied,
    /// [`stories`](crate::stories): short stories that use few words.
    Stories,
}

impl Corpus {
    /// Text from `seed`, at least `min_chars` characters; stories are separated by
    /// [`BETWEEN`](crate::stories::BETWEEN).
    pub fn text(self, seed: u64, min_chars: usize) -> String {
        match self {
            Self::Varied => crate::text::text(seed, min_chars),
            Self::Stories => crate::stories::text(seed, min_chars),
        }
    }
}

/// The definition of a model: equal specs give equal files.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelSpec {
    /// Name of the model and of its directory, such as `tiny-llama`.
    pub id: String,
    /// Seed of the text the tokenizer is trained on and, unless they are trained, of the weights.
    pub seed: u64,
    /// The text that the tokenizer is trained on, and the weights where they are trained.
    pub corpus: Corpus,
    /// Architecture, which determines the tensors and what is computed of them.
    pub architecture: Architecture,
    /// Whether the embedding matrix is also the output matrix.
    pub tied: bool,
    /// Number of rows of the embedding matrix.
    pub vocab_size: usize,
    /// Width of the residual stream.
    pub hidden_size: usize,
    /// Width of the MLP.
    pub intermediate_size: usize,
    /// Number of transformer blocks.
    pub num_layers: usize,
    /// Number of query heads.
    pub num_heads: usize,
    /// Number of key and value heads; divides `num_heads`.
    pub num_kv_heads: usize,
    /// Width of a head; half of it must be a power of two.
    pub head_dim: usize,
    /// Context length the config declares, in positions.
    pub max_position: usize,
    /// RoPE base.
    pub rope_theta: f64,
    /// Epsilon that is added to the mean square in RMSNorm.
    pub rms_norm_eps: f64,
    /// Llama 3's scaling of RoPE, if any.
    pub rope_scaling: Option<Llama3RopeScaling>,
    /// Whether the weights have [`outliers`](crate::outliers), as those of trained models do.
    pub outliers: bool,
    /// Size of the trained BPE vocabulary, special tokens included. The rest of `vocab_size` is
    /// filled with reserved tokens that no text encodes to.
    pub tokenizer_vocab: usize,
    /// Number format of the safetensors file.
    pub storage: Storage,
    /// Number of safetensors files that the weights are spread over; 1 = one file without an index.
    pub shards: usize,
    /// Weight files to write.
    pub files: Vec<ModelFile>,
}

impl ModelSpec {
    /// About 10 M parameters, plain RoPE: it loads quickly, and every dimension is a multiple of
    /// 256, so that even k-quants apply to every matrix.
    pub fn tiny_llama() -> Self {
        Self {
            id: "tiny-llama".into(),
            seed: 20_260_101,
            corpus: Corpus::Varied,
            architecture: Architecture::Llama,
            tied: true,
            vocab_size: 4096,
            hidden_size: 512,
            intermediate_size: 768,
            num_layers: 4,
            num_heads: 8,
            num_kv_heads: 4,
            head_dim: 64,
            max_position: 2048,
            rope_theta: 10_000.0,
            rms_norm_eps: 1e-5,
            rope_scaling: None,
            outliers: false,
            tokenizer_vocab: 4096,
            storage: Storage::F32,
            shards: 1,
            files: vec![
                ModelFile::Safetensors,
                ModelFile::GgufF32,
                ModelFile::GgufF16,
                ModelFile::GgufQ8_0,
                ModelFile::GgufQ4KM,
            ],
        }
    }

    /// `tiny-llama` with Llama 3's RoPE: an engine that ignores the scaling is wrong from a few
    /// hundred positions on. Its context is long enough to verify engines up to 8 K positions.
    pub fn tiny_llama3() -> Self {
        Self {
            id: "tiny-llama3".into(),
            seed: 20_260_103,
            // As far as the scaling stretches the original 512 positions.
            max_position: 16_384,
            rope_theta: 500_000.0,
            rope_scaling: Some(Llama3RopeScaling {
                factor: 32.0,
                low_freq_factor: 1.0,
                high_freq_factor: 4.0,
                original_max_position: 512,
            }),
            ..Self::tiny_llama()
        }
    }

    /// About 1.4 M parameters, trained on short stories (`cargo xtask train`). Every dimension is a
    /// multiple of 256, so that even k-quants apply, and all of its files together take 8 MB.
    pub fn tiny_stories() -> Self {
        Self {
            id: "tiny-stories".into(),
            seed: 20_260_104,
            corpus: Corpus::Stories,
            vocab_size: 768,
            hidden_size: 256,
            intermediate_size: 256,
            num_layers: 3,
            num_heads: 4,
            num_kv_heads: 2,
            max_position: 1024,
            tokenizer_vocab: 768,
            storage: Storage::Bf16,
            files: vec![
                ModelFile::Safetensors,
                ModelFile::GgufF16,
                ModelFile::GgufQ8_0,
                ModelFile::GgufQ4KM,
            ],
            ..Self::tiny_llama()
        }
    }

    /// The shape of Llama 3.2 1B with random weights: the speed of a real model without its
    /// download. 1.24 G parameters, 2.5 GB in bf16.
    pub fn llama_3_2_1b_shape() -> Self {
        Self {
            id: "llama-3.2-1b-shape".into(),
            seed: 20_260_132,
            vocab_size: 128_256,
            hidden_size: 2048,
            intermediate_size: 8192,
            num_layers: 16,
            num_heads: 32,
            num_kv_heads: 8,
            max_position: 131_072,
            rope_theta: 500_000.0,
            rope_scaling: Some(Llama3RopeScaling {
                factor: 32.0,
                low_freq_factor: 1.0,
                high_freq_factor: 4.0,
                original_max_position: 8192,
            }),
            storage: Storage::Bf16,
            files: vec![
                ModelFile::Safetensors,
                ModelFile::GgufQ8_0,
                ModelFile::GgufQ4KM,
            ],
            ..Self::tiny_llama()
        }
    }

    /// A Llama of 150 M parameters with random weights: larger than caches are, and all of its
    /// files are made in a minute. Widths are multiples of 256, as k-quants need them.
    pub fn llama_150m_shape() -> Self {
        Self {
            id: "llama-150m-shape".into(),
            seed: 20_260_115,
            vocab_size: 32_000,
            hidden_size: 768,
            intermediate_size: 2048,
            num_layers: 20,
            num_heads: 12,
            num_kv_heads: 4,
            storage: Storage::Bf16,
            files: vec![
                ModelFile::Safetensors,
                ModelFile::GgufF16,
                ModelFile::GgufQ8_0,
                ModelFile::GgufQ4KM,
            ],
            ..Self::tiny_llama()
        }
    }

    /// The embedded model with this id.
    pub fn named(id: &str) -> Option<Self> {
        Self::all().into_iter().find(|spec| spec.id == id)
    }

    /// The models that take seconds to make and to check: with plain RoPE, with Llama 3's scaled
    /// RoPE, with outliers, and with weights that were trained.
    pub const SMALL: [&str; 4] = ["tiny-llama", "tiny-llama3", "tiny-outliers", "tiny-stories"];

    /// `ids`, or the [small ones](Self::SMALL) where none are named.
    pub fn named_or_small(ids: &[String]) -> Vec<String> {
        match ids.is_empty() {
            true => Self::SMALL.map(str::to_owned).to_vec(),
            false => ids.to_vec(),
        }
    }

    /// Every embedded model: the trained one, the tiny ones, then those of a real model's shape.
    pub fn all() -> Vec<Self> {
        vec![
            Self::tiny_stories(),
            Self::tiny_llama(),
            Self::tiny_llama3(),
            Self::tiny_outliers(),
            Self::tiny_mistral(),
            Self::tiny_phi3(),
            Self::tiny_qwen3(),
            Self::tiny_sharded(),
            Self::llama_150m_shape(),
            Self::llama_3_2_1b_shape(),
        ]
    }

    /// The ids of [all](Self::all) embedded models, in the same order.
    pub fn ids() -> Vec<String> {
        Self::all().into_iter().map(|spec| spec.id).collect()
    }

    /// Names of the files that hold the weights in safetensors: one, or the shards in order.
    pub fn safetensors_names(&self) -> Vec<String> {
        let shards = self.shards;
        match shards {
            1 => vec![SAFETENSORS.to_owned()],
            _ => (1..=shards)
                .map(|shard| format!("model-{shard:05}-of-{shards:05}.safetensors"))
                .collect(),
        }
    }

    /// Names of all files `generate` writes for this spec, weights and metadata.
    pub fn file_names(&self) -> Vec<String> {
        let metadata = ["config.json", "tokenizer.json", "tokenizer_config.json"];
        let mut names: Vec<String> = metadata.map(str::to_owned).into();
        for file in &self.files {
            match file {
                ModelFile::Safetensors => {
                    names.extend(self.safetensors_names());
                    if self.shards > 1 {
                        names.push(SAFETENSORS_INDEX.to_owned());
                    }
                }
                _ => names.push(file.name().to_owned()),
            }
        }
        names
    }

    /// RoPE frequencies before any scaling, radians per position, one per pair of dimensions:
    /// `theta^(-2i / head_dim)`.
    ///
    /// Computed by square roots and products only. `powf` is libm, whose last place differs between
    /// machines, and these numbers reach the bytes of the files.
    pub fn rope_frequencies(&self) -> Vec<f64> {
        let pairs = self.head_dim / 2;
        assert!(
            pairs.is_power_of_two(),
            "half the head width must be a power of two"
        );
        let root = (0..pairs.ilog2()).fold(self.rope_theta, |x, _| x.sqrt());
        let mut power = 1.0;
        (0..pairs)
            .map(|_| {
                let frequency = 1.0 / power;
                power *= root;
                frequency
            })
            .collect()
    }

    /// The divisors of the frequencies in Llama 3's scaling (llama.cpp's `rope_freqs.weight`), or
    /// `None` for plain RoPE.
    pub fn rope_factors(&self) -> Option<Vec<f64>> {
        let scaling = self.rope_scaling?;
        let divisor = |frequency| scaling.divisor(2.0 * std::f64::consts::PI / frequency);
        Some(self.rope_frequencies().into_iter().map(divisor).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequencies_agree_with_powf() {
        for spec in ModelSpec::all() {
            for (i, f) in spec.rope_frequencies().into_iter().enumerate() {
                let exact = spec.rope_theta.powf(-2.0 * i as f64 / spec.head_dim as f64);
                assert!((f / exact - 1.0).abs() < 1e-12, "{} pair {i}", spec.id);
            }
        }
    }

    #[test]
    fn llama3_factors_keep_short_waves_and_stretch_long_ones() {
        let factors = ModelSpec::llama_3_2_1b_shape().rope_factors().unwrap();
        assert_eq!(factors[0], 1.0);
        assert_eq!(factors[31], 32.0);
        assert!(factors.is_sorted());
        assert!(
            factors.iter().any(|&f| f > 1.0 && f < 32.0),
            "a smooth passage"
        );
        assert!(ModelSpec::tiny_llama().rope_factors().is_none());
    }

    #[test]
    fn shards_are_named_as_transformers_names_them() {
        let names = ModelSpec::tiny_sharded().file_names();
        assert_eq!(
            names[3..6],
            [
                "model-00001-of-00002.safetensors",
                "model-00002-of-00002.safetensors",
                "model.safetensors.index.json"
            ]
        );
        let names = ModelSpec::tiny_llama().file_names();
        assert_eq!(names[3..5], ["model.safetensors", "model-f32.gguf"]);
    }

    #[test]
    fn every_dimension_suits_k_quants() {
        for spec in ModelSpec::all() {
            let query = spec.num_heads * spec.head_dim;
            for width in [spec.hidden_size, spec.intermediate_size, query] {
                assert_eq!(width % 256, 0, "{}: {width}", spec.id);
            }
        }
    }

    #[test]
    fn named_finds_every_model() {
        for spec in ModelSpec::all() {
            assert_eq!(ModelSpec::named(&spec.id), Some(spec));
        }
        assert_eq!(ModelSpec::named("gpt-7"), None);
    }
}
