//! Opens GGUF files of any type, describes them from their header, and checks that they have the
//! precision asked for. [`crate::quantised`] chooses Candle's model for a file.

use crate::model::Model;
use crate::quantised::Header;
use crate::{config, quantised};
use candle_core::Device;
use candle_core::quantized::GgmlDType;
use candle_core::quantized::gguf_file::Content;
use protocol::engine::EngineError;
use protocol::panicked::catching;
use protocol::wire::{Batching, Capabilities, Load, Loaded};
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

/// Number of rows of a matrix in one of Candle's tiles.
const TILE_ROWS: usize = 16;
/// Weights and bytes of a tile of q4_k: of 256 columns, with a scale and a minimum in f32 for each
/// row and 32 columns (`TileQ4K` in candle-core's `quantized/repack_x86.rs`).
const Q4K_TILE: (usize, usize) = (TILE_ROWS * 256, 3072);

/// Add to `capabilities` what the GGUF file's header says. An unreadable file adds nothing: `load`
/// will report what is wrong with it.
pub fn describe(load: &Load, capabilities: &mut Capabilities) {
    let Ok((_, content)) = open(&load.weights_path()) else {
        return;
    };
    let header = Header::new(&content);
    let mut gaps = header.gaps();
    // Mistral's GGUF files don't say that it has a sliding window.
    gaps.extend(config::window_gap_of(Path::new(&load.model_dir)));
    capabilities.position_gap = (!gaps.is_empty()).then(|| gaps.join("; "));
    let kind = main_type(&content);
    if load.backend == "cpu" {
        capabilities.notes.extend(copies(kind.as_deref()));
    }
    let is_quantised = !matches!(kind.as_deref(), Some("F32" | "F16" | "BF16"));
    if !is_quantised {
        let note = "Unquantised GGUF weights are f32 in memory.".to_string();
        capabilities.notes.push(note);
    }
    if let Some(why) = header.reason_not_to_batch(is_quantised) {
        capabilities.batching = Batching::None;
        capabilities.notes.push(why);
    }
    if let Ok(positions) = header.positions() {
        let note = format!("GGUF: at most {positions} positions.");
        capabilities.notes.push(note);
    }
}

/// Load a GGUF file.
pub fn load(load: &Load, device: &Device) -> Result<(Box<dyn Model>, Loaded), EngineError> {
    let path = load.weights_path();
    let fault = |why: String| EngineError::of_library(why).in_file(&path);
    let unsupported = |why: String| EngineError::unsupported(why).in_file(&path);
    let (mut reader, content) =
        open(&path).map_err(|why| EngineError::unavailable(why).in_file(&path))?;
    check_precision(&content, &load.precision).map_err(unsupported)?;
    let header = Header::new(&content);
    if let Some(why) = header.refused() {
        return Err(unsupported(why));
    }
    let loaded = Loaded {
        weight_bytes: weight_bytes(&content, device),
        kv_bytes_per_token: kv_bytes_per_token(&header).map_err(fault)?,
        ..Loaded::default()
    };
    let positions = header.positions().map_err(fault)?;
    let architecture = header.architecture.to_owned();
    let model =
        catching(|| quantised::load(&architecture, positions, content, &mut reader, device));
    Ok((model.map_err(fault)?, loaded))
}

fn open(path: &Path) -> Result<(BufReader<File>, Content), String> {
    let mut reader = BufReader::new(File::open(path).map_err(|err| err.to_string())?);
    let content = catching(|| Content::read(&mut reader))?;
    Ok((reader, content))
}

/// Return the type of most of the layers' weights, as Candle names it (`Q8_0`, `Q4K`).
fn main_type(content: &Content) -> Option<String> {
    let matrices = content.tensor_infos.iter();
    let matrices = matrices.filter(|(_, info)| info.shape.rank() == 2);
    protocol::main_type(matrices.map(|(name, info)| {
        let kind = format!("{:?}", info.ggml_dtype);
        (name.as_str(), kind, info.shape.elem_count() as u64)
    }))
}

/// Check that a file has the precision asked for, by the type of most of its weights.
fn check_precision(content: &Content, precision: &str) -> Result<(), String> {
    let held = main_type(content).ok_or("the file has no layer weights")?;
    protocol::check_precision(&held, precision)
}

