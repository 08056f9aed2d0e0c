//! Programs that were built elsewhere: checks that they exist and that this machine can load them.
//! Only the dynamic loader is run, and nothing of the program.

use super::needs;
use anyhow::{Context, Result, bail};
use base::repo::Repo;
use harness::engine::Program;
use object::Endianness;
use object::elf::FileHeader64;
use object::read::elf::{FileHeader, ProgramHeader};
use schema::registry::{Build, Registry};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The program at `path`, which the registry describes by `how`. The failure says what is missing,
/// of the program or for it.
pub fn program(repo: &Repo, registry: &Registry, path: &str, how: &Build) -> Result<Program> {
    let file = repo.root.join(path);
    if !file.is_file() {
        let advice = match repo.bundle() {
            Ok(Some(_)) => ": unpack its engine's archive over this directory",
            _ => "",
        };
        bail!("{} is not there{advice}", file.display());
    }
    let surroundings = needs::provide(repo, registry, path, how.needs(), how.libtorch())?;
    let env = surroundings.run();
    if let Some(loader) = loader(&file) {
        can_load(&loader, &file, &env)?;
    }
    let argv = vec![file.display().to_string()];
    Ok(Program::new(argv, vec![file], &repo.root, &repo.build_dir).with_env(env))
}

/// The dynamic loader that an ELF program names; `None` for one that needs none, and for scripts.
fn loader(file: &Path) -> Option<PathBuf> {
    let data = object::ReadCache::new(std::fs::File::open(file).ok()?);
    let header = FileHeader64::<Endianness>::parse(&data).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, &data).ok()?.iter();
    let mut named = segments.filter_map(|s| s.interpreter(endian, &data).ok().flatten());
    let name = named.next()?.to_vec();
    Some(PathBuf::from(std::ffi::OsString::from_vec(name)))
}

fn can_load(loader: &Path, file: &Path, env: &[(String, String)]) -> Result<()> {
    // The same request as ldd's. `--list` would stop at the first library that is missing.
    let output = Command::new(loader)
        .arg(file)
        .envs(env.iter().map(|(name, value)| (name, value)))
        .env("LD_TRACE_LOADED_OBJECTS", "1")
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("its loader {} can't be started", loader.display()))?;
    let said = [output.stdout, output.stderr].concat();
    match lacks(&String::from_utf8_lossy(&said)) {
        None => Ok(()),
        Some(lacks) => bail!(lacks),
    }
}

/// What the loader did not find, by its own output; `None` where it found everything.
fn lacks(said: &str) -> Option<String> {
    let mut missing: Vec<&str> = said
        .lines()
        .filter_map(|line| line.trim().strip_suffix(" => not found"))
        .collect();
    missing.sort_unstable();
    missing.dedup();
    if !missing.is_empty() {
        let missing = missing.join(", ");
        return Some(format!(
            "this machine lacks {missing}: install what they belong to, or name their directory in LD_LIBRARY_PATH"
        ));
    }
    let is_older = |line: &&str| line.contains("version `") && line.contains("not found");
    let line = said.lines().find(is_older)?;
    let version = line.split('`').nth(1)?.split('\'').next()?;
    Some(format!(
        "this machine's libraries are older than the program: they have no {version}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_loader_says_becomes_one_line() {
        let fine = "\tlinux-vdso.so.1 (0x7)\n\tlibc.so.6 => /lib/libc.so.6 (0x7)\n";
        assert_eq!(lacks(fine), None);
        let cuda = "\tlibcublas.so.13 => not found\n\tlibcudart.so.13 => not found\n\tlibc.so.6 => /lib/libc.so.6 (0x7)\n";
        let said = lacks(cuda).unwrap();
        assert!(
            said.starts_with("this machine lacks libcublas.so.13, libcudart.so.13:"),
            "{said}"
        );
        let old = "./x: /lib/libc.so.6: version `GLIBC_2.99' not found (required by ./x)\n";
        assert!(lacks(old).unwrap().contains("no GLIBC_2.99"));
    }

    #[test]
    fn every_library_that_is_gone_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let cc = |arguments: &[&str]| {
            let mut cc = Command::new("cc");
            let status = cc.args(arguments).current_dir(dir.path()).status();
            assert!(status.expect("a linker is here").success());
        };
        std::fs::write(dir.path().join("a.c"), "int a(void) { return 1; }").unwrap();
        std::fs::write(dir.path().join("b.c"), "int b(void) { return 2; }").unwrap();
        let main = "int a(void); int b(void); int main(void) { return a() + b(); }";
        std::fs::write(dir.path().join("main.c"), main).unwrap();
        cc(&["-shared", "-fPIC", "a.c", "-o", "libgone_a.so"]);
        cc(&["-shared", "-fPIC", "b.c", "-o", "libgone_b.so"]);
        cc(&["main.c", "-L.", "-lgone_a", "-lgone_b", "-o", "main"]);
        let main = dir.path().join("main");
        let loader = loader(&main).unwrap();
        let here = dir.path().display().to_string();
        let found = [("LD_LIBRARY_PATH".to_owned(), here)];
        can_load(&loader, &main, &found).unwrap();
        let said = can_load(&loader, &main, &[]).unwrap_err().to_string();
        assert!(said.contains("lacks libgone_a.so, libgone_b.so:"), "{said}");
    }

    #[test]
    fn a_program_says_who_loads_it_and_a_script_does_not() {
        let own = std::env::current_exe().unwrap();
        let loader = loader(&own).expect("tests are linked dynamically");
        can_load(&loader, &own, &[]).unwrap();
        let gone = can_load(Path::new("/no/loader"), &own, &[]).unwrap_err();
        let gone = gone.to_string();
        assert!(gone.contains("/no/loader can't be started"), "{gone}");
        let dir = tempfile::tempdir().unwrap();
        let script = dir.path().join("script");
        std::fs::write(&script, "#!/bin/sh\n").unwrap();
        assert_eq!(super::loader(&script), None);
    }
}
