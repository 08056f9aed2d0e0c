//! Makes the base archive: the harness, its launchers, a registry in which every program is
//! prebuilt, all data but the records, and the engines that are scripts.

use super::part::Part;
use super::{crates, program};
use anyhow::{Context, Result};
use base::repo::Repo;
use schema::bundle::{self, Bundle};
use schema::registry::{Build, Registry};
use std::path::Path;

pub const NAME: &str = "base";

const LAUNCHER: &str = include_str!("launch.sh");
const README: &str = include_str!("bundle.md");

/// Make the part with everything but the programs of the helper targets. `tracer`: the library for
/// kernel traces.
pub fn base(
    repo: &Repo,
    registry: &Registry,
    made: &Bundle,
    tracer: Option<&Path>,
) -> Result<Part> {
    let mut part = Part::new(NAME);
    // Not `current_exe`: a build may have replaced the file that we were started from.
    let own = format!("/proc/{}/exe", std::process::id());
    part.add("bin/xtask", program::stripped(Path::new(&own))?, true);
    part.add("xtask", launcher(made, ""), true);
    part.add("bench-all", launcher(made, "bench-all"), true);
    part.add("README.md", README, false);
    part.add(
        bundle::FILE,
        serde_json::to_string_pretty(made)? + "\n",
        false,
    );
    let prebuilt = toml::to_string(&program::prebuilt(registry))?;
    part.add("engines/engines.toml", prebuilt, false);
    for name in ["LICENSE-APACHE", "LICENSE-MIT", "CHANGELOG.md"] {
        let file = repo.root.join(name);
        if file.is_file() {
            part.copy(name, &file)?;
        }
    }
    add_dir(&mut part, &repo.root, "data", &|path| {
        !path.starts_with("data/results")
    })?;
    for path in [
        "fleet/shard.sh",
        "fleet/slurm.sbatch",
        "fleet/kubernetes.yaml",
        "rented-gpu/part.sh",
    ] {
        let file = repo.root.join("examples").join(path);
        let name = path.rsplit('/').next().unwrap_or(path);
        let text = std::fs::read(&file);
        let text = text.with_context(|| format!("{} can't be read", file.display()))?;
        part.add(&format!("examples/{name}"), text, !name.ends_with("yaml"));
    }
    for build in registry.engines.iter().flat_map(|engine| engine.builds()) {
        if let Some((_, requirements)) = build.environment() {
            part.copy(requirements, &repo.root.join(requirements))?;
        }
        if let Build::Python {
            script, modules, ..
        } = build
        {
            add_modules(&mut part, &repo.root, script, modules.as_deref())?;
        }
    }
    if let Some(tracer) = tracer {
        let path = format!("lib/{}", crate::build::tracer_file());
        part.add(&path, program::stripped(tracer)?, true);
    }
    part.describe(crates::of_harness(repo)?)?;
    Ok(part)
}

fn launcher(made: &Bundle, verb: &str) -> String {
    LAUNCHER
        .replace("@CPU_FLAGS@", &made.cpu_flags.join(" "))
        .replace("@TARGET_CPU@", &made.target_cpu)
        .replace("@VERB@", verb)
}

/// Add the modules of a program in Python: those beside its script, and those in the other folder
/// that it imports from.
fn add_modules(part: &mut Part, root: &Path, script: &str, other: Option<&str>) -> Result<()> {
    let is_python = |path: &Path| path.extension().is_some_and(|ext| ext == "py");
    let own = script.rsplit_once('/').map_or(".", |(dir, _)| dir);
    let mut dirs = [Some(own), other].into_iter().flatten();
    dirs.try_for_each(|dir| add_dir(part, root, dir, &is_python))
}

/// Add the files in `root/dir` that are wanted, named by their path under `root`, and those in
/// wanted folders.
fn add_dir(part: &mut Part, root: &Path, dir: &str, wanted: &dyn Fn(&Path) -> bool) -> Result<()> {
    let entries = std::fs::read_dir(root.join(dir))
        .with_context(|| format!("{} can't be listed", root.join(dir).display()))?;
    for entry in entries {
        let entry = entry?;
        let path = format!("{dir}/{}", entry.file_name().to_string_lossy());
        if !wanted(Path::new(&path)) {
            continue;
        }
        match entry.path().is_dir() {
            true => add_dir(part, root, &path, wanted)?,
            false => part.copy(&path, &entry.path())?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launcher_knows_what_to_look_for() {
        let made = Bundle {
            target_cpu: "x86-64-v3".into(),
            cpu_flags: vec!["avx2".into(), "fma".into()],
            ..Bundle::default()
        };
        let text = launcher(&made, "bench-all");
        assert!(text.contains("needed='avx2 fma'"), "{text}");
        assert!(text.contains("bin/xtask\" bench-all \"$@\""), "{text}");
        assert!(!text.contains("@CPU") && !text.contains("@VERB"), "{text}");
    }

    #[test]
    fn a_script_brings_its_own_modules_and_those_that_it_shares() {
        let dir = tempfile::tempdir().unwrap();
        let shell = xshell::Shell::new().unwrap();
        for name in ["own/bench.py", "own/a.lock", "shared/b.py", "other/c.py"] {
            shell.write_file(dir.path().join(name), name).unwrap();
        }
        let packed = |other| {
            let mut part = Part::new("x");
            add_modules(&mut part, dir.path(), "own/bench.py", other).unwrap();
            part.entries.into_keys().collect::<Vec<String>>()
        };
        assert_eq!(packed(None), ["own/bench.py"]);
        assert_eq!(packed(Some("shared")), ["own/bench.py", "shared/b.py"]);
    }

    #[test]
    fn only_what_is_wanted_is_packed() {
        let dir = tempfile::tempdir().unwrap();
        let shell = xshell::Shell::new().unwrap();
        for name in [
            "data/a.toml",
            "data/profiles/b.toml",
            "data/results/r/run.json",
        ] {
            shell.write_file(dir.path().join(name), name).unwrap();
        }
        let mut part = Part::new("x");
        let no_records = |path: &Path| !path.starts_with("data/results");
        add_dir(&mut part, dir.path(), "data", &no_records).unwrap();
        let paths: Vec<&str> = part.entries.keys().map(String::as_str).collect();
        assert_eq!(paths, ["data/a.toml", "data/profiles/b.toml"]);
    }
}
