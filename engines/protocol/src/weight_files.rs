//! Finds the files that hold a model's safetensors weights: one file, or the shards that an index
//! lists.
//!
//! This module reads the index and checks that each shard is present. It deliberately opens no
//! shard: the engine checks whether the tensors in them fit the model.

use crate::engine::EngineError;
use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

/// The suffix that turns a weights file's name into its index's name.
const INDEX: &str = ".index.json";

/// Return the files in `model_dir` that hold `weights` (say `model.safetensors`): the file itself,
/// or, if it is absent and its index (`model.safetensors.index.json`) is present, the index's
/// shards in the order of their names. `weights` may name the index too.
///
/// A shard must be the plain name of a file beside the index, so that an index from elsewhere
/// can't point an engine at other files of this machine.
///
/// # Errors
/// `unavailable` if neither the file nor its index is present, or if the index can't be read,
/// lists no shard, or lists one that is missing; the message says which.
pub fn safetensors_files(model_dir: &Path, weights: &str) -> Result<Vec<PathBuf>, EngineError> {
    let file = model_dir.join(weights);
    let index = match weights.ends_with(INDEX) {
        true => file.clone(),
        false => {
            let index = model_dir.join(format!("{weights}{INDEX}"));
            if file.is_file() || !index.is_file() {
                return present(file).map(|file| vec![file]);
            }
            index
        }
    };
    let shards = read_index(&index)?.into_iter();
    shards.map(|name| present(model_dir.join(name))).collect()
}

/// Return the files that hold `weights`, as [`safetensors_files`] does, if they are safetensors by
/// their name.
///
/// # Errors
/// `unsupported` if they are not, and the errors of [`safetensors_files`].
pub fn only_safetensors(model_dir: &Path, weights: &str) -> Result<Vec<PathBuf>, EngineError> {
    let file = weights.strip_suffix(INDEX).unwrap_or(weights);
    if !file.ends_with(".safetensors") {
        let path = model_dir.join(weights);
        return Err(EngineError::unsupported(format!(
            "{}: not read here; by its name it is neither .safetensors nor the .index.json of one",
            path.display()
        )));
    }
    safetensors_files(model_dir, weights)
}

/// Return the names of the index's shards, each once.
fn read_index(index: &Path) -> Result<BTreeSet<String>, EngineError> {
    let text = std::fs::read_to_string(index).map_err(|error| unreadable(index, &error))?;
    let json: serde_json::Value = serde_json::from_str(&text)
        .map_err(|error| unusable(index, &format!("is not valid JSON ({error})")))?;
    let map = json["weight_map"].as_object();
    let map = map.ok_or_else(|| unusable(index, "has no `weight_map`"))?;
    let mut names = BTreeSet::new();
    for (tensor, name) in map {
        let name = name.as_str().filter(|name| is_plain(name)).ok_or_else(|| {
            let what = format!("puts tensor {tensor:?} into {name}, which is no plain file name");
            unusable(index, &what)
        })?;
        names.insert(name.to_owned());
    }
    match names.is_empty() {
        true => Err(unusable(index, "names no shard")),
        false => Ok(names),
    }
}

/// Whether `name` is a plain file name, and not a path to another directory.
fn is_plain(name: &str) -> bool {
    let mut parts = Path::new(name).components();
    let one = matches!(
        (parts.next(), parts.next()),
        (Some(Component::Normal(_)), None)
    );
    one && !name.contains(['/', '\\', ':']) && !name.chars().any(char::is_control)
}

/// Return the path if a file is there, else an error.
fn present(file: PathBuf) -> Result<PathBuf, EngineError> {
    match std::fs::metadata(&file) {
        Ok(data) if data.is_file() => Ok(file),
        Ok(_) => Err(unusable(&file, "is not a file")),
        Err(error) => Err(unreadable(&file, &error)),
    }
}

fn unreadable(path: &Path, error: &std::io::Error) -> EngineError {
    unusable(path, &format!("cannot be read ({error})"))
}

