//! What a CUDA program links instead of the driver's own library: a static `libcuda.a`
//! that looks for the driver when it is first called (cuda_driver.c), so that the
//! program starts without one and can say so. Made from the toolkit's cuda.h by the C
//! compiler that Rust links with.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// The jumps and how they find where to.
const SOURCE: &str = include_str!("cuda_driver.c");

/// Make `lib/libcuda.a` of the toolkit at `home`, unless it is there already.
pub fn make_link_library(home: &Path) -> Result<(), String> {
    let library = home.join("lib/libcuda.a");
    if library.exists() {
        return Ok(());
    }
    let header = home.join("include/cuda.h");
    let text = run(Command::new("cc").args(["-E", "-P"]).arg(&header))?;
    let functions = functions(&text);
    if functions.is_empty() {
        return Err(format!("{} declares no functions", header.display()));
    }
    let work = tempfile::tempdir_in(home).map_err(|err| format!("{}: {err}", home.display()))?;
    let write = |name: &str, text: &str| {
        let path = work.path().join(name);
        std::fs::write(&path, text).map_err(|err| format!("{}: {err}", path.display()))
    };
    write("functions.h", &table(&functions))?;
    write("libcuda.c", SOURCE)?;
    let cc = ["-O2", "-fPIC", "-c", "libcuda.c", "-o", "libcuda.o"];
    run(Command::new("cc").args(cc).current_dir(work.path()))?;
    let ar = ["rcs", "libcuda.a", "libcuda.o"];
    run(Command::new("ar").args(ar).current_dir(work.path()))?;
    // Whole or not there.
    std::fs::rename(work.path().join("libcuda.a"), &library)
        .map_err(|err| format!("{}: {err}", library.display()))
}

/// The functions that a preprocessed cuda.h declares.
fn functions(header: &str) -> BTreeSet<&str> {
    let words: Vec<&str> = header
        .split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '('))
        .filter(|word| !word.is_empty())
        .collect();
    // `CUresult cuInit(unsigned`
    let named = words.windows(2).filter(|pair| pair[0] == "CUresult");
    let names = named.filter_map(|pair| Some(pair[1].split_once('(')?.0));
    names.filter(|name| name.starts_with("cu")).collect()
}

fn table(functions: &BTreeSet<&str>) -> String {
    let mut text = String::new();
    for (index, name) in functions.iter().enumerate() {
        let _ = writeln!(text, "F({index}, {name})");
    }
    text
}

fn run(command: &mut Command) -> Result<String, String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|err| format!("{command:?} can't be started: {err}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let line = said.lines().next().unwrap_or_default();
        return Err(format!("{command:?} failed ({}): {line}", output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A toolkit whose driver has two functions.
    fn toolkit() -> tempfile::TempDir {
        let home = tempfile::tempdir().unwrap();
        for dir in ["include", "lib"] {
            std::fs::create_dir(home.path().join(dir)).unwrap();
        }
        let header = "typedef int CUresult;\n#define cuAdd cuAdd_v2\n#define API\n\
                      CUresult API cuInit(unsigned int flags);\n\
                      CUresult API cuAdd(double a, int b, int *sum);\n\
                      typedef CUresult (API *CUcallback)(int status);\n";
        std::fs::write(home.path().join("include/cuda.h"), header).unwrap();
        home
    }

    #[test]
    fn a_program_starts_without_a_driver_and_uses_one_that_is_there() {
        let home = toolkit();
        let dir = home.path();
        make_link_library(dir).unwrap();
        make_link_library(dir).unwrap(); // it is there
        std::fs::write(
            dir.join("main.c"),
            "#include <stdio.h>\n#include \"include/cuda.h\"\n\
             int main(void) { int sum = 0; int first = cuInit(0); int second = cuAdd(2.5, 4, &sum);\n\
             second += cuAdd(2.5, 4, &sum); printf(\"%d %d %d\", first, second, sum); return 0; }\n",
        )
        .unwrap();
        // A driver of an older day: it knows no cuInit.
        std::fs::write(
            dir.join("driver.c"),
            "int cuAdd_v2(double a, int b, int *sum) { *sum += (int)(2 * a) + b; return 7; }\n",
        )
        .unwrap();
        let cc = |args: &[&str]| run(Command::new("cc").args(args).current_dir(dir)).unwrap();
        cc(&["main.c", "-o", "main", "-Llib", "-lcuda", "-ldl"]);
        let main = || run(Command::new(dir.join("main")).env("LD_LIBRARY_PATH", dir)).unwrap();
        assert_eq!(main(), "100 200 0", "no device, whatever is called");
        cc(&["-shared", "-fPIC", "driver.c", "-o", "libcuda.so.1"]);
        assert_eq!(main(), "500 14 18", "not found, then what the driver says");
    }

    #[test]
    fn a_toolkit_without_a_header_is_said() {
        let home = tempfile::tempdir().unwrap();
        let error = make_link_library(home.path()).unwrap_err();
        assert!(error.contains("cuda.h"), "{error}");
        let home = toolkit();
        std::fs::write(home.path().join("include/cuda.h"), "").unwrap();
        let error = make_link_library(home.path()).unwrap_err();
        assert!(error.contains("declares no functions"), "{error}");
    }
}
