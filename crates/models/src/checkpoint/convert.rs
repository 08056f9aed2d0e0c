//! Writes a model that the user brought as GGUF: tensor by tensor, so that memory holds pieces of
//! one tensor and never the whole model.
//!
//! The same files give the same bytes, except for Llama 3's RoPE factors: their last digit depends
//! on the machine's math library.

use super::shape::Shape;
use super::vocabulary::Vocabulary;
use super::weights::Weights;
use crate::gguf::{self, Metadata};
use crate::spec::ModelFile;
use crate::stream;
use crate::tensors::{TensorDef, tensors};
use anyhow::{Context, Result, ensure};
use std::io::Write;
use std::path::{Path, PathBuf};

/// A model that can be written as GGUF: everything that could make it impossible has been checked.
#[derive(Debug)]
pub struct Conversion {
    name: String,
    shape: Shape,
    vocabulary: Vocabulary,
    weights: Weights,
    begins_with_bos: bool,
}

impl Conversion {
    /// Open the model in `dir` with the safetensors `files`. `name` is the model's name in the GGUF
    /// file.
    ///
    /// # Errors
    /// In one line: whatever [`Shape::read`], [`Vocabulary::read`] and [`Weights::check`] refuse, a
    /// RoPE that GGUF files aren't made of here (other scalings, part of a head), or more tokens
    /// than embeddings.
    pub fn open(dir: &Path, files: &[PathBuf], name: &str) -> Result<Self> {
        let read = |file: &str| {
            let path = dir.join(file);
            std::fs::read(&path).with_context(|| format!("{} can't be read", path.display()))
        };
        let config = String::from_utf8(read("config.json")?).context("config.json is no text")?;
        let shape = Shape::read(&config)?;
        if let Some(scaling) = &shape.other_scaling {
            anyhow::bail!("RoPE is scaled by {scaling:?}, which can't be converted to GGUF here");
        }
        ensure!(
            shape.rotary_share == 1.0,
            "RoPE turns {} of a head, and GGUF files are made here where it turns all of it",
            shape.rotary_share
        );
        let tokenizer = read("tokenizer.json")?;
        let vocabulary = Vocabulary::read(&tokenizer)?;
        ensure!(
            vocabulary.len() <= shape.spec.vocab_size,
            "tokenizer.json has {} tokens and the embedding {} rows",
            vocabulary.len(),
            shape.spec.vocab_size
        );
        let weights = Weights::open(files)?;
        weights.check(&shape)?;
        Ok(Self {
            name: name.to_owned(),
            begins_with_bos: begins_with(&tokenizer, shape.bos_id),
            shape,
            vocabulary,
            weights,
        })
    }

    /// The approximate size of a file (bytes): that of its tensors, which are nearly all of it.
    pub fn bytes(&self, file: ModelFile) -> u64 {
        let spec = &self.shape.spec;
        let of = |def: &TensorDef| gguf::tensor_type(spec, def, file).bytes(def.len()) as u64;
        tensors(spec).iter().map(of).sum()
    }

    /// Write the whole file to `out`. `go_on` is called with the share of the weights that are
    /// written, 0 to 1, and returns whether to continue.
    ///
    /// # Errors
    /// An error of `out`, or `go_on` returned false.
    pub fn write(
        &self,
        file: ModelFile,
        out: &mut dyn Write,
        go_on: &mut dyn FnMut(f64) -> bool,
    ) -> Result<()> {
        let spec = &self.shape.spec;
        let defs = tensors(spec);
        let factors = self.shape.rope_factors();
        gguf::write_head(spec, file, &self.metadata(file), factors, out)?;
        let total: usize = defs.iter().map(TensorDef::len).sum();
        let mut written = 0;
        for def in &defs {
            let fill = |row: usize, out: &mut [f32]| self.weights.fill(def, row, out);
            gguf::write_tensor(spec, file, def, fill, out, &mut |weights| {
                written += weights;
                stream::stop_unless(go_on(written as f64 / total as f64))
            })?;
        }
        Ok(())
    }

    fn metadata(&self, file: ModelFile) -> Metadata {
        let original = self.shape.original_max_position;
        let window = self.shape.sliding_window.unwrap_or(0);
        let mut m = gguf::model_metadata(&self.shape.spec, &self.name, file, original, window);
        self.vocabulary
            .describe(&mut m, &self.shape, self.begins_with_bos);
        m
    }
}

