//! Reads weights that were trained from a safetensors file; [`weights`](crate::weights) makes
//! weights from a seed instead.
//!
//! Every value is rounded to bf16, so that all files of a model hold the same numbers whatever
//! their format. How the weights were trained isn't known here.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use half::{bf16, f16};
use safetensors::{Dtype, SafeTensors};

use crate::quant::values;
use crate::spec::ModelSpec;
use crate::weights::{RowMaker, TensorDef, tensors};

/// The weights of a model in memory, by tensor name.
#[derive(Debug, Clone, PartialEq)]
pub struct Trained(BTreeMap<String, Vec<f32>>);

impl Trained {
    /// Reads the file `path` as the weights of `spec`, rounded to bf16.
    ///
    /// # Errors
    /// If the file can't be read, is no safetensors file, lacks a tensor, has one too many or one
    /// of another shape, or if a weight is not finite.
    pub fn load(spec: &ModelSpec, path: &Path) -> Result<Self> {
        let bytes = std::fs::read(path).with_context(|| {
            format!(
                "the trained weights of {}, {}, can't be read",
                spec.id,
                path.display()
            )
        })?;
        Self::read(spec, &bytes).with_context(|| format!("{}: not {}", path.display(), spec.id))
    }

    /// Reads the bytes of a safetensors file as [`Trained::load`] reads a file.
    ///
    /// # Errors
    /// See [`Trained::load`].
    pub fn read(spec: &ModelSpec, bytes: &[u8]) -> Result<Self> {
        let file = SafeTensors::deserialize(bytes).context("no safetensors file")?;
        let defs = tensors(spec);
        ensure!(
            file.len() == defs.len(),
            "{} tensors in it, {} expected",
            file.len(),
            defs.len()
        );
        let mut weights = BTreeMap::new();
        for def in defs {
            let view = file.tensor(&def.name)?;
            ensure!(
                view.shape() == def.shape(),
                "{} is {:?}, {:?} expected",
                def.name,
                view.shape(),
                def.shape()
            );
            let data = view.data();
            let values: Vec<f32> = match view.dtype() {
                Dtype::F32 => values(data, f32::from_le_bytes),
                Dtype::F16 => values(data, |b| f16::from_le_bytes(b).to_f32()),
                Dtype::BF16 => values(data, |b| bf16::from_le_bytes(b).to_f32()),
                other => bail!("{} is {other:?}; read are F32, F16, BF16", def.name),
            };
            let rounded = values.iter().map(|x| bf16::from_f32(*x).to_f32());
            let rounded: Vec<f32> = rounded.collect();
            ensure!(
                rounded.iter().all(|x| x.is_finite()),
                "{} has a weight that is no finite number",
                def.name
            );
            weights.insert(def.name, rounded);
        }
        Ok(Self(weights))
    }
}

/// A function that writes the row with this index into a slice of the row's length.
pub type FillRow<'a> = Box<dyn Fn(usize, &mut [f32]) + Sync + 'a>;

/// The source of a model's weights.
#[derive(Debug, Clone, Copy)]
pub enum Origin<'a> {
    /// The spec's seed, from which weights are made.
    Seed,
    /// Weights that were trained.
    Trained(&'a Trained),
}

impl<'a> Origin<'a> {
    /// The rows of the tensor `def`, in Hugging Face's order; each has the tensor's `cols` values.
    pub fn rows(self, spec: &ModelSpec, def: &TensorDef) -> FillRow<'a> {
        match self {
            Self::Seed => {
                let maker = RowMaker::new(spec, def);
                Box::new(move |row: usize, out: &mut [f32]| maker.fill(row, out))
            }
            Self::Trained(trained) => {
                let (values, cols) = (&trained.0[&def.name], def.cols);
                Box::new(move |row: usize, out: &mut [f32]| {
                    out.copy_from_slice(&values[row * cols..][..cols]);
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::safetensors_file;

    fn spec() -> ModelSpec {
        ModelSpec {
            num_layers: 1,
            ..ModelSpec::tiny_stories()
        }
    }

    fn written(origin: Origin) -> Vec<u8> {
        let (spec, mut bytes) = (spec(), Vec::new());
        let all = tensors(&spec);
        safetensors_file::write(&spec, origin, &all, &mut bytes, &mut |_| Ok(())).unwrap();
        bytes
    }

    #[test]
    fn weights_survive_a_round_trip() {
        let bytes = written(Origin::Seed);
        let trained = Trained::read(&spec(), &bytes).unwrap();
        let again = written(Origin::Trained(&trained));
        assert!(bytes == again, "the same bytes from either origin");
    }

    #[test]
    fn another_model_s_weights_are_refused() {
        let bytes = written(Origin::Seed);
        let wider = ModelSpec {
            intermediate_size: 512,
            ..spec()
        };
        let error = Trained::read(&wider, &bytes).unwrap_err().to_string();
        assert!(
            error.contains("gate_proj") && error.contains("expected"),
            "{error}"
        );
        let deeper = ModelSpec::tiny_stories();
        let error = Trained::read(&deeper, &bytes).unwrap_err().to_string();
        assert!(error.contains("11 tensors in it"), "{error}");
        let cut = Trained::read(&spec(), &bytes[..bytes.len() - 8]);
        assert!(cut.unwrap_err().to_string().contains("no safetensors"));
    }
}
