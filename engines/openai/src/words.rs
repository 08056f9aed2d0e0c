//! The model's tokenizer: prompts as text where a server takes no token ids, and
//! how many tokens a piece of text is. What a server makes of a text is its own
//! affair; a prompt that wouldn't come back as the same ids is refused.

use protocol::engine::EngineError;
use protocol::wire::FailureKind;
use serde_json::Value;
use std::path::Path;
use tokenizers::Tokenizer;

/// A tokenizer and the model's BOS token.
pub struct Words {
    tokenizer: Tokenizer,
    bos: Option<u32>,
}

impl Words {
    /// From `tokenizer.json` and `config.json` of a model directory.
    pub fn load(model_dir: &Path) -> Result<Self, EngineError> {
        let unavailable = |name: &str, why: String| {
            let message = format!(
                "{name} of the model can't be used ({why}): point at the directory of the model that the server serves"
            );
            EngineError::new(FailureKind::Unavailable, message)
        };
        let tokenizer = Tokenizer::from_file(model_dir.join("tokenizer.json"))
            .map_err(|error| unavailable("tokenizer.json", error.to_string()))?;
        let config = std::fs::read(model_dir.join("config.json"))
            .map_err(|error| unavailable("config.json", error.to_string()))?;
        let config: Value = serde_json::from_slice(&config)
            .map_err(|error| unavailable("config.json", error.to_string()))?;
        let bos = config["bos_token_id"].as_u64();
        Ok(Self {
            tokenizer,
            bos: bos.map(|id| id as u32),
        })
    }

    /// A few ids to try a server with, beginning with BOS where the model has one.
    pub fn sample(&self) -> Result<Vec<u32>, EngineError> {
        let text = "The weather today is";
        let encoding = self.tokenizer.encode_fast(text, false);
        let encoding = encoding.map_err(EngineError::internal)?;
        Ok(self
            .bos
            .into_iter()
            .chain(encoding.get_ids().iter().copied())
            .collect())
    }

    /// Whether the tokenizer by itself begins a text with BOS.
    pub fn adds_bos(&self) -> bool {
        let encoding = self.tokenizer.encode_fast("a", true);
        encoding.is_ok_and(|encoding| encoding.get_ids().first().copied() == self.bos)
            && self.bos.is_some()
    }

    /// How many tokens `text` is by itself.
    pub fn count(&self, text: &str) -> usize {
        let encoding = self.tokenizer.encode_fast(text, false);
        encoding.map_or(0, |encoding| encoding.len())
    }

    /// `ids` as a text that encodes to them again. A BOS at the beginning is
    /// written out only where `write_bos` says so: most servers add it.
    pub fn prompt(&self, ids: &[u32], write_bos: bool) -> Result<String, EngineError> {
        let has_bos = self.bos.is_some() && ids.first().copied() == self.bos;
        let rest = &ids[usize::from(has_bos)..];
        let text = self
            .tokenizer
            .decode(rest, false)
            .map_err(EngineError::internal)?;
        let again = self.tokenizer.encode_fast(text.as_str(), false);
        let again = again.map_err(EngineError::internal)?;
        if again.get_ids() != rest {
            return Err(EngineError::unsupported(format!(
                "the server takes no token ids, and this prompt can't be sent as text: its {} tokens would be read as {} others",
                rest.len(),
                again.len()
            )));
        }
        let bos = self.bos.filter(|_| has_bos && write_bos);
        let bos = bos.and_then(|id| self.tokenizer.id_to_token(id));
        Ok(format!("{}{text}", bos.unwrap_or_default()))
    }
}
