//! Reads a GGUF file's header: whether the file has the precision asked for, and how many bytes a
//! step reads.

use frink_gguf::{GgmlType, GgufFile, TensorInfo};

/// Check that a file has the precision asked for, by the type of most of its weights.
///
/// # Errors
/// The type that the file has instead.
pub fn check_precision(file: &GgufFile, precision: &str) -> Result<(), String> {
    let held = protocol::main_type(file.tensors.iter().map(|tensor| {
        let kind = format!("{:?}", tensor.dtype);
        (tensor.name.as_str(), kind, tensor.n_elements() as u64)
    }));
    protocol::check_precision(&held.ok_or("the file has no layer weights")?, precision)
}

/// Bytes of weights that a decode step reads. Of an embedding that is not also the output head,
/// only single rows are read.
pub fn weight_bytes(file: &GgufFile) -> u64 {
    let is_untied = file.find_tensor("output.weight").is_some();
    let is_unread =
        |name: &str| name.starts_with("rope_") || is_untied && name == "token_embd.weight";
    let read = file
        .tensors
        .iter()
        .filter(|tensor| !is_unread(&tensor.name));
    read.map(bytes_in_memory).sum()
}

/// Bytes of a tensor as Frink holds it: quantised weights as they are in the file, others as f32.
fn bytes_in_memory(tensor: &TensorInfo) -> u64 {
    let bytes = match tensor.dtype {
        GgmlType::F32 | GgmlType::F16 | GgmlType::BF16 => 4 * tensor.n_elements(),
        _ => tensor.byte_len().unwrap_or_default(),
    };
    bytes as u64
}
