//! What `cargo xtask dist` prints: a line an archive, and which are too large. Pure.

use base::table::aligned;

/// One archive.
#[derive(Clone, Debug)]
pub struct Row {
    /// `base`, or an engine's id.
    pub part: String,
    /// File name.
    pub file: String,
    /// Files in it.
    pub files: usize,
    /// Their size, bytes.
    pub bytes: u64,
    /// The archive's size, bytes.
    pub packed_bytes: u64,
}

/// The table.
pub fn table(rows: &[Row]) -> String {
    let head = ["part", "files", "unpacked", "packed", "archive"].map(str::to_owned);
    let rows = rows.iter().map(|row| {
        [
            row.part.clone(),
            row.files.to_string(),
            mebibytes(row.bytes),
            mebibytes(row.packed_bytes),
            row.file.clone(),
        ]
    });
    aligned(std::iter::once(head).chain(rows))
}

/// A line for each archive over `max` bytes.
pub fn too_large(rows: &[Row], max: u64) -> Vec<String> {
    let over = rows.iter().filter(|row| row.packed_bytes > max);
    over.map(|row| {
        format!(
            "{}: {} packed, and an archive may have {}",
            row.part,
            mebibytes(row.packed_bytes),
            mebibytes(max)
        )
    })
    .collect()
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_an_archive_and_a_complaint_for_one_that_is_too_large() {
        let row = |part: &str, packed_bytes| Row {
            part: part.into(),
            file: format!("x-{part}.tar.gz"),
            files: 3,
            bytes: 3 << 20,
            packed_bytes,
        };
        let rows = [
            row("base", 1 << 20),
            row("a", (64 << 20) + 1),
            row("b", 64 << 20),
        ];
        assert_eq!(
            table(&rows[..1]),
            "part  files  unpacked  packed   archive\nbase  3      3.0 MiB   1.0 MiB  x-base.tar.gz\n"
        );
        let over = too_large(&rows, 64 << 20);
        assert_eq!(
            over,
            ["a: 64.0 MiB packed, and an archive may have 64.0 MiB"]
        );
    }
}
