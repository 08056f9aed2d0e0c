//! Writes the weights of a GGUF file as `model.safetensors` in f32: each exactly what the file's
//! rounded number stands for. An engine that computes in f32 with these weights computes what an
//! engine with the GGUF file would, if it rounded nothing further.

use super::gguf_file::GgufFile;
use super::shape::Shape;
use crate::gguf::source_row;
use crate::safetensors_file::header;
use crate::spec::{ModelSpec, Storage};
use crate::tensors::tensors;
use anyhow::Result;
use std::io::Write;

/// Write all tensors that a model of this shape has. `before_each` is called before each of them,
/// and ends the work by an error.
///
/// # Errors
/// A tensor is missing or has another shape, or `out` can't be written.
pub fn write(
    gguf: &GgufFile,
    shape: &Shape,
    out: &mut dyn Write,
    before_each: &mut dyn FnMut() -> Result<()>,
) -> Result<()> {
    let spec = ModelSpec {
        storage: Storage::F32,
        ..shape.spec.clone()
    };
    let all = tensors(&spec);
    out.write_all(&header(&spec, &all))?;
    let mut bytes = Vec::new();
    for tensor in &all {
        before_each()?;
        let row = gguf.rows(tensor)?;
        let mut place_of = vec![0; tensor.rows];
        for place in 0..tensor.rows {
            place_of[source_row(&spec, tensor.role, place)] = place;
        }
        for place in place_of {
            bytes.clear();
            let weights = row(place).into_iter();
            bytes.extend(weights.flat_map(f32::to_le_bytes));
            out.write_all(&bytes)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::Weights;
    use crate::checkpoint::weights::tests::spec;
    use crate::config::config_json;
    use crate::tokenizer::vocabulary;
    use crate::{ModelFile, Origin, gguf};
    use std::path::PathBuf;

    fn written(dir: &std::path::Path, file: ModelFile) -> PathBuf {
        let mut bytes = Vec::new();
        let bpe = vocabulary(&spec()).unwrap();
        gguf::write(&spec(), Origin::Seed, &bpe, file, &mut bytes, &mut |_| {
            Ok(())
        })
        .unwrap();
        let path = dir.join("model.gguf");
        std::fs::write(&path, bytes).unwrap();
        path
    }

    fn dequantised(dir: &std::path::Path, file: ModelFile) -> Weights {
        let gguf = GgufFile::open(&written(dir, file)).unwrap();
        let shape = Shape::read(&config_json(&spec())).unwrap();
        let mut bytes = Vec::new();
        write(&gguf, &shape, &mut bytes, &mut || Ok(())).unwrap();
        let path = dir.join("model.safetensors");
        std::fs::write(&path, bytes).unwrap();
        let weights = Weights::open(&[path]).unwrap();
        weights.check(&shape).unwrap();
        weights
    }

    /// The largest difference from the weights that were made, over the largest weight.
    fn error(file: ModelFile) -> f32 {
        let dir = tempfile::tempdir().unwrap();
        let weights = dequantised(dir.path(), file);
        let (mut worst, mut largest) = (0.0_f32, 0.0_f32);
        for tensor in tensors(&spec()) {
            let made = Origin::Seed.rows(&spec(), &tensor);
            for row in 0..tensor.rows {
                let (mut read, mut meant) = (vec![0.0; tensor.cols], vec![0.0; tensor.cols]);
                weights.fill(&tensor, row, &mut read);
                made(row, &mut meant);
                for (read, meant) in read.into_iter().zip(meant) {
                    worst = worst.max((read - meant).abs());
                    largest = largest.max(meant.abs());
                }
            }
        }
        worst / largest
    }

    #[test]
    fn weights_come_back_in_their_places() {
        assert_eq!(error(ModelFile::GgufF32), 0.0);
        let (q8_0, q4_k_m) = (error(ModelFile::GgufQ8_0), error(ModelFile::GgufQ4KM));
        assert!(0.0 < q8_0 && q8_0 < 0.01, "{q8_0}");
        assert!(q8_0 < q4_k_m && q4_k_m < 0.2, "{q4_k_m}");
    }

    #[test]
    fn a_damaged_file_is_refused_with_its_reason() {
        let dir = tempfile::tempdir().unwrap();
        let path = written(dir.path(), ModelFile::GgufQ8_0);
        let bytes = std::fs::read(&path).unwrap();
        let why = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            format!("{:#}", GgufFile::open(&path).unwrap_err())
        };
        for length in [3, 40, bytes.len() - 64] {
            let why = why(&bytes[..length]);
            assert!(why.contains("is truncated"), "{length}: {why}");
        }
        assert!(why(b"version https://git-lfs").contains("no GGUF file"));
        std::fs::write(&path, &bytes).unwrap();
        let gguf = GgufFile::open(&path).unwrap();
        let mut shape = Shape::read(&config_json(&spec())).unwrap();
        shape.spec.num_layers = 2;
        let error = write(&gguf, &shape, &mut Vec::new(), &mut || Ok(())).unwrap_err();
        assert!(
            error.to_string().contains("lack the tensor blk.1."),
            "{error}"
        );
    }
}
