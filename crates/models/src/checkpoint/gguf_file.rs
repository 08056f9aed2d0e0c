//! Reads GGUF files: where each tensor is, and its rows as f32.
//!
//! Of the keys only the alignment is read. The format is described in the GGUF specification of the
//! ggml project (docs/gguf.md).

use super::weights::map;
use crate::gguf::ALIGNMENT;
use crate::quant::GgmlType;
use crate::tensors::TensorDef;
use anyhow::{Context, Result, bail, ensure};
use memmap2::Mmap;
use std::collections::BTreeMap;
use std::path::Path;

/// The tensors of a GGUF file.
#[derive(Debug)]
pub struct GgufFile {
    map: Mmap,
    places: BTreeMap<String, Place>,
}

/// The place of a tensor in the file.
#[derive(Debug)]
struct Place {
    /// Offset of its first byte.
    start: usize,
    kind: GgmlType,
    /// Its shape, the fastest dimension first.
    shape: Vec<usize>,
}

impl GgufFile {
    /// Open a file and read its header.
    ///
    /// # Errors
    /// In one line, with the file: it can't be read, is no GGUF file, is cut short, or has a tensor
    /// in a format that isn't known here.
    pub fn open(path: &Path) -> Result<Self> {
        let map = map(path).with_context(|| format!("{} can't be read", path.display()))?;
        let places = Reader(&map)
            .places(map.len())
            .with_context(|| format!("{} can't be used", path.display()))?;
        Ok(Self { map, places })
    }

    /// Return the tensor of that name and shape as f32, row after row in the order of this file.
    ///
    /// # Errors
    /// The file has no such tensor, or it has another shape.
    pub fn rows(&self, tensor: &TensorDef) -> Result<impl Fn(usize) -> Vec<f32>> {
        let name = &tensor.gguf_name;
        let place = self.places.get(name);
        let place = place.with_context(|| format!("the weights lack the tensor {name}"))?;
        let wanted: Vec<usize> = tensor.shape().into_iter().rev().collect();
        ensure!(
            place.shape == wanted,
            "the tensor {name} is {:?} where config.json makes it {wanted:?}",
            place.shape
        );
        let bytes = place.kind.bytes(tensor.cols);
        Ok(move |row| {
            let start = place.start + row * bytes;
            place.kind.decode(&self.map[start..start + bytes])
        })
    }
}

/// What is left to read of a header.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn places(mut self, file_bytes: usize) -> Result<BTreeMap<String, Place>> {
        ensure!(self.bytes(4)? == b"GGUF", "it is no GGUF file");
        let version = self.u32()?;
        ensure!(
            (2..=3).contains(&version),
            "it is of version {version}; read are 2 and 3"
        );
        let (tensors, keys) = (self.u64()?, self.u64()?);
        let mut alignment = ALIGNMENT;
        for _ in 0..keys {
            let key = self.string()?;
            let kind = self.u32()?;
            match (key.as_str(), kind) {
                ("general.alignment", UINT32) => alignment = self.u32()? as usize,
                _ => self.skip(kind)?,
            }
        }
        ensure!(alignment > 0, "its alignment is 0");
        let mut places = BTreeMap::new();
        for _ in 0..tensors {
            let name = self.string()?;
            let mut shape = Vec::new();
            for _ in 0..self.u32()? {
                shape.push(self.u64()?);
            }
            let number = self.u32()?;
            let Some(kind) = GgmlType::numbered(number) else {
                bail!("the tensor {name} has GGML's type {number}, which isn't known here");
            };
            let start = self.u64()?;
            places.insert(name, Place { start, kind, shape });
        }
        let data = (file_bytes - self.0.len()).next_multiple_of(alignment);
        for (name, place) in &mut places {
            let (per_block, block_bytes) = place.kind.block();
            let cols = place.shape.first();
            ensure!(
                cols.is_some_and(|cols| cols.is_multiple_of(per_block)),
                "a row of the tensor {name} fills no blocks of {per_block}"
            );
            let bytes = place
                .shape
                .iter()
                .try_fold(1_usize, |all, &n| all.checked_mul(n))
                .and_then(|weights| (weights / per_block).checked_mul(block_bytes));
            let end = data
                .checked_add(place.start)
                .zip(bytes)
                .and_then(|(start, bytes)| start.checked_add(bytes));
            ensure!(
                end.is_some_and(|end| end <= file_bytes),
                "it is truncated: the tensor {name} lies beyond its end"
            );
            place.start += data;
        }
        Ok(places)
    }

    fn bytes(&mut self, count: usize) -> Result<&[u8]> {
        let Some((taken, rest)) = self.0.split_at_checked(count) else {
            bail!("it is truncated within its header");
        };
        self.0 = rest;
        Ok(taken)
    }

    fn u32(&mut self) -> Result<u32> {
        let bytes = self.bytes(4)?.try_into().expect("four bytes were taken");
        Ok(u32::from_le_bytes(bytes))
    }

    fn u64(&mut self) -> Result<usize> {
        let bytes = self.bytes(8)?.try_into().expect("eight bytes were taken");
        Ok(usize::try_from(u64::from_le_bytes(bytes))?)
    }

    fn string(&mut self) -> Result<String> {
        let length = self.u64()?;
        Ok(String::from_utf8_lossy(self.bytes(length)?).into_owned())
    }

    /// Skip a value of this type.
    fn skip(&mut self, kind: u32) -> Result<()> {
        match kind {
            STRING => self.string().map(|_| ()),
            ARRAY => {
                let (kind, count) = (self.u32()?, self.u64()?);
                ensure!(kind != ARRAY, "it has an array of arrays");
                (0..count).try_for_each(|_| self.skip(kind))
            }
            _ => {
                // The size of a value by its type (bytes).
                let size = match kind {
                    0 | 1 | 7 => 1,
                    2 | 3 => 2,
                    4..=6 => 4,
                    10..=12 => 8,
                    _ => bail!("it has a value of type {kind}"),
                };
                self.bytes(size).map(|_| ())
            }
        }
    }
}

