//! Makes what a CUDA program links instead of NVIDIA's own libraries: static libraries of the same
//! names that load the real ones when they are first called (lazy_library.c). So the program starts
//! without them and can report that. They are made from the toolkit's headers by the C compiler
//! that Rust links with.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// The C source of such a library: a table of jumps, and the code that fills it.
const SOURCE: &str = include_str!("lazy_library.c");
/// Empty static libraries, which build scripts ask for and the wheels lack. Their functions are in
/// the libraries that are loaded.
const EMPTY: [&str; 2] = ["cublasLt_static", "culibos"];

/// A static library that loads the real library when it is first called.
struct Lazy {
    /// The name that a linker uses for the static library.
    name: &'static str,
    header: &'static str,
    /// The prefix of the names of the library's functions.
    prefix: &'static str,
    /// The type of status that nearly all functions return. Its value without the library is
    /// `absent`, and its value without the function in it is `unknown`.
    status: &'static str,
    absent: u32,
    unknown: u32,
    /// The file name of the real library; the toolkit may add a version.
    file: &'static str,
}

const DRIVER: Lazy = Lazy {
    name: "cuda",
    header: "cuda.h",
    prefix: "cu",
    status: "CUresult",
    absent: 100,  // CUDA_ERROR_NO_DEVICE
    unknown: 500, // CUDA_ERROR_NOT_FOUND
    file: "libcuda.so.1",
};

const CUBLAS: Lazy = Lazy {
    name: "cublas_static",
    header: "cublas_v2.h",
    prefix: "cublas",
    status: "cublasStatus_t",
    absent: 1,   // CUBLAS_STATUS_NOT_INITIALIZED
    unknown: 15, // CUBLAS_STATUS_NOT_SUPPORTED
    file: "libcublas.so",
};

/// Make the static libraries in the toolkit at `home`, unless they exist already.
pub fn make_link_libraries(home: &Path) -> Result<(), String> {
    let lacks = |name: &str| !home.join(format!("lib/lib{name}.a")).exists();
    for lazy in [DRIVER, CUBLAS] {
        if lacks(lazy.name) {
            make(home, &lazy)?;
        }
    }
    for name in EMPTY {
        if lacks(name) {
            archive(home, name, "", &[])?;
        }
    }
    Ok(())
}

fn make(home: &Path, lazy: &Lazy) -> Result<(), String> {
    let include = home.join("include");
    let header = include.join(lazy.header);
    let text = run(Command::new("cc")
        .args(["-E", "-P", "-I"])
        .args([&include, &header]))?;
    let functions = table(&text, lazy);
    if functions.is_empty() {
        return Err(format!("{} declares no functions", header.display()));
    }
    let file = versioned(home, lazy.file)?;
    let define = [
        format!("-DLIBRARY=\"{file}\""),
        format!("-DABSENT={}", lazy.absent),
        format!("-DUNKNOWN={}", lazy.unknown),
    ];
    archive(home, lazy.name, &functions, &define)
}

/// Complete `libx.so` to `libx.so.13`, by the files among the toolkit's libraries. A name that has
/// its version already stays.
fn versioned(home: &Path, file: &str) -> Result<String, String> {
    if !file.ends_with(".so") {
        return Ok(file.to_owned());
    }
    let lib = home.join("lib");
    let entries = std::fs::read_dir(&lib).map_err(|err| format!("{}: {err}", lib.display()))?;
    let names = entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.strip_prefix(file).is_some_and(|v| v.starts_with('.')));
    names
        .min()
        .ok_or_else(|| format!("{} has no {file} with a version", lib.display()))
}

/// Make a static library of the functions in `functions`, which are the lines of functions.h.
fn archive(home: &Path, name: &str, functions: &str, define: &[String]) -> Result<(), String> {
    let file = format!("lib{name}.a");
    let library = home.join("lib").join(&file);
    let work = tempfile::tempdir_in(home).map_err(|err| format!("{}: {err}", home.display()))?;
    let write = |name: &str, text: &str| {
        let path = work.path().join(name);
        std::fs::write(&path, text).map_err(|err| format!("{}: {err}", path.display()))
    };
    write("functions.h", functions)?;
    write("lib.c", if functions.is_empty() { "" } else { SOURCE })?;
    let object = format!("lib{name}.o");
    let cc = ["-O2", "-fPIC", "-c", "lib.c", "-o", object.as_str()];
    run(Command::new("cc")
        .args(cc)
        .args(define)
        .current_dir(work.path()))?;
    let ar = ["rcs", file.as_str(), object.as_str()];
    run(Command::new("ar").args(ar).current_dir(work.path()))?;
    // A rename, so that the library is complete or absent.
    std::fs::rename(work.path().join(&file), &library)
        .map_err(|err| format!("{}: {err}", library.display()))
}

