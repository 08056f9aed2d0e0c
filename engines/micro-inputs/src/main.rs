//! `micro-reference`: computes the outputs that the harness compares every other program's output
//! with.

use micro_inputs::gpt::GptConfig;
use micro_inputs::reference;
use micro_inputs::sdpa::{Inputs, Shape};
use protocol::engine::EngineError;
use protocol::micro::wire::{Hello, Load, Prepare};
use protocol::micro::{Suite, unknown_variant};
use std::process::ExitCode;

fn main() -> ExitCode {
    protocol::micro::main::<Reference>()
}

struct Reference {
    seed: u64,
    work: Work,
    output: Vec<f64>,
}

enum Work {
    Sdpa(Option<Shape>),
    Gpt(Option<GptConfig>),
}

impl Suite for Reference {
    fn open(load: &Load) -> Result<(Self, Hello), EngineError> {
        let work = match load.variant.as_str() {
            "sdpa" => Work::Sdpa(None),
            "gpt" => Work::Gpt(None),
            _ => return Err(unknown_variant(load)),
        };
        let reference = Self {
            seed: load.seed,
            work,
            output: Vec::new(),
        };
        Ok((reference, Hello::of(env!("CARGO_PKG_VERSION"))))
    }

    fn prepare(&mut self, case: &Prepare) -> Result<f64, EngineError> {
        match &mut self.work {
            Work::Sdpa(shape) => Ok(shape.insert(Shape::read(case)?).flop()),
            Work::Gpt(config) => Ok(config.insert(GptConfig::read(case)?).tokens() as f64),
        }
    }

    fn call(&mut self) -> Result<(), EngineError> {
        self.output = match &self.work {
            Work::Sdpa(Some(shape)) => reference::sdpa(&Inputs::draw(self.seed, shape), shape),
            Work::Gpt(Some(config)) => reference::gpt(config, self.seed),
            Work::Sdpa(None) | Work::Gpt(None) => {
                return Err(EngineError::internal("no case is prepared"));
            }
        };
        Ok(())
    }

    fn output(&mut self) -> Result<Vec<f64>, EngineError> {
        Ok(self.output.clone())
    }
}
