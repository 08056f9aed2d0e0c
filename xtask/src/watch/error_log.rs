//! The file that keeps every error and warning with its time, where the user wants
//! one: `BENCH_ERROR_LOG`, or its alias `TEST_BURN_ERROR_LOG`, is a path, or a
//! truthy word for [`DEFAULT_NAME`] in the build directory.
//!
//! Appended to, an entry a write, so that commands side by side don't cut each
//! other's short. Lines of an entry after its first are indented.

use super::event::Alert;
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};

/// What the user sets, the first that is there.
pub const VARIABLES: [&str; 2] = ["BENCH_ERROR_LOG", "TEST_BURN_ERROR_LOG"];
/// The file of someone who named none.
pub const DEFAULT_NAME: &str = "bench-errors.log";

/// Where entries go, if anywhere. `build_dir` gives the directory of the default
/// file.
pub fn path(
    variable: impl Fn(&str) -> Option<OsString>,
    build_dir: impl FnOnce() -> PathBuf,
) -> Option<PathBuf> {
    let value = VARIABLES.iter().find_map(|name| variable(name))?;
    match value.to_string_lossy().to_ascii_lowercase().as_str() {
        "" | "0" | "false" | "no" | "off" => None,
        "1" | "true" | "yes" | "on" => Some(build_dir().join(DEFAULT_NAME)),
        _ => Some(value.into()),
    }
}

/// Append an entry: `time severity [command] text`.
pub fn append(path: &Path, command: &str, alert: &Alert) -> std::io::Result<()> {
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir)?;
    }
    let mut file = std::fs::File::options()
        .create(true)
        .append(true)
        .open(path)?;
    let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.3fZ");
    file.write_all(entry(&now.to_string(), command, alert).as_bytes())
}

fn entry(now: &str, command: &str, alert: &Alert) -> String {
    let text = alert.text.trim_end().replace('\n', "\n    ");
    format!("{now} {} [{command}] {text}\n", alert.severity.word())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::event::Severity;

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
        let default = Some(PathBuf::from("/b/bench-errors.log"));
        assert_eq!(path_of(None, Some("1")), default);
        assert_eq!(path_of(Some("TRUE"), Some("/x/e")), default);
        assert_eq!(path_of(Some("off"), Some("1")), None, "the first decides");
        assert_eq!(path_of(Some(""), None), None);
    }

    #[test]
    fn an_entry_begins_with_its_time_and_only_its_first_line_does() {
        let alert = Alert {
            severity: Severity::Warning,
            text: "one\ntwo\n".into(),
        };
        assert_eq!(
            entry("2026-01-02T03:04:05.006Z", "bench", &alert),
            "2026-01-02T03:04:05.006Z warning [bench] one\n    two\n"
        );
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("new/e.log");
        append(&file, "bench", &alert).unwrap();
        append(&file, "verify", &alert).unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        let entries: Vec<&str> = text.lines().filter(|l| !l.starts_with(' ')).collect();
        assert_eq!(entries.len(), 2);
        assert!(entries[1].ends_with("Z warning [verify] one"), "{text}");
    }
}
