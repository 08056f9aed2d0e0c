//! What a call put out, read from its file.

use std::path::Path;

/// Every value of a file of little-endian `f64`.
pub(super) fn read(file: &Path) -> Result<Vec<f64>, String> {
    let bytes = std::fs::read(file).map_err(|error| format!("no output: {error}"))?;
    let (values, rest) = bytes.as_chunks::<8>();
    match rest {
        [] => Ok(values.iter().map(|v| f64::from_le_bytes(*v)).collect()),
        _ => Err(format!("an output of {} bytes", bytes.len())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_cut_short_is_no_output() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("x");
        assert!(read(&file).unwrap_err().contains("no output"));
        std::fs::write(&file, [0; 12]).unwrap();
        assert!(read(&file).unwrap_err().contains("12 bytes"));
        std::fs::write(&file, 1.5_f64.to_le_bytes()).unwrap();
        assert_eq!(read(&file), Ok(vec![1.5]));
    }
}
