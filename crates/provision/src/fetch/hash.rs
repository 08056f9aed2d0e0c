//! sha256 of a file, in chunks, with progress. Knows no lock and no model.

use super::progress::Progress;
use anyhow::{Context, Result};
use sha2::{Digest, Sha256};
use std::io::Read;
use std::path::Path;

/// Under this a bar would only flicker.
const WORTH_A_BAR_BYTES: u64 = 64 << 20;

/// sha256 of the file's bytes, lower-case hex.
pub fn sha256_of_file(path: &Path, progress: &mut dyn Progress) -> Result<String> {
    let what = || format!("can't read {}", path.display());
    let mut file = std::fs::File::open(path).with_context(what)?;
    let size = file.metadata().with_context(what)?.len();
    let shown = size >= WORTH_A_BAR_BYTES;
    if shown {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        progress.begin(&format!("verifying {name}"), size);
    }
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    let mut done = 0;
    loop {
        let read = file.read(&mut buffer).with_context(what)?;
        if read == 0 {
            break;
        }
        hasher.update(&buffer[..read]);
        done += read as u64;
        if shown {
            progress.at(done);
        }
    }
    if shown {
        progress.end();
    }
    Ok(hasher
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fetch::Silent;

    #[test]
    fn hash_of_abc_is_the_published_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("abc");
        std::fs::write(&path, "abc").unwrap();
        assert_eq!(
            sha256_of_file(&path, &mut Silent).unwrap(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }
}
