//! Reads the tensors of safetensors files, one or several: their names and shapes, and their rows
//! as f32.
//!
//! Files are memory-mapped, so memory holds only what is being looked at.

use super::shape::Shape;
use crate::tensors::{TensorDef, tensors};
use anyhow::{Context, Result, anyhow, bail, ensure};
use half::{bf16, f16};
use memmap2::Mmap;
use safetensors::{Dtype, SafeTensorError, SafeTensors};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};

/// The place of a tensor in the files.
#[derive(Debug, Clone)]
struct Place {
    /// Index of the file.
    file: usize,
    /// Offset of its first byte in that file.
    start: usize,
    dtype: Dtype,
    shape: Vec<usize>,
}

/// The tensors of a model's files.
#[derive(Debug)]
pub struct Weights {
    maps: Vec<Mmap>,
    places: BTreeMap<String, Place>,
}

impl Weights {
    /// Open the files and read their headers.
    ///
    /// # Errors
    /// In one line, with the file: it can't be read, is no safetensors file or is cut short, or two
    /// files hold a tensor of the same name.
    pub fn open(files: &[PathBuf]) -> Result<Self> {
        let (mut maps, mut places) = (Vec::new(), BTreeMap::new());
        for (file, path) in files.iter().enumerate() {
            let name = || path.display();
            let map = map(path).with_context(|| format!("{} can't be read", name()))?;
            let (header, metadata) =
                SafeTensors::read_metadata(&map).map_err(|error| match error {
                    SafeTensorError::MetadataIncompleteBuffer => {
                        anyhow!("{} is truncated: its header states another length", name())
                    }
                    error => anyhow!("{} is no safetensors file: {error}", name()),
                })?;
            // The data begin after the header and its length.
            let data = header + 8;
            for (tensor, info) in metadata.tensors() {
                let place = Place {
                    file,
                    start: data + info.data_offsets.0,
                    dtype: info.dtype,
                    shape: info.shape.clone(),
                };
                if places.insert(tensor.clone(), place).is_some() {
                    bail!(
                        "{} has the tensor {tensor}, and so has another shard",
                        name()
                    );
                }
            }
            maps.push(map);
        }
        Ok(Self { maps, places })
    }

    /// Checks that these are the weights of a model of that shape: every tensor is there with its
    /// shape, in a format that can be read here, and there is none that would change the model.
    ///
    /// # Errors
    /// The first mismatch, in one line.
    pub fn check(&self, shape: &Shape) -> Result<()> {
        let wanted = tensors(&shape.spec);
        for tensor in &wanted {
            let name = &tensor.name;
            let Some(place) = self.places.get(name) else {
                bail!("the weights lack the tensor {name}");
            };
            ensure!(
                place.shape == tensor.shape(),
                "the tensor {name} is {:?} where config.json makes it {:?}",
                place.shape,
                tensor.shape()
            );
            ensure!(
                bytes_per_weight(place.dtype).is_some(),
                "the tensor {name} is {:?}; read are F32, F16 and BF16",
                place.dtype
            );
        }
        let known: BTreeSet<&str> = wanted.iter().map(|t| t.name.as_str()).collect();
        let means_nothing = |name: &str| {
            // Tied weights that were written all the same, and values that are computed from
            // config.json.
            shape.spec.tied && name == "lm_head.weight" || name.ends_with("rotary_emb.inv_freq")
        };
        let mut others = self.places.keys().map(String::as_str);
        match others.find(|name| !known.contains(name) && !means_nothing(name)) {
            Some(name) => bail!(
                "the weights have a tensor {name}, which a {} model has not",
                shape.spec.architecture.model_type()
            ),
            None => Ok(()),
        }
    }

    /// Writes row `row` of `tensor` into `out`, whose length is the tensor's `cols`. The weights
    /// must have passed [`Weights::check`].
    pub fn fill(&self, tensor: &TensorDef, row: usize, out: &mut [f32]) {
        let place = &self.places[&tensor.name];
        let width = bytes_per_weight(place.dtype).expect("checked before");
        let start = place.start + row * tensor.cols * width;
        let bytes = &self.maps[place.file][start..start + tensor.cols * width];
        match place.dtype {
            Dtype::F32 => read(bytes, out, f32::from_le_bytes),
            Dtype::F16 => read(bytes, out, |b| f16::from_le_bytes(b).to_f32()),
            _ => read(bytes, out, |b| bf16::from_le_bytes(b).to_f32()),
        }
    }
}

