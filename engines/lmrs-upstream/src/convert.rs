//! Converts safetensors to LMRS, lm.rs's own format (version 4), as its `export.py` writes it: a
//! 256-byte header, then tensors by kind, layer by layer. Each quantised tensor is its int8 values
//! followed by its f32 scales, one per group.

use crate::config::Config;
use half::{bf16, f16};
use memmap2::Mmap;
use safetensors::{Dtype, SafeTensors, tensor::TensorView};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

const MAGIC: u32 = 0x7372_6d6c;
const VERSION: u32 = 4;
const HEADER_BYTES: usize = 256;
/// The header's code for a Llama.
const LLAMA: u8 = 1;

/// How the weights are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// f32 values.
    F32,
    /// Symmetric int8 with one f32 scale for each group of this many weights.
    Q8_0 { group: u32 },
}

impl Storage {
    /// Return the storage for `precision` and a model of this width, with groups as large as
    /// `export.py`'s.
    pub fn new(precision: &str, hidden_size: u32) -> Option<Self> {
        match precision {
            "f32" => Some(Self::F32),
            "q8_0" => {
                let mut group = 128;
                while hidden_size % group != 0 {
                    group /= 2;
                }
                Some(Self::Q8_0 { group })
            }
            _ => None,
        }
    }

    /// Return the bytes that `count` weights take.
    pub fn bytes(self, count: u64) -> u64 {
        match self {
            Self::F32 => 4 * count,
            Self::Q8_0 { group } => count + 4 * count / u64::from(group),
        }
    }
}

/// Convert the weights of `sources`, a file or its shards, into `target`. On failure nothing is
/// left of it.
pub fn convert(
    sources: &[PathBuf],
    config: &Config,
    storage: Storage,
    target: &Path,
) -> Result<(), String> {
    let maps: Vec<(&Path, Mmap)> = sources
        .iter()
        .map(|path| Ok((path.as_path(), map(path)?)))
        .collect::<Result<_, String>>()?;
    let files = maps.iter().map(|(path, map)| {
        let tensors = SafeTensors::deserialize(map).map_err(|e| in_file(path, e))?;
        Ok((*path, tensors))
    });
    let files: Vec<(&Path, SafeTensors)> = files.collect::<Result<_, String>>()?;
    let staged = target.with_extension("lmrs.new");
    let written = write(&files, config, storage, &staged).and_then(|()| {
        std::fs::rename(&staged, target).map_err(|e| in_file(target, format!("can't be made: {e}")))
    });
    if written.is_err() {
        // It has gigabytes, and the next attempt begins anew.
        let _ = std::fs::remove_file(&staged);
    }
    written
}

/// Write all tensors of `files` into `path`, to the disk.
fn write(
    files: &[(&Path, SafeTensors)],
    config: &Config,
    storage: Storage,
    path: &Path,
) -> Result<(), String> {
    let failed = |e: std::io::Error| format!("{} can't be written: {e}", path.display());
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path).map_err(failed)?);
    out.write_all(&header(config, storage)).map_err(failed)?;
    for (name, quantised) in order(config.layers) {
        let values = find(files, &name)?;
        let storage = if quantised { storage } else { Storage::F32 };
        out.write_all(&encode(&values, storage)).map_err(failed)?;
    }
    out.into_inner()
        .map_err(|e| failed(e.into_error()))?
        .sync_all()
        .map_err(failed)
}

fn map(path: &Path) -> Result<Mmap, String> {
    let file = File::open(path).map_err(|e| in_file(path, e))?;
    // SAFETY: the benchmark's weight files are not written to while it runs.
    unsafe { Mmap::map(&file) }.map_err(|e| in_file(path, e))
}

/// Return the values of a tensor, from whichever file it is in.
fn find(files: &[(&Path, SafeTensors)], name: &str) -> Result<Vec<f32>, String> {
    let mut all = files.iter();
    let found = all.find_map(|(path, tensors)| Some((*path, tensors.tensor(name).ok()?)));
    let (path, view) = found.ok_or_else(|| {
        let first = files.first().map_or(Path::new("?"), |(path, _)| path);
        in_file(first, format!("no tensor {name}"))
    })?;
    values(&view).map_err(|e| in_file(path, format!("{name}: {e}")))
}

fn in_file(path: &Path, error: impl std::fmt::Display) -> String {
    format!("{}: {error}", path.display())
}

fn header(config: &Config, storage: Storage) -> Vec<u8> {
    let mut header = Vec::with_capacity(HEADER_BYTES);
    for number in [
        MAGIC,
        VERSION,
        config.hidden_size,
        config.intermediate_size,
        config.layers,
        config.heads,
        config.head_dim,
        config.kv_heads,
        config.vocab_size,
        config.max_position,
    ] {
        header.extend(number.to_le_bytes());
    }
    header.extend(config.rms_norm_eps.to_le_bytes());
    header.extend(config.rope_theta.to_le_bytes());
    let (kind, group) = match storage {
        Storage::F32 => (0, 128),
        Storage::Q8_0 { group } => (1, group),
    };
    header.extend([kind, LLAMA]);
    header.extend(group.to_le_bytes());
    header.push(0); // no pictures
    header.resize(HEADER_BYTES, 0);
    header
}

