//! Defaults for the fields that a request made by hand leaves out.
//!
//! One part chooses the weight file and its precision. It reads directory listings and file names,
//! never a file: the engine checks what a file really holds.
//!
//! The other chooses the backend and device, which can be named in several ways. It doesn't check
//! whether a device is present: the engine reports that.

use serde::Deserialize;
use std::path::{Path, PathBuf};

/// A weight file in a model directory.
#[derive(Debug, PartialEq)]
pub struct Weights {
    /// Directory with `config.json` and `tokenizer.json`.
    pub model_dir: PathBuf,
    /// Name of the weight file in `model_dir`.
    pub file: String,
    /// The weights' precision, as in [`crate::wire::Load::precision`].
    pub precision: String,
}

/// The precisions that a file name may contain, longest first, since `f16` is in `bf16`.
const PRECISIONS: [&str; 5] = ["q4_k_m", "q8_0", "bf16", "f16", "f32"];

/// Complete what the user left out. `model_path` is a directory or a weight file.
pub fn choose(
    model_path: &Path,
    weights: Option<&str>,
    precision: Option<&str>,
) -> Result<Weights, String> {
    let (model_dir, named) = if model_path.is_dir() {
        (model_path.to_path_buf(), weights.map(str::to_string))
    } else if model_path.is_file() {
        let dir = model_path
            .parent()
            .filter(|dir| !dir.as_os_str().is_empty());
        let name = model_path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned());
        (
            dir.unwrap_or(Path::new(".")).to_path_buf(),
            weights.map(str::to_string).or(name),
        )
    } else {
        return Err(format!(
            "model_path {} does not exist",
            model_path.display()
        ));
    };
    let file = match named {
        Some(file) => file,
        None => search(&model_dir, precision)?,
    };
    Ok(Weights {
        model_dir,
        precision: precision.unwrap_or_else(|| of_name(&file)).to_string(),
        file,
    })
}

/// Return the precision that a file name contains, or `f32`.
fn of_name(file: &str) -> &'static str {
    let name = file.to_lowercase();
    PRECISIONS
        .into_iter()
        .find(|precision| name.contains(precision))
        .unwrap_or("f32")
}

/// Return the safetensors file (or index) for no precision or an unquantised one, else the GGUF
/// file of that precision.
fn search(dir: &Path, precision: Option<&str>) -> Result<String, String> {
    let entries = std::fs::read_dir(dir).map_err(|err| format!("{}: {err}", dir.display()))?;
    let mut names: Vec<String> = entries
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    let with = |end: &str| {
        names
            .iter()
            .filter(|name| name.ends_with(end))
            .collect::<Vec<_>>()
    };
    let plain = precision.is_none_or(|precision| !precision.starts_with('q'));
    let index = with(".safetensors.index.json");
    let single = with(".safetensors");
    let of_precision = |name: &&String| precision.is_none_or(|p| of_name(name) == p);
    let found = if plain && !index.is_empty() {
        index.first().copied()
    } else if plain && !single.is_empty() {
        single
            .iter()
            .find(|name| **name == "model.safetensors")
            .or(single.first())
            .copied()
    } else {
        with(".gguf").into_iter().find(of_precision)
    };
    found.cloned().ok_or_else(|| {
        let what = precision.map_or("weights".to_string(), |p| format!("{p} weights"));
        format!("no {what} in {}: name a file in `weights`", dir.display())
    })
}

/// A device as the user names it: `1`, `"cuda"` and `"cuda:1"` are all accepted.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub enum Device {
    /// An index on the default backend.
    Index(u32),
    /// A backend, optionally followed by a colon and an index.
    Name(String),
}

/// A backend and device to load the model on.
#[derive(Debug, PartialEq)]
pub struct Choice {
    /// The backend, as in [`crate::wire::Load::backend`].
    pub backend: String,
    /// The device's index, as in [`crate::wire::Load::device`].
    pub device: u32,
}

/// Return the backends to try, in order: the named one, or else all of `built`.
///
/// # Errors
/// Fails if the text after a colon is not an index.
pub fn choices(
    backend: Option<&str>,
    device: Option<&Device>,
    built: &[&str],
) -> Result<Vec<Choice>, String> {
    let (name, device) = match device {
        None => (None, 0),
        Some(Device::Index(index)) => (None, *index),
        Some(Device::Name(name)) => match name.split_once(':') {
            None => (Some(name.as_str()), 0),
            Some((name, index)) => {
                let number = index.parse();
                let number = number.map_err(|_| format!("no device index: {index}"))?;
                (Some(name), number)
            }
        },
    };
    let on = |backend: &str| Choice {
        backend: backend.to_owned(),
        device,
    };
    Ok(match backend.or(name) {
        Some(named) => vec![on(named)],
        None => built.iter().map(|backend| on(backend)).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model_dir() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for name in [
            "config.json",
            "model.safetensors",
            "m.Q8_0.gguf",
            "m-bf16.gguf",
        ] {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        dir
    }

    #[test]
    fn a_directory_means_its_safetensors_unless_a_precision_says_otherwise() {
        let dir = model_dir();
        let chosen = |precision| choose(dir.path(), None, precision).map(|w| (w.file, w.precision));
        let pair = |file: &str, precision: &str| Ok((file.to_string(), precision.to_string()));
        assert_eq!(chosen(None), pair("model.safetensors", "f32"));
        assert_eq!(chosen(Some("f16")), pair("model.safetensors", "f16"));
        assert_eq!(chosen(Some("q8_0")), pair("m.Q8_0.gguf", "q8_0"));
        assert!(chosen(Some("q4_k_m")).unwrap_err().contains("q4_k_m"));
    }

    #[test]
    fn a_file_brings_its_directory_and_its_precision() {
        let dir = model_dir();
        let chosen = choose(&dir.path().join("m-bf16.gguf"), None, None).unwrap();
        assert_eq!(
            (chosen.file.as_str(), chosen.precision.as_str()),
            ("m-bf16.gguf", "bf16")
        );
        assert_eq!(chosen.model_dir, dir.path());
        assert!(choose(Path::new("/nowhere/at/all"), None, None).is_err());
    }

    const BUILT: [&str; 2] = ["cuda", "cpu"];

    fn chosen(backend: Option<&str>, device: Option<Device>) -> Result<Vec<String>, String> {
        let all = choices(backend, device.as_ref(), &BUILT)?;
        let text = |choice: &Choice| format!("{}:{}", choice.backend, choice.device);
        Ok(all.iter().map(text).collect())
    }

    #[test]
    fn a_device_has_many_names() {
        let named = |text: &str| chosen(None, Some(Device::Name(text.to_owned())));
        assert_eq!(named("vulkan").unwrap(), ["vulkan:0"]);
        assert_eq!(named("cuda:3").unwrap(), ["cuda:3"]);
        assert!(named("cuda:x").unwrap_err().contains('x'));
        let index = chosen(Some("cuda"), Some(Device::Index(1)));
        assert_eq!(index.unwrap(), ["cuda:1"]);
        assert_eq!(chosen(Some("cpu"), None).unwrap(), ["cpu:0"]);
    }

    #[test]
    fn where_none_is_named_it_is_what_the_build_is_for() {
        assert_eq!(chosen(None, None).unwrap(), ["cuda:0", "cpu:0"]);
        let index = chosen(None, Some(Device::Index(1)));
        assert_eq!(index.unwrap(), ["cuda:1", "cpu:1"]);
    }
}
