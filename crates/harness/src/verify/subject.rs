//! Names what a golden is of: a model, with the weights that the reference reads.

use schema::golden::ParityLimits;
use schema::registry::Target;

/// A model, and the weights of it that the reference reads.
#[derive(Clone, Copy)]
pub struct Subject<'a> {
    /// The model's id.
    pub model: &'a str,
    /// The weights file of few bits that is read as f32; `None`: the model's own weights.
    pub own_weights: Option<&'a str>,
}

impl<'a> Subject<'a> {
    /// A model with its own weights.
    pub fn model(model: &'a str) -> Self {
        Self {
            model,
            own_weights: None,
        }
    }

    /// What the reference reads for these targets.
    pub fn all(
        model: &'a str,
        limits: &ParityLimits,
        targets: impl IntoIterator<Item = &'a Target>,
    ) -> Vec<Self> {
        let references = limits.references(targets).into_iter();
        references
            .map(|own_weights| Self { model, own_weights })
            .collect()
    }

    /// Name it for messages.
    pub(super) fn in_words(&self) -> String {
        match self.own_weights {
            Some(weights) => format!("{} with the weights of {weights}", self.model),
            None => self.model.to_owned(),
        }
    }
}
