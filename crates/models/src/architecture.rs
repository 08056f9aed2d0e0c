//! The architectures of the models that are made here: their names, and how their tensors differ
//! from Llama's.
//!
//! The tensors themselves are defined in [`tensors`](crate::tensors).

/// A decoder architecture of transformers. All of them have RMSNorm, RoPE over whole heads,
/// grouped-query attention and a gated MLP with SiLU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Architecture {
    /// `LlamaForCausalLM`.
    Llama,
    /// `MistralForCausalLM` without a sliding window: Llama's arithmetic under another name.
    Mistral,
    /// `Phi3ForCausalLM`: query, key and value in one matrix, gate and up in another.
    Phi3,
    /// `Qwen3ForCausalLM`: queries and keys go through a norm per head before RoPE.
    Qwen3,
}

impl Architecture {
    /// All architectures.
    pub const ALL: [Self; 4] = [Self::Llama, Self::Mistral, Self::Phi3, Self::Qwen3];

    /// The architecture with this `model_type`, or `None` if it is unknown.
    pub fn named(model_type: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|known| known.model_type() == model_type)
    }

    /// The `model_type` in `config.json`.
    pub fn model_type(self) -> &'static str {
        match self {
            Self::Llama => "llama",
            Self::Mistral => "mistral",
            Self::Phi3 => "phi3",
            Self::Qwen3 => "qwen3",
        }
    }

    /// The name of the class in transformers.
    pub fn class_name(self) -> &'static str {
        match self {
            Self::Llama => "LlamaForCausalLM",
            Self::Mistral => "MistralForCausalLM",
            Self::Phi3 => "Phi3ForCausalLM",
            Self::Qwen3 => "Qwen3ForCausalLM",
        }
    }

    /// The value of `general.architecture` in a GGUF file. llama.cpp has no Mistral: it is a
    /// `llama` there.
    pub fn gguf_name(self) -> &'static str {
        match self {
            Self::Llama | Self::Mistral => "llama",
            Self::Phi3 => "phi3",
            Self::Qwen3 => "qwen3",
        }
    }

    /// Whether llama.cpp rotates neighbouring dimensions of this architecture, so that the rows of
    /// query and key are interleaved in its files. It rotates the two halves of the others' heads,
    /// as transformers does.
    pub fn interleaves_in_gguf(self) -> bool {
        self.gguf_name() == "llama"
    }

    /// Whether the query, key and value projections are one tensor, and gate and up another one.
    pub fn fuses_projections(self) -> bool {
        self == Self::Phi3
    }

    /// Whether queries and keys are normalised head by head.
    pub fn normalises_heads(self) -> bool {
        self == Self::Qwen3
    }
}
