//! Reads a GGUF file's header: whether the file has the precision asked for, and how many bytes a
//! step reads. It deliberately reads no weights.

use llama_cpp_sys_2 as sys;
use std::ffi::{CStr, CString};
use std::ptr::NonNull;

/// Size in bytes of an f16, in which llama.cpp stores keys and values by default.
const KV_ELEMENT_BYTES: u64 = 2;

/// The facts that the adapter needs about a file.
#[derive(Debug, PartialEq)]
pub struct Contents {
    /// Bytes of weights that a decode step reads, as in [`protocol::wire::Loaded::weight_bytes`].
    pub weight_bytes: u64,
    /// Bytes of key/value cache per token, as in [`protocol::wire::Loaded::kv_bytes_per_token`].
    pub kv_bytes_per_token: u64,
    /// The type of most of the layers' weights, e.g. `q8_0`, `q4_K`.
    pub main_type: String,
}

/// A tensor's name, type and size in bytes.
struct Tensor {
    name: String,
    kind: String,
    bytes: u64,
}

impl Contents {
    /// Read the header of a file.
    pub fn read(path: &str) -> Result<Self, String> {
        let header = Header::open(path)?;
        let tensors = header.tensors();
        let kv_values_per_token = header.kv_values_per_token()?;
        let kinds = tensors.iter();
        let kinds = kinds.map(|tensor| (&*tensor.name, tensor.kind.clone(), tensor.bytes));
        Ok(Self {
            weight_bytes: weight_bytes(&tensors),
            kv_bytes_per_token: KV_ELEMENT_BYTES * kv_values_per_token,
            main_type: protocol::main_type(kinds).ok_or("the file has no layer weights")?,
        })
    }
}

/// Bytes of weights that a decode step reads. Of an embedding that is not also the output head,
/// only single rows are read.
fn weight_bytes(tensors: &[Tensor]) -> u64 {
    let untied = tensors.iter().any(|tensor| tensor.name == "output.weight");
    let read = |tensor: &&Tensor| !(untied && tensor.name == "token_embd.weight");
    tensors.iter().filter(read).map(|tensor| tensor.bytes).sum()
}

/// An open GGUF header.
struct Header(NonNull<sys::gguf_context>);

impl Header {
    fn open(path: &str) -> Result<Self, String> {
        let path = CString::new(path).map_err(|err| err.to_string())?;
        let params = sys::gguf_init_params {
            no_alloc: true,
            ctx: std::ptr::null_mut(),
        };
        // SAFETY: the path is a string that outlives the call.
        let header = unsafe { sys::gguf_init_from_file(path.as_ptr(), params) };
        let header = NonNull::new(header).ok_or("it can't be read as GGUF")?;
        Ok(Self(header))
    }

    fn tensors(&self) -> Vec<Tensor> {
        let header = self.0.as_ptr();
        // SAFETY: `header` is open, and each index below the count is a tensor of
        // its, whose name lives as long as it.
        unsafe {
            let count = sys::gguf_get_n_tensors(header);
            let tensor = |index| {
                let kind = sys::gguf_get_tensor_type(header, index);
                Tensor {
                    name: text(sys::gguf_get_tensor_name(header, index)),
                    kind: text(sys::ggml_type_name(kind)),
                    bytes: sys::gguf_get_tensor_size(header, index) as u64,
                }
            };
            (0..count).map(tensor).collect()
        }
    }

    /// Number of elements in one token's keys and values, over all layers.
    fn kv_values_per_token(&self) -> Result<u64, String> {
        let name = "general.architecture";
        let architecture = self.key(name, sys::GGUF_TYPE_STRING);
        let architecture = architecture.ok_or_else(|| format!("no {name} in it"))?;
        // SAFETY: the key is one of the open header's, and a string.
        let architecture = unsafe { text(sys::gguf_get_val_str(self.0.as_ptr(), architecture)) };
        let maybe = |key: &str| self.number(&format!("{architecture}.{key}"));
        let number = |key: &str| maybe(key).ok_or_else(|| format!("no {key} in it"));

        let heads = number("attention.head_count")?.max(1);
        let heads_kv = maybe("attention.head_count_kv").unwrap_or(heads);
        let length = number("embedding_length")? / heads;
        let [key, value] = ["attention.key_length", "attention.value_length"]
            .map(|name| maybe(name).unwrap_or(length));
        Ok(number("block_count")? * heads_kv * (key + value))
    }

    fn number(&self, name: &str) -> Option<u64> {
        let key = self.key(name, sys::GGUF_TYPE_UINT32)?;
        // SAFETY: the key is one of the open header's, and a u32.
        Some(unsafe { sys::gguf_get_val_u32(self.0.as_ptr(), key) }.into())
    }

    /// Return the index of a key, if the header has it with a value of type `kind`.
    fn key(&self, name: &str, kind: sys::gguf_type) -> Option<i64> {
        let name = CString::new(name).ok()?;
        let header = self.0.as_ptr();
        // SAFETY: `header` is open, and the type of a key is only asked for where
        // there is one.
        unsafe {
            let key = sys::gguf_find_key(header, name.as_ptr());
            (key >= 0 && sys::gguf_get_kv_type(header, key) == kind).then_some(key)
        }
    }
}

impl Drop for Header {
    fn drop(&mut self) {
        // SAFETY: opened by us, and freed once.
        unsafe { sys::gguf_free(self.0.as_ptr()) };
    }
}

/// # Safety
/// `string` is a C string.
unsafe fn text(string: *const std::ffi::c_char) -> String {
    // SAFETY: as the caller promises.
    let string = unsafe { CStr::from_ptr(string) };
    string.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(name: &str, kind: &str, bytes: u64) -> Tensor {
        Tensor {
            name: name.to_string(),
            kind: kind.to_string(),
            bytes,
        }
    }

    #[test]
    fn a_tied_embedding_is_read_whole_and_another_is_not() {
        let mut tensors = vec![
            tensor("token_embd.weight", "q8_0", 100),
            tensor("blk.0.attn_q.weight", "q8_0", 10),
        ];
        assert_eq!(weight_bytes(&tensors), 110);
        tensors.push(tensor("output.weight", "q8_0", 100));
        assert_eq!(weight_bytes(&tensors), 110);
    }

    #[test]
    fn what_is_no_gguf_file_is_an_error() {
        assert!(Contents::read("/nowhere/at/all.gguf").is_err());
    }
}