/// List the functions that a preprocessed header declares, as the lines of functions.h.
fn table(header: &str, lazy: &Lazy) -> String {
    let words: Vec<&str> = header
        .split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '('))
        .filter(|word| !word.is_empty())
        .collect();
    // `CUresult cuInit(unsigned`, `const char* cublasGetStatusName(cublasStatus_t`
    let named = words.windows(2).filter_map(|pair| {
        let (name, _) = pair[1].split_once('(')?;
        let kind = match pair[0] {
            "char" => 'T',
            status if status == lazy.status => 'F',
            _ => return None,
        };
        name.starts_with(lazy.prefix).then_some((name, kind))
    });
    let functions: BTreeSet<(&str, char)> = named.collect();
    let mut text = String::new();
    for (index, (name, kind)) in functions.iter().enumerate() {
        let _ = writeln!(text, "{kind}({index}, {name})");
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

    /// Make a toolkit whose driver has two functions, and whose cuBLAS has two more.
    fn toolkit() -> tempfile::TempDir {
        let home = tempfile::tempdir().unwrap();
        let header = "typedef int CUresult;\n#define cuAdd cuAdd_v2\n#define API\n\
                      CUresult API cuInit(unsigned int flags);\n\
                      CUresult API cuAdd(double a, int b, int *sum);\n\
                      typedef CUresult (API *CUcallback)(int status);\n";
        crate::write(home.path().join("include/cuda.h"), header);
        let header = "#include \"cuda.h\"\ntypedef int cublasStatus_t;\n\
                      cublasStatus_t cublasTwice(int *of);\n\
                      const char* cublasGetStatusName(cublasStatus_t status);\n";
        std::fs::write(home.path().join("include/cublas_v2.h"), header).unwrap();
        crate::write(home.path().join("lib/libcublas.so.13"), "");
        home
    }

    #[test]
    fn a_program_starts_without_a_driver_and_uses_one_that_is_there() {
        let home = toolkit();
        let dir = home.path();
        make_link_libraries(dir).unwrap();
        make_link_libraries(dir).unwrap(); // they are there
        std::fs::write(
            dir.join("main.c"),
            "#include <stdio.h>\n#include \"include/cublas_v2.h\"\n\
             int main(void) { int sum = 0; int first = cuInit(0); int second = cuAdd(2.5, 4, &sum);\n\
             second += cuAdd(2.5, 4, &sum); int third = cublasTwice(&sum);\n\
             printf(\"%d %d %d %d %s\", first, second, third, sum, cublasGetStatusName(third)); return 0; }\n",
        )
        .unwrap();
        // An older driver, which has no cuInit.
        std::fs::write(
            dir.join("driver.c"),
            "int cuAdd_v2(double a, int b, int *sum) { *sum += (int)(2 * a) + b; return 7; }\n",
        )
        .unwrap();
        std::fs::write(
            dir.join("cublas.c"),
            "int cublasTwice(int *of) { *of *= 2; return 3; }\n\
             const char *cublasGetStatusName(int status) { return status == 3 ? \"three\" : \"other\"; }\n",
        )
        .unwrap();
        let cc = |args: &[&str]| run(Command::new("cc").args(args).current_dir(dir)).unwrap();
        let link = [
            "-lcublas_static",
            "-lcublasLt_static",
            "-lculibos",
            "-lcuda",
            "-ldl",
        ];
        cc(&[&["main.c", "-o", "main", "-Llib"], &link[..]].concat());
        let main = || run(Command::new(dir.join("main")).env("LD_LIBRARY_PATH", dir)).unwrap();
        assert_eq!(
            main(),
            "100 200 1 0 libcublas.so.13 can't be opened",
            "no device, whatever is called"
        );
        cc(&["-shared", "-fPIC", "driver.c", "-o", "libcuda.so.1"]);
        cc(&["-shared", "-fPIC", "cublas.c", "-o", "libcublas.so.13"]);
        assert_eq!(main(), "500 14 3 36 three", "not found, then what they say");
    }

    #[test]
    fn a_toolkit_without_a_header_is_said() {
        let home = tempfile::tempdir().unwrap();
        let error = make_link_libraries(home.path()).unwrap_err();
        assert!(error.contains("cuda.h"), "{error}");
        let home = toolkit();
        std::fs::write(home.path().join("include/cuda.h"), "").unwrap();
        let error = make_link_libraries(home.path()).unwrap_err();
        assert!(error.contains("declares no functions"), "{error}");
    }

    #[test]
    fn a_toolkit_without_a_library_is_said() {
        let home = toolkit();
        std::fs::remove_file(home.path().join("lib/libcublas.so.13")).unwrap();
        let error = make_link_libraries(home.path()).unwrap_err();
        assert!(error.contains("no libcublas.so with a version"), "{error}");
    }
}
