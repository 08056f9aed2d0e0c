//! A part as a `.tar.gz`, which every system can unpack. Equal parts give equal bytes:
//! sorted, nobody's, and as old as `SOURCE_DATE_EPOCH` or the epoch itself.

use super::part::Part;
use anyhow::{Context, Result};
use flate2::{Compression, GzBuilder};

/// The archive of `part`, all of it inside the directory `dir`.
pub fn pack(dir: &str, part: &Part) -> Result<Vec<u8>> {
    let epoch = std::env::var("SOURCE_DATE_EPOCH").ok();
    let mtime = epoch.and_then(|text| text.parse().ok()).unwrap_or(0);
    // GzBuilder notes neither a time nor a name unless told.
    let gzip = GzBuilder::new().write(Vec::new(), Compression::default());
    let mut tar = tar::Builder::new(gzip);
    for (path, entry) in &part.entries {
        let mut header = tar::Header::new_gnu();
        header.set_size(entry.bytes.len() as u64);
        header.set_mode(if entry.is_program { 0o755 } else { 0o644 });
        header.set_mtime(mtime);
        header.set_uid(0);
        header.set_gid(0);
        tar.append_data(&mut header, format!("{dir}/{path}"), entry.bytes.as_slice())
            .with_context(|| format!("{path} can't be packed"))?;
    }
    let gzip = tar.into_inner().context("the archive can't be ended")?;
    gzip.finish().context("the archive can't be compressed")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn an_archive_holds_what_was_added_and_is_the_same_twice() {
        let mut part = Part::new("a");
        part.add("z/data.txt", "data", false);
        part.add("bin/a", "#!", true);
        let bytes = pack("top", &part).unwrap();
        assert_eq!(bytes, pack("top", &part).unwrap());
        let mut tar = tar::Archive::new(flate2::read::GzDecoder::new(bytes.as_slice()));
        let found: Vec<(String, u32, String)> = tar
            .entries()
            .unwrap()
            .map(|entry| {
                let mut entry = entry.unwrap();
                let path = entry.path().unwrap().display().to_string();
                let mode = entry.header().mode().unwrap();
                let mut text = String::new();
                entry.read_to_string(&mut text).unwrap();
                (path, mode, text)
            })
            .collect();
        let expected = [
            ("top/bin/a", 0o755, "#!"),
            ("top/z/data.txt", 0o644, "data"),
        ];
        assert_eq!(
            found,
            expected.map(|(p, m, t)| (p.to_owned(), m, t.to_owned()))
        );
    }
}
