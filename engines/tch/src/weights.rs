//! Reads tensors from safetensors files: one file, or the shards of an index. They are read one by
//! one and not mapped, so that no page of the file counts as memory of this process.
//! [`crate::model`] knows what the tensors mean.

use protocol::engine::EngineError;
use serde_json::Value;
use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use tch::{Kind, Tensor};

/// Longest header that is accepted; a larger number is not a header's length.
const HEADER_BYTES_MAX: u64 = 100 << 20;

/// The location and type of a tensor.
struct Place {
    file: usize,
    start: u64,
    bytes: usize,
    shape: Vec<i64>,
    kind: Kind,
}

/// The open files, and the locations of their tensors.
#[derive(Default)]
pub struct Weights {
    files: Vec<(PathBuf, File)>,
    places: HashMap<String, Place>,
}

impl Weights {
    /// Open the file `weights` in `model_dir`, or its shards, and read the headers.
    pub fn open(model_dir: &Path, weights: &str) -> Result<Self, EngineError> {
        let files = protocol::only_safetensors(model_dir, weights)?;
        let mut weights = Self::default();
        for path in files {
            weights.add(path)?;
        }
        Ok(weights)
    }

    fn add(&mut self, path: PathBuf) -> Result<(), EngineError> {
        let unread = |err: std::io::Error| unusable(&path, err);
        let mut file = File::open(&path).map_err(unread)?;
        let size = file.metadata().map_err(unread)?.len();
        let mut length = [0; 8];
        file.read_exact(&mut length).map_err(unread)?;
        let length = u64::from_le_bytes(length);
        if length > HEADER_BYTES_MAX.min(size) {
            return Err(unusable(&path, "no safetensors file"));
        }
        let mut header = vec![0; length as usize];
        file.read_exact(&mut header).map_err(unread)?;
        let header: serde_json::Map<String, Value> =
            serde_json::from_slice(&header).map_err(|err| unusable(&path, err))?;
        for (name, entry) in header {
            if name == "__metadata__" {
                continue;
            }
            let place = place(&entry, self.files.len(), 8 + length)
                .ok_or_else(|| unusable(&path, format!("{name}'s entry makes no sense")))?;
            if place.start + place.bytes as u64 > size {
                return Err(unusable(&path, format!("{name} lies beyond its end")));
            }
            self.places.insert(name, place);
        }
        self.files.push((path, file));
        Ok(())
    }

    /// Read a tensor as it is stored in the file, onto the CPU; its shape must be `shape`.
    pub fn read(&mut self, name: &str, shape: &[i64]) -> Result<Tensor, EngineError> {
        let place = self.places.get(name).ok_or_else(|| {
            let path = self.files.first().map_or(Path::new("?"), |(path, _)| path);
            unusable(path, format!("there is no {name} in it"))
        })?;
        let (path, file) = &mut self.files[place.file];
        if place.shape != shape {
            let found = &place.shape;
            let why = format!("{name} has the shape {found:?}, config.json says {shape:?}");
            return Err(unusable(path, why));
        }
        let mut data = vec![0; place.bytes];
        file.seek(SeekFrom::Start(place.start))
            .and_then(|_| file.read_exact(&mut data))
            .map_err(|err| unusable(path, err))?;
        Tensor::f_from_data_size(&data, shape, place.kind).map_err(|err| unusable(path, err))
    }
}

/// Parse an entry of a header; `None` if it is invalid or contradicts itself.
fn place(entry: &Value, file: usize, data: u64) -> Option<Place> {
    let kind = match entry["dtype"].as_str()? {
        "F32" => Kind::Float,
        "F16" => Kind::Half,
        "BF16" => Kind::BFloat16,
        _ => return None,
    };
    let shape: Option<Vec<i64>> = entry["shape"]
        .as_array()?
        .iter()
        .map(|size| size.as_i64().filter(|size| *size > 0))
        .collect();
    let shape = shape?;
    let start = entry["data_offsets"][0].as_u64()?;
    let bytes = entry["data_offsets"][1].as_u64()?.checked_sub(start)?;
    let elements = shape
        .iter()
        .try_fold(1i64, |n, size| n.checked_mul(*size))?;
    if elements as u64 * kind.elt_size_in_bytes() as u64 != bytes {
        return None;
    }
    Some(Place {
        file,
        start: data.checked_add(start)?,
        bytes: usize::try_from(bytes).ok()?,
        shape,
        kind,
    })
}