/// Whether the tokenizer puts the token `bos` before every text.
fn begins_with(tokenizer: &[u8], bos: Option<usize>) -> bool {
    let Ok(tokenizer) = tokenizers::Tokenizer::from_bytes(tokenizer) else {
        return false;
    };
    let ids = tokenizer.encode("a", true);
    let first = ids.ok().and_then(|ids| ids.get_ids().first().copied());
    bos.is_some() && first.map(|id| id as usize) == bos
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gguf::ALIGNMENT;
    use crate::{ModelSpec, Origin, generate};
    use tempfile::TempDir;

    /// Generates a model; returns its directory and its safetensors files.
    fn generated(spec: &ModelSpec) -> (TempDir, Vec<PathBuf>) {
        let dir = tempfile::tempdir().unwrap();
        generate(spec, Origin::Seed, dir.path(), &mut |_, _| true).unwrap();
        let names = spec.safetensors_names().into_iter();
        let files = names.map(|name| dir.path().join(name)).collect();
        (dir, files)
    }

    /// Returns the file converted from a model's safetensors, and the file that the generator
    /// writes itself.
    fn both(spec: &ModelSpec, file: ModelFile) -> (Vec<u8>, Vec<u8>) {
        let (dir, files) = generated(spec);
        let conversion = Conversion::open(dir.path(), &files, &spec.id).unwrap();
        let (mut made, mut share) = (Vec::new(), 0.0);
        let mut go_on = |now| {
            share = now;
            true
        };
        conversion.write(file, &mut made, &mut go_on).unwrap();
        assert_eq!(share, 1.0);
        assert!(conversion.bytes(file) as usize <= made.len());
        (made, std::fs::read(dir.path().join(file.name())).unwrap())
    }

    /// Returns `spec` with few layers and a small vocabulary, because training the vocabulary takes
    /// longest.
    fn small(spec: ModelSpec, file: ModelFile) -> ModelSpec {
        ModelSpec {
            num_layers: 2,
            vocab_size: 512,
            tokenizer_vocab: 512,
            files: vec![ModelFile::Safetensors, file],
            ..spec
        }
    }

    /// Checks that after the header both files are equal: the one converted from safetensors, and
    /// the one made from the seed.
    fn tensors_agree(spec: ModelSpec, file: ModelFile) {
        let spec = small(spec, file);
        let (made, generated) = both(&spec, file);
        let all = tensors(&spec);
        let data: usize = all
            .iter()
            .map(|def| gguf::tensor_type(&spec, def, file).bytes(def.len()))
            .map(|bytes| bytes.next_multiple_of(ALIGNMENT))
            .sum();
        let tail = |bytes: &[u8]| bytes[bytes.len() - data..].to_vec();
        assert!(tail(&made) == tail(&generated), "{} {file:?}", spec.id);
        assert_eq!(made[..8], generated[..8]);
        assert_eq!(made[8..16], generated[8..16], "as many tensors");
    }

    #[test]
    fn every_architecture_is_written_as_the_generator_writes_it() {
        tensors_agree(ModelSpec::tiny_llama3(), ModelFile::GgufF16);
        tensors_agree(ModelSpec::tiny_sharded(), ModelFile::GgufQ8_0);
        tensors_agree(ModelSpec::tiny_mistral(), ModelFile::GgufQ8_0);
        tensors_agree(ModelSpec::tiny_qwen3(), ModelFile::GgufQ8_0);
        tensors_agree(ModelSpec::tiny_phi3(), ModelFile::GgufF16);
    }

    #[test]
    fn k_quants_are_the_same_too() {
        tensors_agree(ModelSpec::tiny_phi3(), ModelFile::GgufQ4KM);
    }

    #[test]
    fn the_metadata_say_the_same_of_the_model() {
        let spec = small(ModelSpec::tiny_llama3(), ModelFile::GgufF16);
        let (made, generated) = both(&spec, ModelFile::GgufF16);
        let text =
            |bytes: &[u8]| String::from_utf8_lossy(&bytes[..bytes.len().min(60_000)]).into_owned();
        let (made, generated) = (text(&made), text(&generated));
        for key in [
            "llama.context_length",
            "llama.rope.freq_base",
            "llama.attention.head_count_kv",
            "tokenizer.ggml.tokens",
        ] {
            let value = |text: &str| -> String {
                let at = text.find(key).unwrap_or_else(|| panic!("{key}"));
                text[at..].chars().take(key.len() + 8).collect()
            };
            assert_eq!(value(&made), value(&generated));
        }
        assert!(made.contains("tokenizer.ggml.pre"));
    }

    #[test]
    fn it_ends_when_it_is_told_to() {
        let spec = small(ModelSpec::tiny_stories(), ModelFile::GgufF16);
        let (dir, files) = generated(&spec);
        let conversion = Conversion::open(dir.path(), &files, "m").unwrap();
        let mut out = Vec::new();
        let ended = conversion.write(ModelFile::GgufF16, &mut out, &mut |share| share < 0.5);
        assert_eq!(ended.unwrap_err().to_string(), "interrupted");
        assert!((out.len() as u64) < conversion.bytes(ModelFile::GgufF16));
    }

    #[test]
    fn what_gguf_files_are_not_made_of_is_refused_before_anything_is_written() {
        let spec = small(ModelSpec::tiny_stories(), ModelFile::GgufF16);
        let (dir, files) = generated(&spec);
        let config = std::fs::read_to_string(dir.path().join("config.json")).unwrap();
        let why = |from: &str, to: &str| {
            std::fs::write(dir.path().join("config.json"), config.replace(from, to)).unwrap();
            let error = Conversion::open(dir.path(), &files, "m").unwrap_err();
            error.to_string()
        };
        let yarn = r#""rope_scaling": {"type": "yarn"}"#;
        assert!(why(r#""rope_scaling": null"#, yarn).contains("scaled by \"yarn\""));
        assert!(why(r#""vocab_size": 512"#, r#""vocab_size": 500"#).contains("512 tokens"));
        let half = r#""partial_rotary_factor": 0.5, "vocab_size""#;
        assert!(why(r#""vocab_size""#, half).contains("turns 0.5 of a head"));
    }
}
