//! Chooses the compiler of an engine's C++, and whether it may use AMX: Clang where it is
//! installed, else the system's compiler. GCC up to 12 compiles AMX's intrinsics to wrong code,
//! because they don't declare the memory that they write; some versions of Clang spell the macros
//! by which sources look for AMX in another way than GCC. The compiler is asked for its macros, and
//! is told what it may use by macros alone, which every compiler understands.

use super::surroundings::Surroundings;
use base::repo::Repo;
use harness::machine;
use schema::hash::sha256_hex;
use schema::registry::Need;
use std::ffi::OsString;
use std::process::{Command, Stdio};

/// The parts of AMX that sources look for.
const PARTS: [&str; 3] = ["TILE", "INT8", "BF16"];
/// The first version of GCC whose AMX intrinsics are correct.
const GCC_RIGHT: u32 = 13;

/// Add the compiler and its flags to what surrounds a build.
pub fn provide(repo: &Repo, all: &mut Surroundings) {
    let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let has_clang = machine::is_here(&repo.root, Need::Clang);
    if has_clang {
        all.variables.push(("CC", "clang".into()));
        all.variables.push(("CXX", "clang++".into()));
    }
    let cxx = match has_clang {
        true => "clang++".to_owned(),
        false => set("CXX").unwrap_or("c++".into()),
    };
    let rustflags = std::env::var("RUSTFLAGS").ok();
    let cpu = target_cpu(rustflags.as_deref());
    // The macros name the compiler, its version and what the CPU has.
    let macros = cpu
        .and_then(|cpu| predefined(&cxx, cpu))
        .unwrap_or_default();
    let flags = amx_flags(&macros);
    let given = ["CFLAGS", "CXXFLAGS"].map(|name| set(name).unwrap_or_default());
    let how = format!("{cxx}\n{cpu:?}\n{given:?}\n{flags:?}\n{macros}");
    all.compiled_by = sha256_hex(how.as_bytes());
    if flags.is_empty() {
        return;
    }
    for name in ["CFLAGS", "CXXFLAGS"] {
        let given = set(name).into_iter();
        let value = given.chain(flags.iter().cloned());
        let value = value.collect::<Vec<String>>().join(" ");
        all.variables.push((name, OsString::from(value)));
    }
}

/// The name of the CPU that is compiled for; `None` where `RUSTFLAGS` names none. Without
/// `RUSTFLAGS` it is the one in .cargo/config.toml.
fn target_cpu(rustflags: Option<&str>) -> Option<&str> {
    let Some(flags) = rustflags else {
        return Some("native");
    };
    let (_, cpu) = flags.rsplit_once("target-cpu=")?;
    cpu.split_whitespace().next()
}

/// The macros that a compiler predefines; `None` where it can't be asked.
fn predefined(cxx: &str, cpu: &str) -> Option<String> {
    let output = Command::new(cxx)
        .arg(format!("-march={cpu}"))
        .args(["-dM", "-E", "-x", "c++", "/dev/null"])
        .stdin(Stdio::null())
        .output()
        .ok()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    output.status.success().then_some(said)
}

/// The flags about AMX for a compiler with these macros. There are none where the CPU has no AMX,
/// or where the compiler is correct by itself.
fn amx_flags(macros: &str) -> Vec<String> {
    let value = |name: &str| {
        let lines = macros.lines().filter_map(|l| l.strip_prefix("#define "));
        let mut pairs = lines.filter_map(|line| line.split_once(' '));
        pairs.find(|(n, _)| *n == name).map(|(_, value)| value)
    };
    let is_gcc = value("__clang__").is_none();
    let gcc = value("__GNUC__").and_then(|version| version.parse::<u32>().ok());
    let is_wrong = is_gcc && gcc.is_some_and(|version| version < GCC_RIGHT);
    let mut flags = Vec::new();
    for part in PARTS {
        let (usual, other) = (format!("__AMX_{part}__"), format!("__AMX{part}__"));
        match (value(&usual).is_some(), value(&other).is_some()) {
            (true, _) if is_wrong => flags.push(format!("-U{usual}")),
            (false, true) if !is_gcc => flags.push(format!("-D{usual}")),
            _ => {}
        }
    }
    flags
}

#[cfg(test)]
mod tests {
    use super::*;

    const AMX: &str = "#define __AMX_BF16__ 1\n#define __AMX_INT8__ 1\n#define __AMX_TILE__ 1\n";

    #[test]
    fn amx_is_left_out_where_the_compiler_gets_it_wrong() {
        let gcc = |version: u32| amx_flags(&format!("#define __GNUC__ {version}\n{AMX}"));
        let undefined = ["-U__AMX_TILE__", "-U__AMX_INT8__", "-U__AMX_BF16__"];
        assert_eq!(gcc(12), undefined);
        assert!(gcc(13).is_empty());
        assert!(amx_flags("#define __GNUC__ 12\n").is_empty(), "no AMX");
    }

    #[test]
    fn a_clang_that_spells_the_macros_otherwise_is_told_them() {
        // Clang reports itself as GCC 4.
        let clang = "#define __clang__ 1\n#define __GNUC__ 4\n";
        let other = AMX.replace("AMX_", "AMX");
        let defined = ["-D__AMX_TILE__", "-D__AMX_INT8__", "-D__AMX_BF16__"];
        assert_eq!(amx_flags(&format!("{clang}{other}")), defined);
        assert!(amx_flags(&format!("{clang}{AMX}")).is_empty());
        assert!(amx_flags(clang).is_empty());
    }

    #[test]
    fn the_cpu_is_the_one_that_rust_compiles_for() {
        assert_eq!(target_cpu(None), Some("native"));
        assert_eq!(
            target_cpu(Some("-Ctarget-cpu=x86-64-v3")),
            Some("x86-64-v3")
        );
        assert_eq!(target_cpu(Some("-C target-cpu=native -g")), Some("native"));
        assert_eq!(target_cpu(Some("-g")), None);
    }

    #[test]
    fn the_systems_compiler_says_what_it_is() {
        let cxx = std::env::var("CXX").unwrap_or("c++".into());
        let macros = predefined(&cxx, "native").expect("a C++ compiler is here");
        assert!(macros.contains("#define __GNUC__ "), "{macros}");
        assert_eq!(predefined(&cxx, "no-such-cpu"), None);
        assert_eq!(predefined("no-such-compiler", "native"), None);
    }
}
