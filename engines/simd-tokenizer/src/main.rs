//! `tokenizer-micro`: the ways to encode a batch of texts with one tokenizer.json, for
//! the suite `micro/tokenizer`. A call encodes every text of the case; its output is
//! the ids, which must be those of `tokenizers` exactly.

mod texts;
mod ways;

use protocol::engine::EngineError;
use protocol::micro::wire::{Hello, Load, Prepare};
use protocol::micro::{Suite, parameter, unknown_variant};
use std::path::Path;
use std::process::ExitCode;
use tokenizers::Tokenizer;
use ways::{Encoded, Way};

fn main() -> ExitCode {
    protocol::micro::main::<Tokenizing>()
}

struct Tokenizing {
    way: Way,
    seed: u64,
    texts: Vec<String>,
    encoded: Encoded,
}

impl Suite for Tokenizing {
    fn open(load: &Load) -> Result<(Self, Hello), EngineError> {
        // As it comes, whatever TOKENIZERS_PARALLELISM this process has inherited.
        tokenizers::utils::parallelism::set_parallelism(true);
        let file = Path::new(&load.model_dir).join("tokenizer.json");
        let tokenizer = Tokenizer::from_file(&file)
            .map_err(|error| EngineError::internal(format!("{}: {error}", file.display())))?;
        let way = Way::new(&load.variant, &tokenizer)
            .map_err(EngineError::unsupported)?
            .ok_or_else(|| unknown_variant(load))?;
        let hello = Hello {
            version: way.version(),
            notes: way.notes(),
            ..Hello::default()
        };
        let suite = Self {
            way,
            seed: load.seed,
            texts: Vec::new(),
            encoded: Encoded::default(),
        };
        Ok((suite, hello))
    }

    fn prepare(&mut self, case: &Prepare) -> Result<f64, EngineError> {
        let (count, chars) = (parameter(case, "texts")?, parameter(case, "chars")?);
        let is_mixed = parameter(case, "mixed")? != 0;
        self.texts = texts::texts(self.seed, count, chars, is_mixed);
        self.encoded = Encoded::default();
        Ok(self.texts.iter().map(String::len).sum::<usize>() as f64)
    }

    fn call(&mut self) -> Result<(), EngineError> {
        self.encoded = self
            .way
            .encode(&self.texts)
            .map_err(EngineError::internal)?;
        Ok(())
    }

    /// For each text how many ids, then the ids.
    fn output(&mut self) -> Result<Vec<f64>, EngineError> {
        Ok(self.encoded.values())
    }
}