/// Map a model's file into memory.
pub(super) fn map(path: &Path) -> std::io::Result<Mmap> {
    let file = File::open(path)?;
    // SAFETY: the file is a model's, which lies in the models directory and is replaced by renaming
    // and never written in place. Somebody who truncates it all the same ends this process
    // (SIGBUS).
    unsafe { Mmap::map(&file) }
}

fn bytes_per_weight(dtype: Dtype) -> Option<usize> {
    match dtype {
        Dtype::F32 => Some(4),
        Dtype::F16 | Dtype::BF16 => Some(2),
        _ => None,
    }
}

fn read<const N: usize>(bytes: &[u8], out: &mut [f32], value: impl Fn([u8; N]) -> f32) {
    let (chunks, _) = bytes.as_chunks::<N>();
    for (x, chunk) in out.iter_mut().zip(chunks) {
        *x = value(*chunk);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::config::config_json;
    use crate::{ModelSpec, Origin, safetensors_file};

    /// The shape of a model that is made in no time.
    pub(in crate::checkpoint) fn spec() -> ModelSpec {
        ModelSpec {
            num_layers: 1,
            vocab_size: 256,
            ..ModelSpec::tiny_stories()
        }
    }

    fn written(dir: &Path) -> PathBuf {
        let (all, mut bytes) = (tensors(&spec()), Vec::new());
        safetensors_file::write(&spec(), Origin::Seed, &all, &mut bytes, &mut |_| Ok(())).unwrap();
        let path = dir.join("model.safetensors");
        std::fs::write(&path, bytes).unwrap();
        path
    }

    #[test]
    fn rows_are_what_was_written() {
        let dir = tempfile::tempdir().unwrap();
        let weights = Weights::open(&[written(dir.path())]).unwrap();
        let shape = Shape::read(&config_json(&spec())).unwrap();
        weights.check(&shape).unwrap();
        let (ours, theirs) = (tensors(&shape.spec), tensors(&spec()));
        for (ours, theirs) in ours.iter().zip(&theirs) {
            let row = ours.rows - 1;
            let (mut read, mut made) = (vec![0.0; ours.cols], vec![0.0; ours.cols]);
            weights.fill(ours, row, &mut read);
            Origin::Seed.rows(&spec(), theirs)(row, &mut made);
            assert_eq!(read, made, "{}", ours.name);
        }
    }

    #[test]
    fn weights_that_are_not_the_model_s_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = written(dir.path());
        let weights = Weights::open(std::slice::from_ref(&path)).unwrap();
        let shape = Shape::read(&config_json(&spec())).unwrap();
        let why = |shape: &Shape| weights.check(shape).unwrap_err().to_string();
        let with = |change: &dyn Fn(&mut ModelSpec)| {
            let mut other = shape.clone();
            change(&mut other.spec);
            other
        };
        let larger = with(&|spec| spec.vocab_size = 300);
        let error = why(&larger);
        assert!(
            error.contains("embed_tokens.weight is [256, 256] where"),
            "{error}"
        );
        let deeper = with(&|spec| spec.num_layers = 2);
        assert!(why(&deeper).contains("lack the tensor model.layers.1"));
        let untied = with(&|spec| spec.tied = false);
        assert!(why(&untied).contains("lack the tensor lm_head.weight"));

        let twice = Weights::open(&[path.clone(), path.clone()]).unwrap_err();
        assert!(
            twice.to_string().contains("so has another shard"),
            "{twice}"
        );
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() - 4]).unwrap();
        let cut = Weights::open(std::slice::from_ref(&path))
            .unwrap_err()
            .to_string();
        assert!(cut.contains("is truncated"), "{cut}");
        std::fs::write(&path, "version https://git-lfs").unwrap();
        let pointer = Weights::open(&[path]).unwrap_err().to_string();
        assert!(pointer.contains("is no safetensors file"), "{pointer}");
    }
}
