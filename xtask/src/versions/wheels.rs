//! Checks that the flake installs what is locked: for each requirements.lock that a registry names,
//! a file in `nix/wheels` has its wheels. `nix/wheels.py` makes these files.

use super::{DEPENDABOT, PINS, Sources, requirements, word};
use anyhow::{Context, Result, bail, ensure};
use schema::hash::sha256_hex;
use std::collections::BTreeSet;
use std::path::Path;

/// Files that name requirements.
const REGISTRIES: [&str; 3] = [
    "engines/engines.toml",
    "engines/micro.toml",
    "engines/train.toml",
];
/// The folder with a file for each environment.
const FOLDER: &str = "nix/wheels/";

/// Return the names of the files of wheels, relative to the repository at `root`.
pub(super) fn files(root: &Path) -> Result<BTreeSet<String>> {
    let dir = std::fs::read_dir(root.join(FOLDER));
    let dir = dir.with_context(|| format!("{FOLDER} can't be listed"))?;
    dir.map(|entry| Ok(format!("{FOLDER}{}", entry?.file_name().to_string_lossy())))
        .collect()
}

/// Return the requirements that a registry names, wherever they stand in it.
fn named(value: &toml::Value) -> BTreeSet<String> {
    match value {
        toml::Value::Table(table) => {
            let own = table.get("requirements").and_then(toml::Value::as_str);
            let others = table.values().flat_map(named);
            own.map(str::to_owned).into_iter().chain(others).collect()
        }
        toml::Value::Array(values) => values.iter().flat_map(named).collect(),
        _ => BTreeSet::new(),
    }
}

impl Sources {
    /// Return the locks that the registries name.
    pub(super) fn locks(&self) -> Result<BTreeSet<String>> {
        let mut locks = BTreeSet::new();
        for name in REGISTRIES {
            locks.extend(named(&toml::Value::Table(self.toml(name)?)));
        }
        Ok(locks)
    }

    /// Check that the flake has the wheels of each lock that a registry names, and no others, and
    /// that each lock is updated.
    pub(super) fn wheels(&self) -> Result<()> {
        let mut left = self.wheel_files.clone();
        let updated = self.updated("pip")?;
        for lock in self.locks()? {
            let folder = lock.rsplit('/').nth(1).unwrap_or_default();
            let name = format!("{FOLDER}{folder}.toml");
            ensure!(
                left.remove(&name),
                "a registry names {lock}, and there is no {name}: run nix/wheels.py"
            );
            self.wheels_of(&name, &lock)?;
            let dir = lock.strip_suffix("/requirements.lock");
            let entry = format!("\"/{}\"", dir.unwrap_or(&lock));
            ensure!(
                updated.contains(&entry),
                "a registry names {lock}; {DEPENDABOT} must have {entry}, for pip"
            );
        }
        if let Some(name) = left.first() {
            bail!("{name} is of no lock that a registry names: run nix/wheels.py")
        }
        Ok(())
    }

    /// Check that the wheels in the file `name` are all those that the lock allows, for the flake's
    /// Python.
    fn wheels_of(&self, name: &str, lock: &str) -> Result<()> {
        let lock_text = self.text(lock)?;
        let mut locked = requirements(&lock_text);
        let python = self.string_at(PINS, &["python"])?.replace('.', "");
        let table = self.toml(name)?;
        let wheels = table.get("wheel").and_then(toml::Value::as_array);
        for wheel in wheels.into_iter().flatten() {
            let (Some(file), Some(sha256)) = (word(wheel, "file"), word(wheel, "sha256")) else {
                bail!("{name} has a wheel without file or sha256")
            };
            let stem = file.strip_suffix(".whl").unwrap_or(file);
            let parts: Vec<&str> = stem.split('-').collect();
            // The version may be followed by the number of a build.
            let ([of, version, tag, abi, _] | [of, version, _, tag, abi, _]) = parts[..] else {
                bail!("{name}: {file} is not named like a wheel")
            };
            let Some(package) = locked.remove(&of.replace(['_', '.'], "-").to_lowercase()) else {
                bail!("{name} has {file}, and {lock} no {of}")
            };
            ensure!(
                package.version == version && package.sha256.iter().any(|hash| hash == sha256),
                "{name} has {file}, whose version or hash {lock} doesn't have: run nix/wheels.py"
            );
            ensure!(
                abi == "none" || abi == "abi3" || tag == format!("cp{python}"),
                "{name} has {file}, and {PINS} pins Python {python}: run nix/wheels.py"
            );
        }
        let missing = locked.iter().find(|(_, package)| !package.conditional);
        if let Some((package, _)) = missing {
            bail!("{lock} has {package}, and {name} doesn't: run nix/wheels.py")
        }
        // Whether a conditional package is needed here only wheels.py knows.
        let from = self.string_at(name, &["requirements"])?;
        let sha256 = self.string_at(name, &["requirements_sha256"])?;
        ensure!(
            from == lock && sha256 == sha256_hex(lock_text.as_bytes()),
            "{name} is not of {lock} as it is now: run nix/wheels.py"
        );
        Ok(())
    }
}