fn unusable(path: &Path, what: &str) -> EngineError {
    EngineError::unavailable(format!(
        "{} {what}; fetch the model again, or correct model_dir",
        path.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::FailureKind;

    fn dir(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(dir.path().join(name), text).unwrap();
        }
        dir
    }

    const TWO: &str = r#"{"metadata": {"total_size": 8}, "weight_map":
        {"z": "m-1-of-2.safetensors", "a": "m-2-of-2.safetensors", "b": "m-1-of-2.safetensors"}}"#;

    fn names(dir: &Path, weights: &str) -> Result<Vec<String>, String> {
        let files = safetensors_files(dir, weights).map_err(|error| error.message)?;
        let name = |file: &PathBuf| file.strip_prefix(dir).unwrap().display().to_string();
        Ok(files.iter().map(name).collect())
    }

    #[test]
    fn a_single_file_wins_over_an_index() {
        let dir = dir(&[("m.safetensors", ""), ("m.safetensors.index.json", TWO)]);
        assert_eq!(
            names(dir.path(), "m.safetensors").unwrap(),
            ["m.safetensors"]
        );
    }

    #[test]
    fn an_index_gives_each_shard_once_in_order_of_name() {
        let dir = dir(&[
            ("m.safetensors.index.json", TWO),
            ("m-2-of-2.safetensors", ""),
            ("m-1-of-2.safetensors", ""),
        ]);
        let shards = ["m-1-of-2.safetensors", "m-2-of-2.safetensors"];
        assert_eq!(names(dir.path(), "m.safetensors").unwrap(), shards);
        let by_index = names(dir.path(), "m.safetensors.index.json").unwrap();
        assert_eq!(by_index, shards);
    }

    #[test]
    fn another_format_is_refused_by_name_where_only_safetensors_are_read() {
        let dir = dir(&[("m.safetensors", ""), ("m.bin", ""), ("index.json", TWO)]);
        let files = only_safetensors(dir.path(), "m.safetensors").unwrap();
        assert_eq!(files, [dir.path().join("m.safetensors")]);
        let missing = only_safetensors(dir.path(), "n.safetensors.index.json").unwrap_err();
        assert_eq!(missing.kind, FailureKind::Unavailable);
        for weights in ["m.bin", "index.json"] {
            let other = only_safetensors(dir.path(), weights).unwrap_err();
            assert_eq!(other.kind, FailureKind::Unsupported);
            assert!(other.message.contains(weights), "{other}");
        }
    }

    #[test]
    fn what_is_missing_is_named() {
        let one = dir(&[
            ("m.safetensors.index.json", TWO),
            ("m-1-of-2.safetensors", ""),
        ]);
        let message = names(one.path(), "m.safetensors").unwrap_err();
        assert!(message.contains("m-2-of-2.safetensors"), "{message}");
        let message = names(dir(&[]).path(), "m.safetensors").unwrap_err();
        assert!(
            message.contains("m.safetensors cannot be read"),
            "{message}"
        );
    }

    #[test]
    fn an_index_that_makes_no_sense_is_refused() {
        for (text, word) in [
            ("{", "JSON"),
            ("{}", "weight_map"),
            (r#"{"weight_map": {}}"#, "no shard"),
            (r#"{"weight_map": {"a": 1}}"#, "no plain file name"),
            (r#"{"weight_map": {"a": ""}}"#, "no plain file name"),
            (r#"{"weight_map": {"a": ".."}}"#, "no plain file name"),
            (
                r#"{"weight_map": {"a": "/etc/hosts"}}"#,
                "no plain file name",
            ),
            (
                r#"{"weight_map": {"a": "../m.safetensors"}}"#,
                "no plain file name",
            ),
            (
                r#"{"weight_map": {"a": "sub\\m.safetensors"}}"#,
                "no plain file name",
            ),
        ] {
            let dir = dir(&[("m.safetensors.index.json", text)]);
            let error = safetensors_files(dir.path(), "m.safetensors").unwrap_err();
            assert_eq!(error.kind, FailureKind::Unavailable);
            assert!(error.message.contains(word), "{text}: {error}");
            assert!(!error.message.contains('\n'), "{error}");
        }
    }
}