/// Return every tensor in the file's order, and whether it is quantised.
fn order(layers: u32) -> Vec<(String, bool)> {
    let mut names = vec![("model.embed_tokens.weight".to_string(), true)];
    let kinds = [
        ("input_layernorm", false),
        ("self_attn.q_proj", true),
        ("self_attn.k_proj", true),
        ("self_attn.v_proj", true),
        ("self_attn.o_proj", true),
        ("post_attention_layernorm", false),
        ("mlp.gate_proj", true),
        ("mlp.down_proj", true),
        ("mlp.up_proj", true),
    ];
    for (kind, quantised) in kinds {
        names.extend(
            (0..layers).map(|layer| (format!("model.layers.{layer}.{kind}.weight"), quantised)),
        );
    }
    names.push(("model.norm.weight".to_string(), false));
    names
}

fn values(view: &TensorView) -> Result<Vec<f32>, String> {
    let data = view.data();
    let pair = |b: &[u8]| [b[0], b[1]];
    match view.dtype() {
        Dtype::F32 => Ok(data
            .chunks_exact(4)
            .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
            .collect()),
        Dtype::BF16 => Ok(data
            .chunks_exact(2)
            .map(|b| bf16::from_le_bytes(pair(b)).to_f32())
            .collect()),
        Dtype::F16 => Ok(data
            .chunks_exact(2)
            .map(|b| f16::from_le_bytes(pair(b)).to_f32())
            .collect()),
        other => Err(format!("its values are {other:?}, not f32, bf16 or f16")),
    }
}

fn encode(values: &[f32], storage: Storage) -> Vec<u8> {
    let Storage::Q8_0 { group } = storage else {
        return values.iter().flat_map(|v| v.to_le_bytes()).collect();
    };
    let mut bytes = Vec::with_capacity(storage.bytes(values.len() as u64) as usize);
    let mut scales = Vec::with_capacity(4 * values.len() / group as usize);
    for group in values.chunks(group as usize) {
        let scale = group.iter().fold(0f32, |max, v| max.max(v.abs())) / 127.0;
        // In a group of zeros any scale works, but must not divide by zero.
        let divisor = if scale == 0.0 { 1.0 } else { scale };
        bytes.extend(
            group
                .iter()
                .map(|v| (v / divisor).round_ties_even() as i8 as u8),
        );
        scales.extend(scale.to_le_bytes());
    }
    bytes.extend(scales);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn int8_first_then_a_scale_for_each_group() {
        let bytes = encode(&[1.0, -2.0, 0.0, 0.0], Storage::Q8_0 { group: 2 });
        let scale = 2f32 / 127.0;
        // 63.5 rounds to the even 64.
        assert_eq!(bytes[..4], [64, (-127i8) as u8, 0, 0]);
        assert_eq!(bytes[4..8], scale.to_le_bytes());
        assert_eq!(bytes[8..], 0f32.to_le_bytes());
        assert_eq!(bytes.len() as u64, Storage::Q8_0 { group: 2 }.bytes(4));
    }

    #[test]
    fn a_tensor_is_found_in_whichever_shard_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let shard = |name: &str, tensor: &str, value: f32| {
            let path = dir.path().join(name);
            let bytes = value.to_le_bytes();
            let view = TensorView::new(Dtype::F32, vec![1], &bytes).unwrap();
            safetensors::serialize_to_file([(tensor, view)], None, &path).unwrap();
            path
        };
        let paths = [shard("1", "a", 1.0), shard("2", "b", 2.0)];
        let maps = paths.each_ref().map(|path| map(path).unwrap());
        let files: Vec<(&Path, SafeTensors)> = paths
            .iter()
            .zip(&maps)
            .map(|(path, map)| (path.as_path(), SafeTensors::deserialize(map).unwrap()))
            .collect();
        assert_eq!(find(&files, "a").unwrap(), [1.0]);
        assert_eq!(find(&files, "b").unwrap(), [2.0]);
        assert!(find(&files, "c").unwrap_err().ends_with("no tensor c"));
    }

    #[test]
    fn a_failed_conversion_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let source = dir.path().join("model.safetensors");
        let bytes = 1f32.to_le_bytes();
        let view = TensorView::new(Dtype::F32, vec![1], &bytes).unwrap();
        safetensors::serialize_to_file([("other", view)], None, &source).unwrap();
        let config = Config {
            hidden_size: 1,
            intermediate_size: 1,
            layers: 1,
            heads: 1,
            head_dim: 1,
            kv_heads: 1,
            vocab_size: 1,
            max_position: 1,
            rms_norm_eps: 1e-5,
            rope_theta: 10_000.0,
            position_gap: None,
        };
        let target = dir.path().join("model.lmrs");
        let failed = convert(&[source], &config, Storage::F32, &target).unwrap_err();
        assert!(
            failed.ends_with("no tensor model.embed_tokens.weight"),
            "{failed}"
        );
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_group_divides_the_width() {
        assert_eq!(
            Storage::new("q8_0", 512),
            Some(Storage::Q8_0 { group: 128 })
        );
        assert_eq!(Storage::new("q8_0", 96), Some(Storage::Q8_0 { group: 32 }));
        assert_eq!(Storage::new("f16", 512), None);
    }

    #[test]
    fn every_tensor_of_a_llama_once() {
        let names = order(2);
        assert_eq!(names.len(), 2 + 2 * 9);
        assert_eq!(names[1].0, "model.layers.0.input_layernorm.weight");
        assert_eq!(names[2].0, "model.layers.1.input_layernorm.weight");
    }
}
