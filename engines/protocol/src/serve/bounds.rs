//! Which requests make sense for what was loaded. It deliberately knows nothing
//! of the engine: what that cannot do, it says itself.

use crate::wire::{Generate, Score};

/// The answer to a second `load`.
pub const LOADED_ALREADY: &str = "a model is loaded already; start another process";

/// What was loaded for.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// [`crate::wire::Load::max_context`].
    pub max_context: u32,
}

impl Bounds {
    /// Whether a generation fits; otherwise why not.
    pub fn generate(&self, generate: &Generate) -> Result<(), String> {
        let total = generate.prompt_ids.len() + generate.new_tokens as usize;
        if generate.prompt_ids.is_empty() {
            Err("the prompt is empty".to_string())
        } else if generate.new_tokens == 0 {
            Err("new_tokens is 0".to_string())
        } else {
            self.length(total)
        }
    }

    /// Whether a score fits; otherwise why not.
    pub fn score(&self, score: &Score) -> Result<(), String> {
        let (n, k) = (score.ids.len(), score.ask.len());
        if k == 0 || k > n {
            return Err(format!("{k} positions asked for, {n} ids given"));
        }
        self.length(n)
    }

    fn length(&self, tokens: usize) -> Result<(), String> {
        if tokens <= self.max_context as usize {
            return Ok(());
        }
        Err(format!(
            "{tokens} tokens are more than the max_context of {}",
            self.max_context
        ))
    }
}
