//! Where the shell finds NVIDIA's driver: `nix/driver.sh` run on made-up machines.

use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

const NIXOS: &str = "run/opengl-driver/lib";
const DEBIAN: &str = "usr/lib/x86_64-linux-gnu";

/// A machine with files at these places, and where links may go.
struct Machine {
    dir: TempDir,
}

impl Machine {
    fn with(files: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().expect("a directory can be made");
        for (place, name) in files {
            let place = dir.path().join("root").join(place);
            std::fs::create_dir_all(&place).expect("it can be made");
            std::fs::write(place.join(name), "").expect("it can be written");
        }
        Self { dir }
    }

    fn root(&self, place: &str) -> PathBuf {
        self.dir.path().join("root").join(place)
    }

    fn private(&self) -> PathBuf {
        self.dir.path().join("private")
    }

    /// LD_LIBRARY_PATH, and where Triton looks, after the shell has looked around.
    fn after(&self) -> (String, String) {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../nix/driver.sh");
        let output = Command::new("bash")
            .args(["-euo", "pipefail", "-c"])
            .arg("source \"$1\"; bench_use_driver \"$2\" \"$3\"; printf '%s\\n%s' \"$LD_LIBRARY_PATH\" \"${TRITON_LIBCUDA_PATH-}\"")
            .arg("bash")
            .args([&script, &self.dir.path().join("root"), &self.private()])
            .env("LD_LIBRARY_PATH", "/before")
            .env_remove("TRITON_LIBCUDA_PATH")
            .output()
            .expect("bash can be started");
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).expect("it is text");
        let (path, triton) = text.split_once('\n').expect("two lines");
        (path.to_owned(), triton.to_owned())
    }

    fn links(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.private())
            .into_iter()
            .flatten()
            .flatten();
        let mut names: Vec<String> = entries
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        names.sort();
        names
    }
}

#[test]
fn nixos_keeps_the_driver_in_one_place() {
    let machine = Machine::with(&[(NIXOS, "libcuda.so.1"), (DEBIAN, "libcuda.so.1")]);
    let (path, triton) = machine.after();
    let driver = machine.root(NIXOS).display().to_string();
    assert_eq!(path, format!("{driver}:/before"));
    assert_eq!(triton, driver);
    assert!(machine.links().is_empty());
}

#[test]
fn elsewhere_only_the_drivers_own_files_are_linked() {
    let machine = Machine::with(&[
        (DEBIAN, "libc.so.6"),
        (DEBIAN, "libcuda.so.1"),
        (DEBIAN, "libnvidia-ml.so.1"),
        ("usr/lib64", "libcuda.so.1"),
    ]);
    for _ in 0..2 {
        let (path, triton) = machine.after();
        assert_eq!(path, format!("{}:/before", machine.private().display()));
        assert_eq!(triton, machine.private().display().to_string());
        assert_eq!(machine.links(), ["libcuda.so.1", "libnvidia-ml.so.1"]);
    }
    let linked = std::fs::canonicalize(machine.private().join("libcuda.so.1"));
    let first = std::fs::canonicalize(machine.root(DEBIAN).join("libcuda.so.1"));
    assert_eq!(linked.unwrap(), first.unwrap());
}

#[test]
fn without_a_driver_nothing_changes() {
    let machine = Machine::with(&[(DEBIAN, "libc.so.6")]);
    assert_eq!(machine.after(), ("/before".to_owned(), String::new()));
    // One that was removed leaves no link behind that would be believed.
    std::fs::create_dir_all(machine.private()).unwrap();
    std::os::unix::fs::symlink("/gone", machine.private().join("libcuda.so.1")).unwrap();
    assert_eq!(machine.after().0, "/before");
}
