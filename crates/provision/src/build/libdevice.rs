//! Finds NVIDIA's mathematical functions (libdevice): LLVM bitcode in a CUDA toolkit. A program
//! that compiles its kernels at run time reads the file from the toolkit that `CUDA_PATH` names. A
//! bundle contains the file, because a driver alone doesn't.

use super::cuda::{self, cuda_home};
use super::surroundings::Surroundings;
use anyhow::{Context, Result};
use base::repo::Repo;
use std::path::{Path, PathBuf};

/// The path of libdevice inside a toolkit.
const FILE: &str = "nvvm/libdevice/libdevice.10.bc";
/// The directory in a bundle that takes the place of a toolkit.
const IN_BUNDLE: &str = "lib/cuda";
/// The directories where systems install a toolkit.
const ROOTS: [&str; 4] = ["/usr/local/cuda", "/opt/cuda", "/usr/lib/cuda", "/usr"];

/// Tell `program` by `CUDA_PATH` which toolkit has libdevice.
pub fn provide(repo: &Repo, program: &str, all: &mut Surroundings) -> Result<()> {
    let home = home(repo).with_context(|| {
        format!("{program} links {FILE} of a CUDA toolkit into its kernels, and there is none: set CUDA_PATH to a toolkit that has it")
    })?;
    all.run_variables.push(("CUDA_PATH", home.into()));
    Ok(())
}

/// The files of libdevice that an archive needs: path inside the bundle, and the file.
pub fn to_pack(repo: &Repo) -> Result<Vec<(String, PathBuf)>> {
    let home = home(repo).with_context(|| format!("no CUDA toolkit here has {FILE}"))?;
    let mut all = vec![(format!("{IN_BUNDLE}/{FILE}"), home.join(FILE))];
    all.extend(license(&home).map(|text| ("licenses/libdevice.txt".into(), text)));
    Ok(all)
}

/// Find a directory that has libdevice: the bundle's own, else the toolkit which programs are built
/// with, else one that the environment names or the system has.
fn home(repo: &Repo) -> Option<PathBuf> {
    let own = [
        Some(repo.root.join(IN_BUNDLE)),
        cuda_home(repo).map(|(home, _)| home),
    ];
    let all = own.into_iter().flatten();
    let all = all.chain(cuda::named_homes());
    first_with_it(all.chain(ROOTS.map(PathBuf::from)))
}

fn first_with_it(mut homes: impl Iterator<Item = PathBuf>) -> Option<PathBuf> {
    homes.find(|home| home.join(FILE).is_file())
}

/// The file with NVIDIA's terms for the toolkit at `home`, where it came with the toolkit.
fn license(home: &Path) -> Option<PathBuf> {
    let whole = home.join("EULA.txt");
    if whole.is_file() {
        return Some(whole);
    }
    // In a toolkit made of wheels the terms lie in their environment's packages.
    let packages = home.ancestors().nth(2)?;
    let entries = std::fs::read_dir(packages).ok()?.flatten();
    let wheel = entries.map(|entry| entry.path()).find(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("nvidia_nvvm-") && name.ends_with(".dist-info")
    })?;
    let texts = ["licenses/License.txt", "License.txt"];
    texts
        .map(|name| wheel.join(name))
        .into_iter()
        .find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_toolkit_without_the_file_is_passed_over() {
        let dir = tempfile::tempdir().unwrap();
        let homes = || {
            ["a", "b", "c"]
                .map(|name| dir.path().join(name))
                .into_iter()
        };
        crate::write(dir.path().join("a/bin/nvcc"), "x");
        assert_eq!(first_with_it(homes()), None);
        crate::write(dir.path().join("b").join(FILE), "x");
        crate::write(dir.path().join("c").join(FILE), "x");
        assert_eq!(first_with_it(homes()), Some(dir.path().join("b")));
    }

    #[test]
    fn a_bundles_own_is_what_its_programs_are_told() {
        let dir = tempfile::tempdir().unwrap();
        let repo = Repo::at(dir.path().to_owned());
        let own = dir.path().join(IN_BUNDLE);
        crate::write(own.join(FILE), "x");
        let mut all = Surroundings::default();
        provide(&repo, "a-bench", &mut all).unwrap();
        let told = ("CUDA_PATH".to_owned(), own.display().to_string());
        assert_eq!(all.run(), [told]);
        assert!(all.build().is_empty(), "a build has its toolkit already");
        let packed = to_pack(&repo).unwrap();
        assert_eq!(packed[0], (format!("{IN_BUNDLE}/{FILE}"), own.join(FILE)));
    }

    #[test]
    fn its_terms_come_from_the_toolkit_or_from_the_wheel() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("nvidia/cu13");
        crate::write(home.join(FILE), "x");
        assert_eq!(license(&home), None);
        let wheel = dir
            .path()
            .join("nvidia_nvvm-13.0.88.dist-info/licenses/License.txt");
        crate::write(&wheel, "x");
        assert_eq!(license(&home), Some(wheel));
        crate::write(home.join("EULA.txt"), "x");
        assert_eq!(license(&home), Some(home.join("EULA.txt")));
    }
}
