//! This module appends errors and warnings, with their time, to a file if the user asks for one:
//! `BENCH_ERROR_LOG`, or its alias `TEST_BURN_ERROR_LOG`, is a path, or a truthy word that stands
//! for a file with a default name. The harness and engines that are run by hand write the same
//! format; engines that the harness runs write nothing, because the harness logs the errors in
//! their answers.
//!
//! Each entry is appended in a single write, so that programs that run at the same time don't
//! interleave their entries. The lines of an entry after its first are indented.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// The environment variables, in order of precedence, each with the default name of its file.
pub const VARIABLES: [(&str, &str); 2] = [
    ("BENCH_ERROR_LOG", "bench-errors.log"),
    ("TEST_BURN_ERROR_LOG", "test-burn-error.log"),
];

/// Return the path of the log, or `None` if the user wants none. `default_dir` gives the directory
/// of a file whose name is the default one.
pub fn path(
    variable: impl Fn(&str) -> Option<OsString>,
    default_dir: impl FnOnce() -> PathBuf,
) -> Option<PathBuf> {
    let mut set = VARIABLES.iter();
    let (value, default) = set.find_map(|(name, default)| Some((variable(name)?, default)))?;
    match value.to_string_lossy().to_ascii_lowercase().as_str() {
        "" | "0" | "false" | "no" | "off" => None,
        "1" | "true" | "yes" | "on" => Some(default_dir().join(default)),
        _ => Some(value.into()),
    }
}

/// Append one entry: `time severity [program] text`.
///
/// # Errors
/// Fails if the file can't be created or written.
pub fn append(path: &Path, severity: &str, program: &str, text: &str) -> std::io::Result<()> {
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir)?;
    }
    let mut file = std::fs::File::options()
        .create(true)
        .append(true)
        .open(path)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now_ms = now.map_or(0, |since| since.as_millis() as u64);
    file.write_all(entry(&utc(now_ms), severity, program, text).as_bytes())
}

fn entry(now: &str, severity: &str, program: &str, text: &str) -> String {
    let text = text.trim_end().replace('\n', "\n    ");
    format!("{now} {severity} [{program}] {text}\n")
}

/// Format milliseconds since 1970 as a time in UTC, `2026-01-02T03:04:05.006Z`. The date is
/// computed by H. Hinnant's `civil_from_days`, for non-negative days since 1970.
fn utc(unix_ms: u64) -> String {
    let (seconds, ms) = (unix_ms / 1000, unix_ms % 1000);
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let shifted = days + 719_468; // days since 1 March of the year 0
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_a_truthy_word_or_nothing() {
        let path_of = |bench: Option<&str>, alias: Option<&str>| {
            let of = |name: &str| match name {
                "BENCH_ERROR_LOG" => bench.map(OsString::from),
                _ => alias.map(OsString::from),
            };
            path(of, || "/b".into())
        };
        assert_eq!(path_of(None, None), None);
        assert_eq!(path_of(Some("e.log"), None), Some("e.log".into()));
        assert_eq!(path_of(None, Some("/x/e")), Some("/x/e".into()));
        let default = |name: &str| Some(Path::new("/b").join(name));
        assert_eq!(path_of(None, Some("1")), default("test-burn-error.log"));
        assert_eq!(
            path_of(Some("TRUE"), Some("/x/e")),
            default("bench-errors.log")
        );
        assert_eq!(path_of(Some("off"), Some("1")), None, "the first decides");
        assert_eq!(path_of(Some(""), None), None);
    }

    #[test]
    fn an_entry_begins_with_its_time_and_only_its_first_line_does() {
        assert_eq!(
            entry("2026-01-02T03:04:05.006Z", "warning", "bench", "one\ntwo\n"),
            "2026-01-02T03:04:05.006Z warning [bench] one\n    two\n"
        );
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("new/e.log");
        append(&file, "warning", "bench", "one\ntwo").unwrap();
        append(&file, "error", "verify", "one").unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        let entries: Vec<&str> = text.lines().filter(|l| !l.starts_with(' ')).collect();
        assert_eq!(entries.len(), 2);
        assert!(entries[1].ends_with("Z error [verify] one"), "{text}");
    }

    #[test]
    fn times_are_utc() {
        for (unix_ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_767_323_045_006, "2026-01-02T03:04:05.006Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(utc(unix_ms), text);
        }
    }
}
