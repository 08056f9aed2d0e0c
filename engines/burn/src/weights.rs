//! Memory-mapped safetensors files: one `model.safetensors` or the shards of a
//! `model.safetensors.index.json`. This module returns each tensor as f32, checked against the
//! shape that the model expects; it doesn't know how the tensors are used.

use memmap2::Mmap;
use protocol::engine::EngineError;
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use std::fs::File;
use std::path::{Path, PathBuf};

/// The mapped files of a model.
pub struct Files(Vec<(PathBuf, Mmap)>);

impl Files {
    /// Map the file `weights` in `model_dir`, or its shards.
    ///
    /// # Errors
    /// Fails if a file is missing or has a format that is not read here.
    pub fn map(model_dir: &Path, weights: &str) -> Result<Self, EngineError> {
        let mut files = Vec::new();
        for path in protocol::only_safetensors(model_dir, weights)? {
            let map = File::open(&path)
                // SAFETY: a model's weight files are not written to while it runs.
                .and_then(|file| unsafe { Mmap::map(&file) })
                .map_err(|err| EngineError::internal(err).in_file(&path))?;
            files.push((path, map));
        }
        Ok(Self(files))
    }

    /// Read the headers of all files.
    ///
    /// # Errors
    /// Fails if a header is damaged.
    pub fn tensors(&self) -> Result<Tensors<'_>, EngineError> {
        let mut tensors = Vec::new();
        for (path, map) in &self.0 {
            let file = SafeTensors::deserialize(map)
                .map_err(|err| EngineError::internal(err).in_file(path))?;
            tensors.push((path.as_path(), file));
        }
        Ok(Tensors(tensors))
    }
}

/// The tensors of all files, by name.
pub struct Tensors<'a>(Vec<(&'a Path, SafeTensors<'a>)>);

impl Tensors<'_> {
    /// Return the values of the tensor `name`, in row-major order.
    ///
    /// # Errors
    /// Fails if there is no such tensor, its shape differs, or its type is not floating point.
    pub fn read(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, EngineError> {
        let (path, view) = self.find(name)?;
        if view.shape() != shape {
            let found = view.shape();
            let message = format!("`{name}` is {found:?}, config.json says {shape:?}");
            return Err(EngineError::internal(message).in_file(path));
        }
        let bytes = view.data();
        match view.dtype() {
            Dtype::F32 => Ok(elements(bytes, f32::from_le_bytes)),
            Dtype::F16 => Ok(elements(bytes, |b| half::f16::from_le_bytes(b).to_f32())),
            Dtype::BF16 => Ok(elements(bytes, |b| half::bf16::from_le_bytes(b).to_f32())),
            other => {
                let message = format!("`{name}` is {other:?}; read are F32, F16, BF16");
                Err(EngineError::unsupported(message).in_file(path))
            }
        }
    }

    fn find(&self, name: &str) -> Result<(&Path, TensorView<'_>), EngineError> {
        let mut files = self.0.iter();
        files
            .find_map(|(path, file)| Some((*path, file.tensor(name).ok()?)))
            .ok_or_else(|| {
                EngineError::internal(format!("no tensor `{name}` in it")).in_file(self.0[0].0)
            })
    }
}

fn elements<const N: usize>(bytes: &[u8], read: impl Fn([u8; N]) -> f32) -> Vec<f32> {
    let (chunks, _) = bytes.as_chunks::<N>();
    chunks.iter().map(|chunk| read(*chunk)).collect()
}
