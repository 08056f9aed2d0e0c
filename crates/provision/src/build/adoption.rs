//! Measures what adopting each built program costs: its size, its dependencies, and the lines of
//! its adapter. It reads what was built, and builds, downloads and starts none of it.

use super::cargo::cargo_tree;
use super::python;
use base::repo::Repo;
use harness::engine::Program;
use harness::programs::{Made, Programs};
use schema::adoption::Adoption;
use schema::registry::Build;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use xshell::{Shell, cmd};

/// Measure the costs of every program that was built, by program id. In a bundle they are read from
/// its description, because they were measured where the programs were built.
pub fn adoption(repo: &Repo, programs: &Programs) -> BTreeMap<String, Adoption> {
    if let Ok(Some(bundle)) = repo.bundle() {
        let mut known = bundle.adoption;
        known.retain(|id, _| matches!(programs.made.get(id), Some(Ok(_))));
        for (id, adoption) in &mut known {
            adoption.targets = targets_of(programs, id);
        }
        return known;
    }
    let made = programs.made.iter();
    let costs = made.filter_map(|(id, made)| {
        let cost = of_program(repo, id, programs, made.as_ref().ok()?);
        Some((id.clone(), cost))
    });
    costs.collect()
}

fn of_program(repo: &Repo, id: &str, programs: &Programs, made: &Made) -> Adoption {
    let mut adoption = Adoption {
        engine: made.engine.clone(),
        targets: targets_of(programs, id),
        adapter_lines: adapter_lines(&repo.root.join("engines").join(&made.engine)),
        built: made.built,
        ..Adoption::default()
    };
    match &made.how {
        Build::Python {
            environment,
            requirements,
            ..
        } => {
            let dir = python::environment_dir(repo, environment, requirements);
            if let Some(packages) = dir.and_then(|dir| python::packages_dir(&dir)) {
                adoption.packages = installed(&packages);
                adoption.packages_bytes = Some(bytes_in(&packages));
            }
        }
        how => {
            if let Build::Cargo(how) = how {
                let tree = cargo_tree(repo, how, &["--offline"]).ok();
                adoption.crates = tree.map(|text| crates(&text));
            }
            if let Some(file) = made.program.files.first() {
                adoption.stripped_bytes = stripped_bytes(file);
                add_libraries(&mut adoption, file, &made.program);
            }
        }
    }
    adoption
}

fn targets_of(programs: &Programs, id: &str) -> Vec<String> {
    let targets = programs.of.iter().filter(|(_, program)| *program == id);
    targets.map(|(target, _)| target.clone()).collect()
}

/// Size of a program after `strip` (bytes); the file itself stays as it is. `None` where `strip`
/// fails.
fn stripped_bytes(file: &Path) -> Option<u64> {
    let out = tempfile::NamedTempFile::new_in(file.parent()?).ok()?;
    let (shell, to) = (Shell::new().ok()?, out.path());
    let strip = cmd!(shell, "strip -o {to} {file}").quiet();
    strip.ignore_stderr().run().ok()?;
    Some(std::fs::metadata(to).ok()?.len())
}

/// Count the distinct `name version` in the lines of `cargo tree`, without crates that have a path,
/// which are ours.
fn crates(tree: &str) -> u64 {
    let others = tree.lines().filter(|line| !line.contains("(/"));
    let names: BTreeSet<(&str, &str)> = others
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            Some((words.next()?, words.next()?))
        })
        .collect();
    names.len() as u64
}

/// Count the packages installed in a `site-packages`, without the installer itself.
fn installed(packages: &Path) -> Option<u64> {
    let entries = std::fs::read_dir(packages).ok()?.flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let all = names.filter(|name| name.ends_with(".dist-info") && !name.starts_with("pip-"));
    Some(all.count() as u64)
}

