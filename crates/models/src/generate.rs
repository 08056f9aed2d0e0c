//! Writes all files of a model into a folder.
//!
//! Files that exist are written again, and a killed run leaves half a file: the caller generates
//! into a folder of its own and takes the files from there.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result};

use crate::bpe::Bpe;
use crate::config::{config_json, tokenizer_config_json};
use crate::spec::{ModelFile, ModelSpec, SAFETENSORS_INDEX};
use crate::tokenizer::{tokenizer_json, vocabulary};
use crate::trained::Origin;
use crate::weights::{TensorDef, tensors};
use crate::{gguf, safetensors_file, stream};

/// Writes `config.json`, `tokenizer.json`, `tokenizer_config.json` and the weight files of `spec`
/// into `dir`, which is made if it is missing. The weights come from `origin`.
///
/// `progress` is called with what is being made and the fraction of the whole that is done, 0 to 1,
/// and returns whether to continue.
///
/// # Errors
/// An I/O error (a full disk, a folder that cannot be written), or `progress` returned false.
pub fn generate(
    spec: &ModelSpec,
    origin: Origin,
    dir: &Path,
    progress: &mut dyn FnMut(&str, f64) -> bool,
) -> Result<()> {
    fs::create_dir_all(dir).with_context(|| format!("making {}", dir.display()))?;
    stream::stop_unless(progress("tokenizer.json", 0.0))?;
    let bpe = vocabulary(spec)?;
    write_text(dir, "tokenizer.json", &tokenizer_json(&bpe))?;
    write_text(dir, "tokenizer_config.json", &tokenizer_config_json(spec))?;
    write_model(spec, origin, &bpe, dir, progress)
}

/// Writes `config.json` and the weight files of `spec`, with weights from its seed, into the
/// existing `dir`. Every token in a GGUF file is `x`. This is for tests of engines, which ask with
/// ids: training a vocabulary takes longer than the rest, and gives at least 259 tokens.
///
/// # Errors
/// An I/O error.
pub fn generate_without_tokenizer(spec: &ModelSpec, dir: &Path) -> Result<()> {
    let bpe = Bpe {
        tokens: vec!["x".into(); spec.vocab_size],
        merges: Vec::new(),
    };
    write_model(spec, Origin::Seed, &bpe, dir, &mut |_, _| true)
}

/// Writes `config.json` and the weight files of `spec`. `bpe` is the vocabulary in GGUF files; for
/// `progress` see [`generate`].
fn write_model(
    spec: &ModelSpec,
    origin: Origin,
    bpe: &Bpe,
    dir: &Path,
    progress: &mut dyn FnMut(&str, f64) -> bool,
) -> Result<()> {
    write_text(dir, "config.json", &config_json(spec))?;
    let weights = tensors(spec).iter().map(TensorDef::len).sum::<usize>() as f64;
    let total: f64 = spec.files.iter().map(|file| weights * cost(*file)).sum();
    let mut finished = 0.0;
    for &file in &spec.files {
        let mut done = |count: usize| {
            finished += count as f64 * cost(file);
            stream::stop_unless(progress(file.name(), finished / total))
        };
        if file != ModelFile::Safetensors {
            write_file(dir, file.name(), |out| {
                gguf::write(spec, origin, bpe, file, out, &mut done)
            })?;
            continue;
        }
        for (name, defs) in safetensors_file::files(spec) {
            write_file(dir, &name, |out| {
                safetensors_file::write(spec, origin, &defs, out, &mut done)
            })?;
        }
        if spec.shards > 1 {
            let index = safetensors_file::index_json(spec);
            write_text(dir, SAFETENSORS_INDEX, &index)?;
        }
    }
    progress("done", 1.0);
    Ok(())
}

/// Rough time per weight, relative to the cheapest format, so that progress advances evenly.
fn cost(file: ModelFile) -> f64 {
    match file {
        ModelFile::GgufQ4KM => 8.0,
        _ => 1.0,
    }
}

fn write_text(dir: &Path, name: &str, text: &str) -> Result<()> {
    write_file(dir, name, |out| Ok(out.write_all(text.as_bytes())?))
}

fn write_file(
    dir: &Path,
    name: &str,
    content: impl FnOnce(&mut dyn Write) -> Result<()>,
) -> Result<()> {
    let path = dir.join(name);
    let write = || -> Result<()> {
        let mut out = BufWriter::with_capacity(1 << 20, File::create(&path)?);
        content(&mut out)?;
        Ok(out.flush()?)
    };
    write().with_context(|| format!("writing {}", path.display()))
}