/// Bytes of weights that a decode step reads. Of an embedding that is not also the output head,
/// only single rows are read.
fn weight_bytes(content: &Content, device: &Device) -> u64 {
    let untied = content.tensor_infos.contains_key("output.weight");
    let unread = |name: &str| name.starts_with("rope_") || untied && name == "token_embd.weight";
    let read = content
        .tensor_infos
        .iter()
        .filter(|(name, _)| !unread(name));
    read.map(|(_, info)| {
        let in_tiles = device.is_cpu() && has_tiles(info.ggml_dtype);
        bytes_read(info.ggml_dtype, info.shape.dims(), in_tiles) as u64
    })
    .sum()
}

/// Bytes of a weight that a step of one row reads. Weights that are not quantised are held as f32.
/// If `in_tiles`, whole tiles are read in place of the file's blocks; tiles of q8_0 have as many
/// bytes as its blocks, and those of q6_k serve several rows at once alone.
fn bytes_read(dtype: GgmlDType, shape: &[usize], in_tiles: bool) -> usize {
    let weights: usize = shape.iter().product();
    let (block_weights, block_bytes) = match (dtype, shape) {
        (GgmlDType::F16 | GgmlDType::BF16, _) => (1, 4),
        (GgmlDType::Q4K, [rows, _]) if in_tiles && rows.is_multiple_of(TILE_ROWS) => Q4K_TILE,
        _ => (dtype.block_size(), dtype.type_size()),
    };
    weights / block_weights * block_bytes
}

/// Whether Candle multiplies one row by weights of a type in tiles, which it makes of the file's
/// blocks, on this processor (`level` and `select` in candle-core's `quantized/repack_x86.rs`).
#[cfg(target_arch = "x86_64")]
fn has_tiles(dtype: GgmlDType) -> bool {
    let has_avx512_vnni =
        is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vnni");
    let has_avx2 = is_x86_feature_detected!("avx2");
    let has_vnni = has_avx512_vnni || has_avx2 && is_x86_feature_detected!("avxvnni");
    match dtype {
        GgmlDType::Q4K => has_vnni || has_avx2 && is_x86_feature_detected!("fma"),
        GgmlDType::Q8_0 => has_vnni,
        _ => false,
    }
}

/// On ARM, what Candle makes of the file's blocks has as many bytes as they have.
#[cfg(not(target_arch = "x86_64"))]
fn has_tiles(_: GgmlDType) -> bool {
    false
}

/// Return what a reader of the numbers must know of the copies that Candle makes of weights on this
/// processor, by the type of most of them.
fn copies(kind: Option<&str>) -> Option<String> {
    let (dtype, note) = match kind? {
        "Q4K" => (
            GgmlDType::Q4K,
            "Candle copies q4_k weights into tiles when they are first multiplied, after loading, \
             and for prompts q6_k weights too; the file's blocks stay in memory. Tiles of q4_k have \
             a third more bytes than its blocks, which MBU counts.",
        ),
        "Q8_0" => (
            GgmlDType::Q8_0,
            "Candle copies q8_0 weights into tiles of as many bytes when they are first multiplied, \
             after loading; the file's blocks stay in memory.",
        ),
        _ => return None,
    };
    has_tiles(dtype).then(|| note.to_string())
}

/// Bytes of key/value cache per token. Keys and values are f32, whatever the weights are.
fn kv_bytes_per_token(header: &Header) -> Result<u64, String> {
    let heads = header.number("attention.head_count_kv")?;
    Ok(2 * 4 * header.number("block_count")? * heads * header.head_dim()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_of_q4_k_are_a_third_larger_than_its_blocks() {
        let blocks = |rows: usize| rows * 2 * 144;
        for (rows, in_tiles, expected) in [
            (32, false, blocks(32)),
            (32, true, blocks(32) / 3 * 4),
            // Not a whole number of tiles.
            (24, true, blocks(24)),
        ] {
            let bytes = bytes_read(GgmlDType::Q4K, &[rows, 512], in_tiles);
            assert_eq!(bytes, expected, "{rows} rows");
        }
        assert_eq!(bytes_read(GgmlDType::Q6K, &[16, 256], true), 16 * 210);
        assert_eq!(bytes_read(GgmlDType::Q8_0, &[16, 256], true), 16 * 8 * 34);
        assert_eq!(bytes_read(GgmlDType::F16, &[16], false), 16 * 4);
    }

    #[test]
    fn copies_are_declared_where_there_are_tiles() {
        let said = |kind: &str| copies(Some(kind)).is_some_and(|note| note.contains("tiles"));
        assert_eq!(said("Q4K"), has_tiles(GgmlDType::Q4K));
        assert_eq!(said("Q8_0"), has_tiles(GgmlDType::Q8_0));
        assert!(!said("F16"));
    }
}