/// Bytes of all files under `dir`, without Python's compiled files.
fn bytes_in(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(data) if data.is_dir() && entry.file_name() != "__pycache__" => {
                bytes_in(&entry.path())
            }
            Ok(data) if data.is_file() => data.len(),
            _ => 0,
        })
        .sum()
}

fn add_libraries(adoption: &mut Adoption, file: &Path, program: &Program) {
    let Ok(shell) = Shell::new() else { return };
    shell.set_var("LC_ALL", "C");
    let dynamic = cmd!(shell, "readelf -d {file}").ignore_stderr().read();
    let Ok(dynamic) = dynamic else { return };
    adoption.libraries = needed(&dynamic);
    // The loader itself lists what it would load, with the program's own variables.
    let loader = cmd!(shell, "ldd {file}").envs(program.env.clone());
    let loaded = loader.ignore_stderr().read();
    adoption.libraries_bytes = loaded.ok().map(|text| {
        let files: BTreeSet<PathBuf> = loaded_files(&text)
            .iter()
            .filter_map(|file| std::fs::canonicalize(file).ok())
            .collect();
        let sizes = files.iter().filter_map(|file| std::fs::metadata(file).ok());
        sizes.map(|data| data.len()).sum()
    });
}

/// The names in `readelf -d`'s `NEEDED` lines, without the C and C++ runtime.
fn needed(dynamic: &str) -> Vec<String> {
    let lines = dynamic.lines().filter(|line| line.contains("(NEEDED)"));
    let names = lines.filter_map(|line| Some(line.split_once('[')?.1.split_once(']')?.0));
    names
        .filter(|name| !is_runtime(name))
        .map(str::to_owned)
        .collect()
}

/// The files in `ldd`'s lines `name => file (address)`, without the C and C++ runtime.
fn loaded_files(ldd: &str) -> Vec<PathBuf> {
    let pairs = ldd
        .lines()
        .filter_map(|line| line.trim().split_once(" => "));
    pairs
        .filter(|(name, _)| !is_runtime(name))
        .filter_map(|(_, file)| Some(PathBuf::from(file.rsplit_once(" (")?.0)))
        .collect()
}

/// Whether a library is part of the runtime that every program has: libc with its parts, and the
/// compilers' own libraries.
fn is_runtime(name: &str) -> bool {
    const STEMS: [&str; 12] = [
        "libc",
        "libm",
        "libdl",
        "librt",
        "libpthread",
        "libutil",
        "libresolv",
        "libgcc_s",
        "libstdc++",
        "linux-vdso",
        "ld-linux-x86-64",
        "ld-linux-aarch64",
    ];
    let file = name.rsplit('/').next().unwrap_or(name);
    let stem = file.split(".so").next().unwrap_or(file);
    STEMS.contains(&stem)
}

/// Count the lines of an engine's own code; `None` where it has no folder.
fn adapter_lines(dir: &Path) -> Option<u64> {
    let mut lines = 0;
    for entry in std::fs::read_dir(dir).ok()?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = entry.path();
        let is_test = name.starts_with("test") || name.starts_with('.');
        // `direct` is the engine without its adapter, for comparison.
        let others = ["direct", "examples", "target", "build.rs"];
        if is_test || others.contains(&name.as_str()) {
            continue;
        }
        if path.is_dir() {
            lines += adapter_lines(&path).unwrap_or(0);
        } else if let Ok(text) = std::fs::read_to_string(&path) {
            lines += match name.rsplit('.').next() {
                Some("rs") => rust_lines(&text),
                Some("py") => python_lines(&text),
                _ => 0,
            };
        }
    }
    Some(lines)
}

/// Count the lines that are neither blank nor comments, up to the tests at the end.
fn rust_lines(text: &str) -> u64 {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let is_tests = |pair: &[&str]| {
        pair[0] == "#[cfg(test)]" && pair[1].starts_with("mod ") && pair[1].ends_with('{')
    };
    let end = lines.windows(2).position(is_tests).unwrap_or(lines.len());
    let code = lines[..end]
        .iter()
        .filter(|line| !line.is_empty() && !line.starts_with("//"));
    code.count() as u64
}

