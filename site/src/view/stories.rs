//! What a model that was trained here writes, for the methodology page.

use crate::fmt;
use schema::train::{Shipped, Written};
use serde::Serialize;

/// A trained model in words, and its stories.
#[derive(Serialize)]
pub struct Storyteller {
    model: String,
    about: String,
    command: String,
    found: String,
    stories: Vec<Story>,
}

#[derive(Serialize)]
struct Story {
    prompt: String,
    text: String,
    /// What is wrong with it; empty for nothing.
    fault: String,
}

/// In words.
pub fn storyteller(shipped: &Shipped) -> Storyteller {
    let training = &shipped.training;
    let about = format!(
        "{}: {} steps, {} tokens, on Burn’s {} backend. Over {} tokens of stories that it never saw \
         its perplexity is {:.3}.",
        training.model,
        fmt::count(training.steps as u64),
        fmt::count(training.tokens),
        training.backend,
        fmt::count(training.perplexity_tokens),
        training.perplexity
    );
    let stories = shipped.stories.as_ref();
    let found = stories.map(|stories| {
        format!(
            "Given the first sentence of a story that it never saw, it wrote these ({}, greedy). {} of {} \
             end by themselves and could have come from the grammar that it learned from.",
            stories.reference,
            stories.whole(),
            stories.stories.len()
        )
    });
    Storyteller {
        model: training.model.clone(),
        about,
        command: training.command.clone(),
        found: found.unwrap_or_default(),
        stories: stories
            .iter()
            .flat_map(|stories| &stories.stories)
            .map(story)
            .collect(),
    }
}

fn story(written: &Written) -> Story {
    let fault = match (written.ended, written.follows) {
        (false, _) => "It didn’t come to an end.",
        (true, false) => "It departs from the grammar.",
        (true, true) => "",
    };
    Story {
        prompt: written.prompt.clone(),
        text: written.text.clone(),
        fault: fault.to_owned(),
    }
}
