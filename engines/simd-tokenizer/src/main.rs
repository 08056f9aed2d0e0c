//! `tokenizer-micro`: the program of the suite `micro/tokenizer`, with several ways to encode a
//! batch of texts with one tokenizer.json. A call encodes every text of the case; its output is
//! the ids, which must be exactly those of `tokenizers`.

mod encoders;

use encoders::{Encoded, Encoder};
use models::prng::Rng;
use protocol::engine::EngineError;
use protocol::micro::wire::{Hello, Load, Prepare};
use protocol::micro::{Suite, parameter, unknown_variant};
use std::path::Path;
use std::process::ExitCode;
use tokenizers::Tokenizer;

fn main() -> ExitCode {
    protocol::micro::main::<Tokenizing>()
}

struct Tokenizing {
    encoder: Encoder,
    seed: u64,
    texts: Vec<String>,
    encoded: Encoded,
}

impl Suite for Tokenizing {
    fn open(load: &Load) -> Result<(Self, Hello), EngineError> {
        // Set to its default, whatever TOKENIZERS_PARALLELISM this process has inherited.
        tokenizers::utils::parallelism::set_parallelism(true);
        tokenizers_next::parallelism::set_parallelism(true);
        let file = Path::new(&load.model_dir).join("tokenizer.json");
        let tokenizer = Tokenizer::from_file(&file)
            .map_err(|error| EngineError::internal(format!("{}: {error}", file.display())))?;
        let encoder = Encoder::new(&load.variant, &tokenizer)
            .map_err(EngineError::unsupported)?
            .ok_or_else(|| unknown_variant(load))?;
        let hello = Hello {
            version: encoder.version(),
            notes: encoder.notes(),
            ..Hello::default()
        };
        let suite = Self {
            encoder,
            seed: load.seed,
            texts: Vec::new(),
            encoded: Encoded::default(),
        };
        Ok((suite, hello))
    }

    fn prepare(&mut self, case: &Prepare) -> Result<f64, EngineError> {
        let (count, chars) = (parameter(case, "texts")?, parameter(case, "chars")?);
        let is_mixed = parameter(case, "mixed")? != 0;
        self.texts = texts(self.seed, count, chars, is_mixed);
        self.encoded = Encoded::default();
        Ok(self.texts.iter().map(String::len).sum::<usize>() as f64)
    }

    fn call(&mut self) -> Result<(), EngineError> {
        self.encoded = self
            .encoder
            .encode(&self.texts)
            .map_err(EngineError::internal)?;
        Ok(())
    }

    /// For each text, the number of its ids, followed by the ids.
    fn output(&mut self) -> Result<Vec<f64>, EngineError> {
        Ok(self.encoded.values())
    }
}

/// Ranges of characters beyond ASCII, of which words are made.
const SCRIPTS: [(u32, u32); 7] = [
    (0xc0, 0x17f),      // Latin with accents
    (0x391, 0x3c9),     // Greek
    (0x410, 0x44f),     // Cyrillic
    (0x627, 0x64a),     // Arabic
    (0x4e00, 0x4fff),   // CJK
    (0x3041, 0x3096),   // Hiragana
    (0x1f600, 0x1f64f), // emoji
];

/// Make `count` texts of about `chars` characters each from a seed: stories like those that the
/// tokenizer was trained on, or words of many scripts with emoji among them. No two are alike.
fn texts(seed: u64, count: usize, chars: usize, is_mixed: bool) -> Vec<String> {
    (0..count as u64)
        .map(|index| {
            let seed = models::prng::bits(seed, index);
            match is_mixed {
                true => mixed(seed, chars),
                false => models::text::text(seed, chars)
                    .chars()
                    .take(chars)
                    .collect(),
            }
        })
        .collect()
}

fn mixed(seed: u64, chars: usize) -> String {
    let mut rng = Rng::new(seed, "mixed text");
    let mut text = String::new();
    let mut length = 0;
    while length < chars {
        let (first, last) = SCRIPTS[rng.below(SCRIPTS.len())];
        let letters = rng.between(1, 8);
        for _ in 0..letters {
            let code = first + rng.below((last - first + 1) as usize) as u32;
            text.push(char::from_u32(code).unwrap_or('?'));
        }
        text.push_str(match rng.below(8) {
            0 => ", ",
            1 => ".\n",
            2 => " 12 ",
            _ => " ",
        });
        length += letters + 2;
    }
    text
}
