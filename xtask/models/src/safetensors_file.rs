//! Writes `model.safetensors`: a JSON header with every tensor's place, then the tensors.
//!
//! Our own writer, because the `safetensors` crate wants all tensors in memory at once; reading is
//! left to that crate.

use std::io::Write;

use anyhow::Result;
use half::bf16;

use crate::spec::{ModelSpec, Storage};
use crate::stream;
use crate::trained::Origin;
use crate::weights::{TensorDef, tensors};

/// Writes the whole file to `out`. Calls `done` with the number of weights after each part.
pub fn write(
    spec: &ModelSpec,
    origin: Origin,
    out: &mut dyn Write,
    done: &mut dyn FnMut(usize),
) -> Result<()> {
    let defs = tensors(spec);
    out.write_all(&header(spec, &defs))?;
    for def in &defs {
        let encode = |weights: &[f32], bytes: &mut Vec<u8>| match spec.storage {
            Storage::F32 => weights
                .iter()
                .for_each(|x| bytes.extend_from_slice(&x.to_le_bytes())),
            Storage::Bf16 => weights
                .iter()
                .for_each(|x| bytes.extend_from_slice(&bf16::from_f32(*x).to_le_bytes())),
        };
        stream::write_tensor(spec, origin, def, |row| row, encode, out, done)?;
    }
    Ok(())
}

/// The length of the header as u64, then the header, padded so that the data is aligned to 8 bytes.
fn header(spec: &ModelSpec, defs: &[TensorDef]) -> Vec<u8> {
    let (dtype, size) = match spec.storage {
        Storage::F32 => ("F32", 4),
        Storage::Bf16 => ("BF16", 2),
    };
    // Written by hand and not through a map, whose order would hang on a feature of serde_json that
    // any other crate of a build can switch on.
    let mut json = String::from(r#"{"__metadata__":{"format":"pt"}"#);
    let mut offset = 0;
    for def in defs {
        let end = offset + def.len() * size;
        let shape = if def.is_vector() {
            format!("[{}]", def.cols)
        } else {
            format!("[{},{}]", def.rows, def.cols)
        };
        json += &format!(
            r#","{}":{{"dtype":"{dtype}","shape":{shape},"data_offsets":[{offset},{end}]}}"#,
            def.name
        );
        offset = end;
    }
    json.push('}');
    while json.len() % 8 != 0 {
        json.push(' ');
    }
    [&(json.len() as u64).to_le_bytes(), json.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_crate_reads_what_we_write() {
        let spec = ModelSpec {
            num_layers: 1,
            vocab_size: 256,
            storage: Storage::Bf16,
            ..ModelSpec::tiny_llama()
        };
        let (mut bytes, mut weights) = (Vec::new(), 0);
        write(&spec, Origin::Seed, &mut bytes, &mut |n| weights += n).unwrap();
        let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
        assert_eq!(file.len(), tensors(&spec).len());
        let gate = file.tensor("model.layers.0.mlp.gate_proj.weight").unwrap();
        assert_eq!(gate.shape(), [768, 512]);
        assert_eq!(gate.data().len(), 768 * 512 * 2);
        assert_eq!(file.tensor("model.norm.weight").unwrap().shape(), [512]);
        let expected: usize = tensors(&spec).iter().map(TensorDef::len).sum();
        assert_eq!(weights, expected);
    }
}
