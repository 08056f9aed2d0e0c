//! The directories in which runs are kept, and finding a run by name. New runs are directories in
//! `runs/`, published ones are packed files in `data/results/`.
//!
//! A user can name a run (`bench --save NAME`), so that `compare NAME` compares the newest run with
//! one that was measured before a change. The names are kept in a small file beside the runs; no
//! record refers to it.

use anyhow::{Context, Result, bail, ensure};
use base::files::write_whole;
use base::names::{Kind, UnknownName};
use base::repo::Repo;
use base::text::shell_word;
use schema::error::check_id;
use schema::run_files::{HEADER, SUFFIX};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The directories in which runs are looked up. New runs are made in the first, which also holds
/// the file of names that users gave to runs.
#[derive(Clone, Debug)]
pub struct Results {
    dirs: Vec<PathBuf>,
}

impl Results {
    /// Look in the directories of a checkout, or only in the one that the user named instead.
    pub fn new(repo: &Repo, out: Option<&Path>) -> Self {
        match out {
            Some(dir) => Self::at(dir),
            None => Self {
                dirs: vec![repo.runs_dir(), repo.published_dir()],
            },
        }
    }

    /// Look in one directory only.
    pub fn at(dir: &Path) -> Self {
        Self {
            dirs: vec![dir.to_owned()],
        }
    }

    /// The directory that new runs are made in.
    pub fn dir(&self) -> &Path {
        &self.dirs[0]
    }

    /// All directories, the one for new runs first.
    pub fn dirs(&self) -> &[PathBuf] {
        &self.dirs
    }

    /// Find a run by id, by the name that it was given, by path, or as `latest`; return its path.
    pub fn find(&self, run: &str) -> Result<PathBuf> {
        let run = self.resolve(run)?;
        let run = run.as_str();
        let mut places = self.places();
        if run == "latest" {
            let dirs: Vec<String> = self.dirs.iter().map(|d| d.display().to_string()).collect();
            return match places.pop_last() {
                Some((_, place)) => Ok(place),
                None => bail!(
                    "there is no latest run: no run is in {}: make one with `cargo xtask bench-all`",
                    dirs.join(" or ")
                ),
            };
        }
        if let Some(place) = places.remove(run) {
            return Ok(place);
        }
        let path = Path::new(run);
        if path.join(HEADER).is_file() || (run.ends_with(SUFFIX) && path.is_file()) {
            return Ok(path.to_owned());
        }
        // Newest first: where no known name is similar, the error lists the first ones.
        let mut known: Vec<String> = places.into_keys().rev().collect();
        known.extend(self.names()?.into_keys());
        let list = match self.dirs.as_slice() {
            [one] => format!("cargo xtask list runs --out {}", shell_word(one)),
            _ => "cargo xtask list runs".into(),
        };
        Err(UnknownName::new(Kind::Run, run, known)
            .listed_by(list)
            .into())
    }

    /// Return the path of each run by id, oldest first, because an id begins with the run's time. A
    /// run that is both a directory and a published file is found as the directory.
    pub fn places(&self) -> BTreeMap<String, PathBuf> {
        let mut places = BTreeMap::new();
        for dir in &self.dirs {
            for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
                let Ok(name) = entry.file_name().into_string() else {
                    continue;
                };
                // Links are not followed.
                let kind = entry.file_type();
                let is_run = kind.is_ok_and(|kind| match kind.is_dir() {
                    true => entry.path().join(HEADER).is_file(),
                    false => kind.is_file() && name.ends_with(SUFFIX),
                });
                if is_run {
                    let id = name.strip_suffix(SUFFIX).unwrap_or(&name).to_owned();
                    places.entry(id).or_insert_with(|| entry.path());
                }
            }
        }
        places
    }

    fn names_file(&self) -> PathBuf {
        self.dir().join("names.toml")
    }

    /// Return the names that users gave to runs, each with the run's id.
    fn names(&self) -> Result<BTreeMap<String, String>> {
        let file = self.names_file();
        match file.exists() {
            true => Ok(schema::error::read_toml(&file)?),
            false => Ok(BTreeMap::new()),
        }
    }

    /// Return the id of the run with that name; a text that is no name is returned unchanged.
    fn resolve(&self, run: &str) -> Result<String> {
        let named = self.names()?.remove(run);
        Ok(named.unwrap_or_else(|| run.to_owned()))
    }

    /// Refuse a name that can't be given to a run. Called before anything is measured.
    pub fn check_name(&self, name: &str) -> Result<()> {
        check_id(&self.names_file(), "--save", name)?;
        ensure!(
            name != "latest" && !self.places().contains_key(name),
            "--save {name}: this names a run already; take another word"
        );
        self.names().map(drop)
    }

    /// Give a run a name; return a sentence that says what was done.
    pub fn save_name(&self, name: &str, id: &str) -> Result<String> {
        let mut names = self.names()?;
        let before = names.insert(name.to_owned(), id.to_owned());
        write_whole(&self.names_file(), toml::to_string(&names)?)?;
        let instead = match before.filter(|before| before != id) {
            Some(before) => format!(" (before: {before})"),
            None => String::new(),
        };
        Ok(format!(
            "Saved {id} as {name}{instead}: `cargo xtask compare {name}` compares the newest run with it"
        ))
    }
}

