//! The stamp of a Python environment: the requirements that it was made from, and the Python that
//! made it. After an upgrade of that Python the packages lie where the new one doesn't look.

use schema::hash::sha256_hex;
use std::path::Path;

/// The file in an environment with its stamp.
pub(super) const STAMP: &str = "requirements.sha256";

/// The stamp of an environment that `python`, which reports `version`, makes of these requirements.
pub(super) fn of(requirements: &[u8], python: &str, version: &str) -> String {
    format!("{} {python} {version}", sha256_hex(requirements))
}

/// Whether the environment in `dir` was made from these requirements, by whichever Python.
pub(super) fn is_made_from(dir: &Path, requirements: &[u8]) -> bool {
    let stamp = std::fs::read_to_string(dir.join(STAMP)).unwrap_or_default();
    stamp.split_whitespace().next() == Some(sha256_hex(requirements).as_str())
}

/// Whether the environment in `dir` has the stamp that it would get now.
pub(super) fn is_current(dir: &Path, requirements: &[u8], python: &str, version: &str) -> bool {
    let Ok(stamp) = std::fs::read_to_string(dir.join(STAMP)) else {
        return false;
    };
    if stamp == of(requirements, python, version) {
        return true;
    }
    // Older stamps have no version. Python's own file has it.
    stamp == format!("{} {python}", sha256_hex(requirements))
        && recorded_version(dir).is_some_and(|recorded| version == format!("Python {recorded}"))
}

/// The version of the Python that made the environment, as that Python recorded it.
pub(crate) fn recorded_version(dir: &Path) -> Option<String> {
    let text = std::fs::read_to_string(dir.join("pyvenv.cfg")).ok()?;
    let mut lines = text.lines().filter_map(|line| line.split_once('='));
    let (_, version) = lines.find(|(key, _)| key.trim() == "version")?;
    Some(version.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_python_or_other_requirements_make_it_anew() {
        let dir = tempfile::tempdir().unwrap();
        let is_current = |text: &str, python: &str, version: &str| {
            super::is_current(dir.path(), text.as_bytes(), python, version)
        };
        assert!(!is_current("a==1", "python3", "Python 3.11.2"));
        let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        write(STAMP, &of(b"a==1", "python3", "Python 3.11.2"));
        assert!(is_current("a==1", "python3", "Python 3.11.2"));
        assert!(!is_current("a==2", "python3", "Python 3.11.2"));
        assert!(!is_current("a==1", "python3.12", "Python 3.11.2"));
        assert!(!is_current("a==1", "python3", "Python 3.12.0"));
        assert!(is_made_from(dir.path(), b"a==1") && !is_made_from(dir.path(), b"a==2"));
    }

    #[test]
    fn an_older_stamp_counts_while_the_python_is_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let is_current = |version: &str| super::is_current(dir.path(), b"a==1", "python3", version);
        let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        write(STAMP, &format!("{} python3", sha256_hex(b"a==1")));
        assert!(!is_current("Python 3.11.2"), "nothing says which it was");
        write("pyvenv.cfg", "home = /usr/bin\nversion = 3.11.2\n");
        assert!(is_current("Python 3.11.2"));
        assert!(!is_current("Python 3.12.0"));
    }
}
