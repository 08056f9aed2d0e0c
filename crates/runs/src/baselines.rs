//! Names that the user gives to runs (`bench --save NAME`), so that `compare NAME` holds the
//! newest run against one that was measured before a change. They stand in a small file
//! beside the runs; no record refers to it.

use anyhow::{Result, ensure};
use base::whole::write_whole;
use schema::error::check_id;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Name → run id.
type Names = BTreeMap<String, String>;

fn file(results_dir: &Path) -> PathBuf {
    results_dir.join("names.toml")
}

fn table(results_dir: &Path) -> Result<Names> {
    let file = file(results_dir);
    match file.exists() {
        true => Ok(schema::error::read_toml(&file)?),
        false => Ok(Names::new()),
    }
}

/// The id of the run of that name; what is no name comes back as it is.
pub fn resolve(results_dir: &Path, run: &str) -> Result<String> {
    let named = table(results_dir)?.remove(run);
    Ok(named.unwrap_or_else(|| run.to_owned()))
}

/// Every name.
pub fn names(results_dir: &Path) -> Result<Vec<String>> {
    Ok(table(results_dir)?.into_keys().collect())
}

/// Refuse a name that can't be given; asked before anything is measured.
pub fn check(results_dir: &Path, ids: &[String], name: &str) -> Result<()> {
    check_id(&file(results_dir), "--save", name)?;
    ensure!(
        name != "latest" && !ids.iter().any(|id| id == name),
        "--save {name}: this names a run already; take another word"
    );
    table(results_dir).map(drop)
}

/// Give a run a name; what was done, in words.
pub fn save(results_dir: &Path, name: &str, id: &str) -> Result<String> {
    let mut names = table(results_dir)?;
    let before = names.insert(name.to_owned(), id.to_owned());
    write_whole(&file(results_dir), toml::to_string(&names)?)?;
    let instead = match before.filter(|before| before != id) {
        Some(before) => format!(", and no longer {before}"),
        None => String::new(),
    };
    Ok(format!(
        "{name} is {id} now{instead}: `cargo xtask compare {name}` holds the newest run against it"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_kept_given_anew_and_found() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        assert_eq!(resolve(dir, "main").unwrap(), "main");
        assert!(names(dir).unwrap().is_empty());
        let said = save(dir, "main", "20260101-a").unwrap();
        assert!(said.starts_with("main is 20260101-a now: "), "{said}");
        save(dir, "v1.2", "20260102-b").unwrap();
        let said = save(dir, "main", "20260103-c").unwrap();
        assert!(
            said.starts_with("main is 20260103-c now, and no longer 20260101-a: "),
            "{said}"
        );
        assert_eq!(resolve(dir, "main").unwrap(), "20260103-c");
        assert_eq!(resolve(dir, "v1.2").unwrap(), "20260102-b");
        assert_eq!(resolve(dir, "20260101-a").unwrap(), "20260101-a");
        assert_eq!(names(dir).unwrap(), ["main", "v1.2"]);
    }

    #[test]
    fn what_is_no_name_or_names_a_run_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let ids = ["20260101-a".to_owned()];
        let check = |name: &str| check(dir.path(), &ids, name);
        check("before").unwrap();
        for name in ["", "../x", "A", "a b", ".a", "latest", "20260101-a"] {
            assert!(check(name).is_err(), "{name:?}");
        }
        std::fs::write(file(dir.path()), "main = 1\n").unwrap();
        let broken = check("before").unwrap_err().to_string();
        assert!(broken.contains("names.toml:1"), "{broken}");
    }
}
