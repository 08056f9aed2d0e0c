//! A reader of safetensors files. It returns tensors as f32: mapped and used in place if they are
//! stored so, converted once while loading if they are f16 or bf16.
//!
//! The `safetensors` crate checks the header; this module checks that each tensor has the shape
//! that the configuration demands. A model's tensors may be spread over shards; a tensor is looked
//! for in the shards themselves, not in the index.

use crate::matrix::F32Data;
use crate::memory::Buffer;
use crate::pool::{Pool, SharedMut};
use half::{bf16, f16};
use memmap2::Mmap;
use protocol::engine::EngineError;
use safetensors::{Dtype, SafeTensors};
use std::ops::Range;
use std::sync::Arc;

/// The files of a model, a single one or its shards: each with its name for messages and its
/// mapping.
pub struct Files<'a>(Vec<(&'a str, &'a Arc<Mmap>, SafeTensors<'a>)>);

impl<'a> Files<'a> {
    /// Read the headers of the mapped files, each given with its name for messages.
    ///
    /// # Errors
    /// Fails if a file is not a complete and consistent safetensors file.
    pub fn open(maps: &'a [(Arc<Mmap>, String)]) -> Result<Self, EngineError> {
        let files = maps.iter().map(|(map, name)| {
            let tensors = SafeTensors::deserialize(map).map_err(|error| {
                EngineError::internal(format!(
                    "{name}: no valid safetensors file ({error:?}); fetch it again"
                ))
            })?;
            Ok((name.as_str(), map, tensors))
        });
        files.collect::<Result<_, EngineError>>().map(Self)
    }

    /// Return the tensor of that name and shape as f32.
    ///
    /// # Errors
    /// Fails if there is no such tensor, or if it has another shape or is not of a float type.
    pub fn f32(&self, tensor: &str, shape: &[usize], pool: &Pool) -> Result<F32Data, EngineError> {
        self.rows(tensor, shape, 0..shape[0], pool)
    }

    /// Return some rows of the tensor of that name and shape, as f32.
    ///
    /// # Errors
    /// The same as those of [`Files::f32`].
    pub fn rows(
        &self,
        tensor: &str,
        shape: &[usize],
        rows: Range<usize>,
        pool: &Pool,
    ) -> Result<F32Data, EngineError> {
        let mut files = self.0.iter();
        let found = files
            .find_map(|(name, map, tensors)| Some((*name, *map, tensors.tensor(tensor).ok()?)));
        let Some((name, map, view)) = found else {
            let names: Vec<&str> = self.0.iter().map(|(name, ..)| *name).collect();
            let names = names.join(", ");
            return Err(EngineError::internal(format!(
                "{names}: no tensor `{tensor}` in it; fetch the model again"
            )));
        };
        if view.shape() != shape {
            return Err(EngineError::internal(format!(
                "{name}: tensor `{tensor}` is {:?}, but config.json makes it {shape:?}; \
                 the two are not of the same model",
                view.shape()
            )));
        }
        let row_bytes = view.data().len() / shape[0];
        let bytes = &view.data()[rows.start * row_bytes..rows.end * row_bytes];
        let count = rows.len() * shape[1..].iter().product::<usize>();
        match view.dtype() {
            Dtype::F32 => {
                let start = bytes.as_ptr() as usize - map.as_ptr() as usize;
                if let Some(mapped) = F32Data::mapped(map, start, count) {
                    return Ok(mapped);
                }
                // The data can be misaligned after a header of odd length, which is rare; it is
                // then copied.
                convert(bytes, count, pool, |b: [u8; 4]| f32::from_le_bytes(b))
            }
            Dtype::BF16 => convert(bytes, count, pool, |b| bf16::from_le_bytes(b).to_f32()),
            Dtype::F16 => convert(bytes, count, pool, |b| f16::from_le_bytes(b).to_f32()),
            other => {
                return Err(EngineError::unsupported(format!(
                    "{name}: tensor `{tensor}` is stored as {other:?}; lmrs reads F32, F16, BF16"
                )));
            }
        }
        .map_err(|error| EngineError::oom(format!("{name}: tensor `{tensor}`: {error}")))
    }
}

/// Number of elements that one task converts.
const CHUNK: usize = 1 << 18;

fn convert<const N: usize>(
    bytes: &[u8],
    count: usize,
    pool: &Pool,
    decode: impl Fn([u8; N]) -> f32 + Sync,
) -> std::io::Result<F32Data> {
    let mut values = Buffer::<f32>::zeroed(count)?;
    let elements = bytes.as_chunks::<N>().0;
    let out = SharedMut::new(&mut values);
    pool.run(count.div_ceil(CHUNK), |_, chunk| {
        let from = chunk * CHUNK;
        let elements = &elements[from..(from + CHUNK).min(count)];
        // SAFETY: chunks do not overlap.
        let out = unsafe { out.part(from, elements.len()) };
        for (out, element) in out.iter_mut().zip(elements) {
            *out = decode(*element);
        }
    });
    // SAFETY: `bytes` lies in the file's mapping.
    unsafe { crate::memory::release_file_pages(bytes) };
    Ok(F32Data::owned(values))
}