/// Count the lines that are neither blank nor comments nor documentation strings.
fn python_lines(text: &str) -> u64 {
    let (mut count, mut is_doc) = (0, false);
    for line in text.lines().map(str::trim) {
        let quotes = line.matches("\"\"\"").count();
        let starts_doc = !is_doc && line.starts_with("\"\"\"");
        if is_doc || starts_doc {
            // A string that is opened and closed in one line changes nothing.
            is_doc ^= quotes % 2 == 1;
        } else if !line.is_empty() && !line.starts_with('#') {
            count += 1;
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_count_once_and_ours_not() {
        let tree = "a-bench v0.1.0 (/home/me/engines/a)\nprotocol v0.1.0 (/home/me/engines/protocol)\n\
            serde v1.0.1\nserde_derive v1.0.1 (proc-macro)\nserde v1.0.1 (*)\nserde v2.0.0\n\n";
        assert_eq!(crates(tree), 3);
    }

    #[test]
    fn libraries_are_those_a_machine_may_lack() {
        let dynamic = " 0x1 (NEEDED)  Shared library: [libtorch.so]\n 0x1 (NEEDED)  Shared library: [libc.so.6]\n\
             0x1 (NEEDED)  Shared library: [libstdc++.so.6]\n 0x1d (RUNPATH)  Library runpath: [/x]\n";
        assert_eq!(needed(dynamic), ["libtorch.so"]);
        let ldd = "\tlinux-vdso.so.1 (0x7)\n\tlibtorch.so => /v/lib/libtorch.so (0x7)\n\
            \tlibm.so.6 => /lib/libm.so.6 (0x7)\n\tlibx.so => not found\n\t/lib64/ld-linux-x86-64.so.2 (0x7)\n";
        assert_eq!(loaded_files(ldd), [Path::new("/v/lib/libtorch.so")]);
    }

    #[test]
    fn only_code_counts_as_adapter() {
        let rust = "//! Doc.\nuse a::b;\n#[cfg(test)]\nmod tests;\n\n/// Doc.\nfn f() {} // why\n\n#[cfg(test)]\nmod tests {\n    fn t() {}\n}\n";
        assert_eq!(rust_lines(rust), 4);
        let python = "\"\"\"Doc.\n\nmore\n\"\"\"\nimport a\n# why\n\ndef f():\n    \"\"\"One line.\"\"\"\n    return 1\n";
        assert_eq!(python_lines(python), 3);

        let dir = tempfile::tempdir().unwrap();
        for (name, text) in [
            ("src/main.rs", rust),
            ("src/tests.rs", rust),
            ("tests/a.rs", rust),
            ("direct/main.rs", rust),
            ("bench.py", python),
            ("test_bench.py", python),
            ("Cargo.toml", "[package]\n"),
        ] {
            crate::write(dir.path().join(name), text);
        }
        assert_eq!(adapter_lines(dir.path()), Some(7));
        assert_eq!(adapter_lines(&dir.path().join("none")), None);
    }

    #[test]
    fn packages_are_counted_and_weighed() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["a", "a/__pycache__", "a-1.dist-info", "pip-24.dist-info"] {
            std::fs::create_dir_all(dir.path().join(name)).unwrap();
        }
        std::fs::write(dir.path().join("a/x.py"), "12345").unwrap();
        std::fs::write(dir.path().join("a/__pycache__/x.pyc"), "123").unwrap();
        assert_eq!(installed(dir.path()), Some(1));
        assert_eq!(bytes_in(dir.path()), 5);
    }

    #[test]
    fn this_very_program_has_a_size() {
        let file = std::env::current_exe().unwrap();
        // Where binutils is missing, the size is just unknown.
        if let Some(bytes) = stripped_bytes(&file) {
            assert!(bytes > 0 && bytes <= std::fs::metadata(&file).unwrap().len());
        }
    }
}