fn unusable(path: &Path, why: impl std::fmt::Display) -> EngineError {
    EngineError::unavailable(format!("{}: {why}; fetch the model again", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::wire::FailureKind;
    use serde_json::json;

    fn file(header: &Value, data: &[u8]) -> Vec<u8> {
        let header = header.to_string();
        let mut file = (header.len() as u64).to_le_bytes().to_vec();
        file.extend(header.as_bytes());
        file.extend(data);
        file
    }

    #[test]
    fn reads_what_is_there_and_names_what_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("model.safetensors");
        let header = json!({
            "__metadata__": {"format": "pt"},
            "a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
            "b": {"dtype": "BF16", "shape": [1, 2], "data_offsets": [8, 12]},
        });
        let mut data = Vec::new();
        for value in [1.5f32, -2.0] {
            data.extend(value.to_le_bytes());
        }
        data.extend([0x80, 0x3f, 0x00, 0x40]); // 1 and 2
        std::fs::write(&path, file(&header, &data)).unwrap();

        let mut weights = Weights::open(dir.path(), "model.safetensors").unwrap();
        let values = |tensor: Tensor| Vec::<f32>::try_from(tensor.view([-1])).unwrap();
        assert_eq!(values(weights.read("a", &[2]).unwrap()), [1.5, -2.0]);
        assert_eq!(values(weights.read("b", &[1, 2]).unwrap()), [1.0, 2.0]);
        for (name, shape, word) in [("c", [2], "no c"), ("a", [3], "shape")] {
            let error = weights.read(name, &shape).unwrap_err();
            assert_eq!(error.kind, FailureKind::Unavailable);
            assert!(error.message.contains(word), "{}", error.message);
        }
    }

    #[test]
    fn damaged_files_are_unavailable() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("model.safetensors");
        let entry =
            |bytes: u64| json!({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, bytes]}});
        for content in [
            Vec::new(),
            vec![0xff; 64],
            file(&json!({"a": 1}), &[]),
            file(&entry(8), &[0; 7]),
            file(&entry(4), &[0; 8]),
        ] {
            std::fs::write(&path, content).unwrap();
            let error = Weights::open(dir.path(), "model.safetensors")
                .err()
                .unwrap();
            assert_eq!(error.kind, FailureKind::Unavailable);
        }
        let gguf = Weights::open(dir.path(), "model.gguf").err().unwrap();
        assert_eq!(gguf.kind, FailureKind::Unsupported);
    }

    #[test]
    fn an_index_names_its_shards() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["a", "b"] {
            let header = json!({name: {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}});
            let shard = dir.path().join(format!("{name}.safetensors"));
            std::fs::write(shard, file(&header, &1f32.to_le_bytes())).unwrap();
        }
        std::fs::write(
            dir.path().join("model.safetensors.index.json"),
            r#"{"weight_map": {"a": "a.safetensors", "b": "b.safetensors"}}"#,
        )
        .unwrap();
        let mut weights = Weights::open(dir.path(), "model.safetensors").unwrap();
        assert!(weights.read("a", &[1]).is_ok() && weights.read("b", &[1]).is_ok());
        std::fs::remove_file(dir.path().join("b.safetensors")).unwrap();
        let error = Weights::open(dir.path(), "model.safetensors")
            .err()
            .unwrap();
        assert_eq!(error.kind, FailureKind::Unavailable);
        assert!(error.message.contains("b.safetensors"), "{}", error.message);
    }
}
