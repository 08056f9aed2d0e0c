//! The command line as it was given, and as records hold it: without where files lie, because that
//! is private.

use std::path::Path;

/// The options whose value is the path of a file or a directory.
const PATHS: [&str; 2] = ["--prompts", "--out"];

/// The arguments of this process without the program's name; what is not UTF-8 in them is replaced
/// by `�`.
pub fn given() -> impl Iterator<Item = String> {
    let args = std::env::args_os().skip(1);
    args.map(|arg| arg.to_string_lossy().into_owned())
}

/// Return a command line as a run's record holds it: of a file of prompts and of the directory of
/// runs only the name is kept.
pub fn recorded(args: impl Iterator<Item = String>) -> Vec<String> {
    let mut is_path = false;
    args.map(|arg| {
        let was_path = std::mem::replace(&mut is_path, PATHS.contains(&arg.as_str()));
        match (was_path, arg.split_once('=')) {
            (true, _) => name(&arg),
            (false, Some((option, path))) if PATHS.contains(&option) => {
                format!("{option}={}", name(path))
            }
            (false, _) => arg,
        }
    })
    .collect()
}

/// Return a command line whose arguments that are no options are runs: of their paths, too, only
/// the names are kept.
pub fn recorded_with_runs(args: impl Iterator<Item = String>) -> Vec<String> {
    let all = recorded(args).into_iter();
    all.map(|arg| match arg.starts_with('-') {
        true => arg,
        false => name(&arg),
    })
    .collect()
}

fn name(path: &str) -> String {
    let name = Path::new(path).file_name();
    name.map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::{recorded, recorded_with_runs};

    fn of(record: impl Fn(std::vec::IntoIter<String>) -> Vec<String>, words: &str) -> String {
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        record(words.into_iter()).join(" ")
    }

    #[test]
    fn where_prompts_and_runs_lie_is_not_recorded() {
        for (given, expected) in [
            (
                "bench --prompts /home/me/mine.jsonl --engines a/b",
                "bench --prompts mine.jsonl --engines a/b",
            ),
            (
                "bench --prompts=../mine.jsonl",
                "bench --prompts=mine.jsonl",
            ),
            (
                "bench --out /home/me/runs --out=/mnt/lent --yes",
                "bench --out runs --out=lent --yes",
            ),
            ("bench --model path/to/dir", "bench --model path/to/dir"),
        ] {
            assert_eq!(of(recorded, given), expected);
        }
    }

    #[test]
    fn where_the_parts_of_a_merged_run_lie_is_not_recorded() {
        let given = "merge /home/me/parts/one 20990102-030405-cpu-0123 --out ../all";
        let expected = "merge one 20990102-030405-cpu-0123 --out all";
        assert_eq!(of(recorded_with_runs, given), expected);
    }
}
