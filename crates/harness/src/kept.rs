//! Checks that the records of a run are still there while it goes on: somebody may delete them, and
//! a run must not report launches whose records are lost.

use anyhow::Error;
use schema::run_files::HEADER;
use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Files of a run that were written and are gone.
#[derive(Debug, PartialEq, Eq)]
pub struct Vanished {
    /// The first of them.
    path: PathBuf,
    /// Number of launches whose records are gone.
    launches: usize,
    /// Whether it is the run's header, without which a directory is no run.
    is_header: bool,
}

impl fmt::Display for Vanished {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let lost = match self.launches {
            1 => "1 launch is lost".into(),
            launches => format!("{launches} launches are lost"),
        };
        let path = self.path.display();
        write!(f, "{path} vanished while measuring: {lost}")
    }
}

impl std::error::Error for Vanished {}

/// Check that the header and these records of a run exist. The records' paths are relative to the
/// run's directory. Only their metadata is read, and never while a request is timed.
pub fn check<'a>(
    run_dir: &Path,
    records: impl IntoIterator<Item = &'a PathBuf>,
) -> Result<(), Vanished> {
    let is_gone = |path: &PathBuf| {
        // Of a disk that fails otherwise, the next write tells.
        let found = path.symlink_metadata();
        found.is_err_and(|error| error.kind() == ErrorKind::NotFound)
    };
    let header = Some(run_dir.join(HEADER)).filter(is_gone);
    let records = records.into_iter().map(|record| run_dir.join(record));
    let gone: Vec<PathBuf> = records.filter(is_gone).collect();
    let (is_header, launches) = (header.is_some(), gone.len());
    match header.or_else(|| gone.into_iter().next()) {
        None => Ok(()),
        Some(path) => Err(Vanished {
            path,
            launches,
            is_header,
        }),
    }
}

/// Whether an error says that records are gone.
pub fn is_loss(error: &Error) -> bool {
    error.downcast_ref::<Vanished>().is_some()
}

/// Add to the error that stopped a run what the user can do: `usual`, or where records vanished,
/// what brings those back. `resume` is the command that resumes the run.
pub fn with_advice(error: Error, resume: &str, usual: String) -> Error {
    match error.downcast_ref::<Vanished>() {
        None => error.context(usual),
        Some(vanished) if vanished.is_header => Error::msg(format!(
            "{vanished}; without {HEADER} the run can't be resumed: put it back from a copy, or begin a new run"
        )),
        Some(vanished) => Error::msg(format!(
            "{vanished}; `{resume}` measures what is lost again"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_gone_is_counted_and_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let records = ["t/a.jsonl", "t/b.jsonl"].map(PathBuf::from);
        std::fs::create_dir(path("t")).unwrap();
        for name in [HEADER, "t/a.jsonl", "t/b.jsonl"] {
            std::fs::write(path(name), "{}").unwrap();
        }
        assert_eq!(check(dir.path(), &records), Ok(()));
        let said = || {
            let vanished = check(dir.path(), &records).unwrap_err();
            let error = with_advice(vanished.into(), "resume it", "usual".into());
            format!("{error:#}").replace(&format!("{}/", dir.path().display()), "")
        };
        std::fs::remove_file(path("t/b.jsonl")).unwrap();
        assert_eq!(
            said(),
            "t/b.jsonl vanished while measuring: 1 launch is lost; `resume it` measures what is lost again"
        );
        std::fs::remove_dir_all(path("t")).unwrap();
        assert_eq!(
            said(),
            "t/a.jsonl vanished while measuring: 2 launches are lost; `resume it` measures what is lost again"
        );
        std::fs::remove_file(path(HEADER)).unwrap();
        assert_eq!(
            said(),
            "run.json vanished while measuring: 2 launches are lost; without run.json the run can't be resumed: put it back from a copy, or begin a new run"
        );
        let other = with_advice(Error::msg("a disk is full"), "resume it", "usual".into());
        assert_eq!(format!("{other:#}"), "usual: a disk is full");
    }
}