const UINT32: u32 = 4;
const STRING: u32 = 8;
const ARRAY: u32 = 9;

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with these bytes between the counts and the tensors' data, which are 64 bytes.
    fn places(tensors: u64, keys: u64, middle: &[&[u8]]) -> Result<BTreeMap<String, Place>> {
        let mut file = b"GGUF\x03\0\0\0".to_vec();
        file.extend(tensors.to_le_bytes());
        file.extend(keys.to_le_bytes());
        file.extend(middle.concat());
        file.resize(file.len().next_multiple_of(32) + 64, 0);
        Reader(&file).places(file.len())
    }

    fn string(text: &str) -> Vec<u8> {
        [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat()
    }

    fn tensor(shape: &[u64], kind: u32, start: u64) -> Vec<u8> {
        let shape_bytes: Vec<u8> = shape.iter().flat_map(|n| n.to_le_bytes()).collect();
        let count = (shape.len() as u32).to_le_bytes();
        let place = [&kind.to_le_bytes()[..], &start.to_le_bytes()].concat();
        [string("t"), count.to_vec(), shape_bytes, place].concat()
    }

    #[test]
    fn what_is_no_tensor_of_ours_is_refused() {
        let why = |tensors, keys, middle: &[&[u8]]| {
            let found = places(tensors, keys, middle);
            found.map(drop).unwrap_err().to_string()
        };
        let of = |shape: &[u64], kind, start| why(1, 0, &[&tensor(shape, kind, start)]);
        assert!(of(&[32], 99, 0).contains("GGML's type 99"));
        assert!(of(&[], 0, 0).contains("fills no blocks"));
        assert!(of(&[33], 8, 0).contains("fills no blocks of 32"));
        for (shape, start) in [(&[32, 3][..], 0), (&[32], 64), (&[1 << 40, 1 << 40], 0)] {
            assert!(of(shape, 0, start).contains("beyond its end"), "{shape:?}");
        }
        let nested = [&string("k")[..], &9_u32.to_le_bytes(), &9_u32.to_le_bytes()].concat();
        let nested = [&nested[..], &1_u64.to_le_bytes()].concat();
        assert!(why(0, 1, &[&nested]).contains("array of arrays"));
        let unknown = [&string("k")[..], &77_u32.to_le_bytes()].concat();
        assert!(why(0, 1, &[&unknown]).contains("value of type 77"));
    }

    #[test]
    fn keys_are_passed_over_and_the_alignment_counts() {
        let strings = [
            &string("names")[..],
            &ARRAY.to_le_bytes(),
            &STRING.to_le_bytes(),
            &2_u64.to_le_bytes(),
            &string("a"),
            &string("bc"),
        ]
        .concat();
        let alignment = [
            &string("general.alignment")[..],
            &UINT32.to_le_bytes(),
            &8_u32.to_le_bytes(),
        ]
        .concat();
        let tensor = tensor(&[8], 0, 16);
        let found = places(1, 2, &[&strings, &alignment, &tensor]).unwrap();
        let head = 24 + strings.len() + alignment.len() + tensor.len();
        assert_eq!(found["t"].start, head.next_multiple_of(8) + 16);
    }
}
