//! A run's raw records as one packed file. Equal records give equal bytes: names are
//! sorted, and no time, owner or mode of this machine goes in.

use anyhow::{Context, Result};
use flate2::{Compression, GzBuilder};
use std::path::{Path, PathBuf};

/// The `.tar.gz` of everything in a run's directory, below a directory of its id.
pub fn pack(dir: &Path, id: &str) -> Result<Vec<u8>> {
    let mut files = Vec::new();
    collect(dir, &mut files)?;
    files.sort();
    let gzip = GzBuilder::new()
        .mtime(0)
        .write(Vec::new(), Compression::default());
    let mut tar = tar::Builder::new(gzip);
    for file in files {
        let bytes = std::fs::read(&file).with_context(|| format!("reading {}", file.display()))?;
        let mut header = tar::Header::new_ustar();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        header.set_mtime(0);
        let inside = file.strip_prefix(dir).unwrap_or(&file);
        tar.append_data(&mut header, Path::new(id).join(inside), bytes.as_slice())
            .with_context(|| format!("packing {}", file.display()))?;
    }
    let gzip = tar.into_inner().context("ending the archive")?;
    gzip.finish().context("compressing the archive")
}

fn collect(dir: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let entries = std::fs::read_dir(dir).with_context(|| format!("listing {}", dir.display()))?;
    for entry in entries {
        let entry = entry.with_context(|| format!("listing {}", dir.display()))?;
        let kind = entry.file_type()?;
        // A link could lead out of the run.
        if kind.is_dir() {
            collect(&entry.path(), files)?;
        } else if kind.is_file() {
            files.push(entry.path());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn all_files_are_in_it_in_order_and_equal_records_give_equal_bytes() {
        let run = tempfile::tempdir().unwrap();
        let make = |name: &str, text: &str| {
            let path = run.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        make("run.json", "{}");
        make("b.cpu.f32/s.i0.jsonl", "b\n");
        make("a.cpu.f32/s.i0.jsonl", "a\n");
        let first = pack(run.path(), "the-run").unwrap();
        make("run.json", "{}");
        assert_eq!(first, pack(run.path(), "the-run").unwrap());
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(first.as_slice()));
        let mut seen = Vec::new();
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            let name = entry.path().unwrap().display().to_string();
            let mut text = String::new();
            entry.read_to_string(&mut text).unwrap();
            seen.push((name, text));
        }
        let expected = [
            ("the-run/a.cpu.f32/s.i0.jsonl", "a\n"),
            ("the-run/b.cpu.f32/s.i0.jsonl", "b\n"),
            ("the-run/run.json", "{}"),
        ];
        assert_eq!(seen, expected.map(|(a, b)| (a.to_owned(), b.to_owned())));
    }
}
