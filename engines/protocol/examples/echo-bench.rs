//! The smallest adapter, for the runtime's own tests: it counts upwards from the last id of the
//! prompt. It has no model, and misbehaves on request (see `prefill`), because the tests check
//! that the runtime copes.

use protocol::engine::{Engine, EngineError};
use protocol::wire::{Batching, Capabilities, Hello, Load, Loaded};
use std::process::ExitCode;

/// The size of the vocabulary.
const VOCABULARY: u32 = 16;

struct Echo {
    last: Vec<u32>,
}

impl Echo {
    fn step(&mut self, fed: Vec<u32>) -> Vec<u32> {
        self.last = fed;
        self.last.iter().map(|id| (id + 1) % VOCABULARY).collect()
    }
}

impl Engine for Echo {
    fn hello(load: &Load) -> Hello {
        let batching = match load.variant == "alone" {
            true => Batching::None,
            false => Batching::StaticEqualLength,
        };
        Hello::new("echo", "1", Capabilities::new(batching)).with_build("features", "")
    }

    fn load(load: &Load) -> Result<(Self, Loaded), EngineError> {
        println!("a library greets you on standard output");
        if load.variant == "missing" {
            return Err(EngineError::unavailable("no such device"));
        }
        if load.backend == "absent" {
            return Err(EngineError::unavailable("no absent device"));
        }
        let loaded = Loaded {
            weight_bytes: 1,
            kv_bytes_per_token: 2,
            ..Loaded::default()
        };
        Ok((Self { last: Vec::new() }, loaded))
    }

    fn backends_by_hand() -> &'static [&'static str] {
        &["absent", "cpu"]
    }

    /// A prompt of 3 tokens runs out of memory, one of 4 panics, one of 5 prints to stdout.
    fn prefill(&mut self, prompts: &[&[u32]]) -> Result<Vec<u32>, EngineError> {
        match prompts[0].len() {
            3 => return Err(EngineError::oom("no room")),
            4 => panic!("four!"),
            5 => println!("{{\"ev\":\"done\"}}"),
            _ => {}
        }
        Ok(self.step(
            prompts
                .iter()
                .map(|prompt| prompt[prompt.len() - 1])
                .collect(),
        ))
    }

    fn decode(&mut self, tokens: &[u32]) -> Result<Vec<u32>, EngineError> {
        Ok(self.step(tokens.to_vec()))
    }

    fn logits(&mut self, row: usize) -> Result<Vec<f32>, EngineError> {
        let next = (self.last[row] + 1) % VOCABULARY;
        Ok((0..VOCABULARY)
            .map(|id| if id == next { 2f32.ln() } else { 0.0 })
            .collect())
    }
}

fn main() -> ExitCode {
    protocol::main::<Echo>()
}