/// Refuse a run's id that no command could read again, because its profile's name is too long.
pub fn check_run_id(profile: &str, id: &str) -> Result<()> {
    check_id(Path::new(HEADER), "run", id).with_context(|| {
        format!(
            "profile {profile:?} has too long a name: the ids of its runs contain it, and would be longer than an id may be"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::repo::FIRST_LOOK_DIR;

    fn make(dir: &Path, id: &str) {
        std::fs::create_dir_all(dir.join(id)).unwrap();
        std::fs::write(dir.join(id).join(HEADER), "{}").unwrap();
    }

    #[test]
    fn the_latest_run_is_no_first_look() {
        let dir = tempfile::tempdir().unwrap();
        let look = format!("{}/20990101-000000-first-look-1a2b", FIRST_LOOK_DIR);
        for id in [
            "20260101-000000-cpu-1a2b",
            "20260102-000000-cpu-1a2b",
            &look,
        ] {
            make(dir.path(), id);
        }
        let results = Results::at(dir.path());
        assert_eq!(results.places().len(), 2);
        let latest = results.find("latest").unwrap();
        assert!(latest.ends_with("20260102-000000-cpu-1a2b"));
        // A first look is found by its path.
        let path = dir.path().join(&look);
        assert_eq!(results.find(path.to_str().unwrap()).unwrap(), path);
    }

    #[test]
    fn packed_runs_are_found_beside_directories_and_links_are_not() {
        let root = tempfile::tempdir().unwrap();
        let (new, published) = (root.path().join("runs"), root.path().join("published"));
        make(&new, "20260103-000000-cpu-1a2b");
        make(&new, "20260101-000000-cpu-1a2b");
        std::fs::create_dir(&published).unwrap();
        for id in ["20260101-000000-cpu-1a2b", "20260102-000000-cpu-1a2b"] {
            std::fs::write(published.join(format!("{id}{SUFFIX}")), "").unwrap();
        }
        let link = new.join("20260104-000000-cpu-1a2b");
        std::os::unix::fs::symlink(new.join("20260101-000000-cpu-1a2b"), link).unwrap();
        let results = Results {
            dirs: vec![new.clone(), published.clone()],
        };
        let places: Vec<PathBuf> = results.places().into_values().collect();
        let packed = published.join(format!("20260102-000000-cpu-1a2b{SUFFIX}"));
        let expected = [
            new.join("20260101-000000-cpu-1a2b"),
            packed.clone(),
            new.join("20260103-000000-cpu-1a2b"),
        ];
        assert_eq!(places, expected);
        assert_eq!(results.find("20260102-000000-cpu-1a2b").unwrap(), packed);
        assert_eq!(results.find(packed.to_str().unwrap()).unwrap(), packed);
        assert_eq!(results.find("latest").unwrap(), expected[2]);
        assert!(results.find("20260104-000000-cpu-1a2b").is_err());
    }

    #[test]
    fn a_name_is_kept_given_anew_and_found() {
        let dir = tempfile::tempdir().unwrap();
        let results = Results::at(dir.path());
        let resolve = |run: &str| results.resolve(run).unwrap();
        assert_eq!(resolve("main"), "main");
        assert!(results.names().unwrap().is_empty());
        let said = results.save_name("main", "20260101-a").unwrap();
        assert!(said.starts_with("Saved 20260101-a as main: "), "{said}");
        results.save_name("v1.2", "20260102-b").unwrap();
        let said = results.save_name("main", "20260103-c").unwrap();
        assert!(
            said.starts_with("Saved 20260103-c as main (before: 20260101-a): "),
            "{said}"
        );
        assert_eq!(resolve("main"), "20260103-c");
        assert_eq!(resolve("v1.2"), "20260102-b");
        assert_eq!(resolve("20260101-a"), "20260101-a");
        assert!(results.names().unwrap().keys().eq(["main", "v1.2"]));
    }

    #[test]
    fn a_profile_with_too_long_a_name_has_no_runs() {
        check_run_id("cpu", "20260101-000000-cpu-1a2b").unwrap();
        let long = "x".repeat(64);
        let refused = check_run_id(&long, &format!("20260101-000000-{long}-1a2b")).unwrap_err();
        assert!(refused.to_string().contains("too long a name"), "{refused}");
    }

    #[test]
    fn what_is_no_name_or_names_a_run_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        make(dir.path(), "20260101-a");
        let results = Results::at(dir.path());
        let check = |name: &str| results.check_name(name);
        check("before").unwrap();
        for name in ["", "../x", "A", "a b", ".a", "latest", "20260101-a"] {
            assert!(check(name).is_err(), "{name:?}");
        }
        std::fs::write(results.names_file(), "main = 1\n").unwrap();
        let broken = check("before").unwrap_err().to_string();
        assert!(broken.contains("names.toml:1"), "{broken}");
    }
}
