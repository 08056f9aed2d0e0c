//! Writes `model.safetensors`: a JSON header with every tensor's place, then the tensors. Or
//! several such files, each with some of the tensors, and the index that maps tensors to files.
//!
//! The `safetensors` crate isn't used for writing, because it wants all tensors in memory at once;
//! reading is left to it.

use std::collections::BTreeMap;
use std::io::Write;

use anyhow::Result;
use half::bf16;
use serde::Serialize;

use crate::config::pretty;
use crate::quant::GgmlType;
use crate::spec::{ModelSpec, Storage};
use crate::stream;
use crate::trained::Origin;
use crate::weights::{TensorDef, tensors};

/// The files of `spec` by name, each with its tensors in order: one file, or shards of about equal
/// size.
pub fn files(spec: &ModelSpec) -> Vec<(String, Vec<TensorDef>)> {
    let defs = tensors(spec);
    let total: usize = defs.iter().map(TensorDef::len).sum();
    let names = spec.safetensors_names().into_iter();
    let mut files: Vec<_> = names.map(|name| (name, Vec::new())).collect();
    let mut before = 0;
    for def in defs {
        let file = before * files.len() / total;
        before += def.len();
        files[file].1.push(def);
    }
    files
}

/// The text of `model.safetensors.index.json`, as transformers writes it.
pub fn index_json(spec: &ModelSpec) -> String {
    #[derive(Serialize)]
    struct Metadata {
        total_size: usize,
    }
    #[derive(Serialize)]
    struct Index {
        metadata: Metadata,
        weight_map: BTreeMap<String, String>,
    }
    let mut index = Index {
        metadata: Metadata { total_size: 0 },
        weight_map: BTreeMap::new(),
    };
    let (_, size) = stored_as(spec);
    for (file, defs) in files(spec) {
        for def in defs {
            index.metadata.total_size += def.len() * size;
            index.weight_map.insert(def.name, file.clone());
        }
    }
    pretty(&index)
}

/// Writes a file with the tensors `defs` to `out`. Calls `done` with the number of weights of each
/// part it has written; an error of `done` ends the writing.
pub fn write(
    spec: &ModelSpec,
    origin: Origin,
    defs: &[TensorDef],
    out: &mut dyn Write,
    done: &mut dyn FnMut(usize) -> std::io::Result<()>,
) -> Result<()> {
    out.write_all(&header(spec, defs))?;
    for def in defs {
        let encode = |weights: &[f32], bytes: &mut Vec<u8>| match spec.storage {
            Storage::F32 => GgmlType::F32.encode(weights, bytes),
            Storage::Bf16 => weights
                .iter()
                .for_each(|x| bytes.extend_from_slice(&bf16::from_f32(*x).to_le_bytes())),
        };
        let fill = origin.rows(spec, def);
        stream::write_rows((def.rows, def.cols), fill, encode, out, done)?;
    }
    Ok(())
}

/// The name of the number format in a header, and the size of a weight (bytes).
fn stored_as(spec: &ModelSpec) -> (&'static str, usize) {
    match spec.storage {
        Storage::F32 => ("F32", 4),
        Storage::Bf16 => ("BF16", 2),
    }
}

/// The length of the header as u64, then the header, padded so that the data is aligned to 8 bytes.
pub(crate) fn header(spec: &ModelSpec, defs: &[TensorDef]) -> Vec<u8> {
    let (dtype, size) = stored_as(spec);
    // Written by hand and not through a map, whose order would depend on a feature of serde_json
    // that any other crate of a build can switch on.
    let mut json = String::from(r#"{"__metadata__":{"format":"pt"}"#);
    let mut offset = 0;
    for def in defs {
        let end = offset + def.len() * size;
        let shape = serde_json::to_string(&def.shape()).expect("numbers serialise");
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
        let defs = tensors(&spec);
        let (mut bytes, mut weights) = (Vec::new(), 0);
        let mut done = |n: usize| {
            weights += n;
            Ok(())
        };
        write(&spec, Origin::Seed, &defs, &mut bytes, &mut done).unwrap();
        let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
        assert_eq!(file.len(), defs.len());
        let gate = file.tensor("model.layers.0.mlp.gate_proj.weight").unwrap();
        assert_eq!(gate.shape(), [768, 512]);
        assert_eq!(gate.data().len(), 768 * 512 * 2);
        assert_eq!(file.tensor("model.norm.weight").unwrap().shape(), [512]);
        let expected: usize = defs.iter().map(TensorDef::len).sum();
        assert_eq!(weights, expected);
    }
    #[test]
    fn shards_hold_each_tensor_once_and_the_index_says_where() {
        let spec = ModelSpec {
            num_layers: 2,
            vocab_size: 256,
            ..ModelSpec::tiny_sharded()
        };
        let index: serde_json::Value = serde_json::from_str(&index_json(&spec)).unwrap();
        let mut found = 0;
        let (mut sizes, mut total) = (Vec::new(), 0);
        for (name, defs) in files(&spec) {
            let mut bytes = Vec::new();
            write(&spec, Origin::Seed, &defs, &mut bytes, &mut |_| Ok(())).unwrap();
            let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
            for (tensor, view) in file.tensors() {
                assert_eq!(index["weight_map"][&tensor], name.as_str());
                total += view.data().len();
                found += 1;
            }
            sizes.push(bytes.len());
        }
        assert_eq!(found, tensors(&spec).len());
        assert_eq!(index["weight_map"].as_object().unwrap().len(), found);
        assert_eq!(index["metadata"]["total_size"], total);
        assert!(
            sizes.len() == 2 && sizes.iter().max() < sizes.iter().min().map(|n| 2 * n).as_ref()
        );
        let whole = files(&ModelSpec::tiny_llama());
        assert_eq!((whole.len(), whole[0].0.as_str()), (1, "model.safetensors"));
    }
}
