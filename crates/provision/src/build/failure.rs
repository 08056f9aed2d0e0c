//! Explains in one line why Cargo or pip failed, and what to do: the decisive words out of hundreds
//! of lines. Pure.

use console::strip_ansi_codes;
use std::path::Path;

/// Most characters of a reason, which stands in a table.
const CHARS_MAX: usize = 400;

/// Causes that lie in the machine or the network rather than in what is built: the words by which
/// each is recognised, and what to do about it.
const ADVICE: [(&[&str], &str); 4] = [
    (
        &["No space left on device", "os error 28", "Errno 28"],
        "the disk is full: make room, or set CARGO_TARGET_DIR to a directory on a larger one",
    ),
    (
        &[
            "ould not resolve host",
            "ould not connect to server",
            "ouldn't connect to server",
            "ailed to connect to",
            "failed to lookup address",
            "Failed to establish a new connection",
            "Timeout was reached",
            "ConnectTimeoutError",
            "ReadTimeoutError",
            "spurious network error",
        ],
        "the package registry can't be reached: connect this machine, or set HTTPS_PROXY to a proxy that leads there, then run this again",
    ),
    (
        &["signal: 9", "Killed signal terminated"],
        "the compiler was killed, most likely for want of memory: set CARGO_BUILD_JOBS=1 and run this again",
    ),
    (
        &["linker `cc` not found", "failed to find tool \"c"],
        "there is no C or C++ compiler: `cargo xtask doctor` says how to get one",
    ),
];

/// The advice on a failure whose output was `said`; `None` where the words tell nothing.
fn advice(said: &str) -> Option<&'static str> {
    let told = |(words, _): &&(&[&str], &'static str)| words.iter().any(|word| said.contains(word));
    ADVICE.iter().find(told).map(|(_, advice)| *advice)
}

/// Append to `why` what to do, where the output `said` tells.
pub fn advised(why: String, said: &str) -> String {
    match advice(said) {
        Some(advice) => format!("{why}; {advice}"),
        None => why,
    }
}

/// Say why Cargo failed, and what to do. `paths` (of this machine) are removed from the text.
pub fn cargo(said: &str, paths: &[&Path]) -> String {
    advised(last_error(said, paths), &strip_ansi_codes(said))
}

/// Say why pip installed nothing of `requirements`, and what to do.
pub fn pip(said: &str, requirements: &str) -> String {
    let said = strip_ansi_codes(said);
    let lines = || said.lines().map(str::trim);
    if said.contains("DO NOT MATCH THE HASHES") {
        let packages = lines().filter_map(|line| line.split_once(" from "));
        let mut packages = packages.filter(|(package, _)| package.contains("=="));
        let package = packages.next().map_or("a package", |(package, _)| package);
        return format!(
            "{package} is not the file whose hash stands in {requirements}, so nothing was installed: run this again; if it stays so, the package index or a proxy hands out something else"
        );
    }
    let mut errors = lines().filter_map(|line| line.strip_prefix("ERROR: "));
    let last = errors.next_back().unwrap_or("pip said nothing of why");
    if let Some(advice) = advice(&said) {
        return format!("{last}; {advice}");
    }
    match last.contains("No matching distribution") {
        true => format!(
            "{last}: the package index can't be reached or has no wheel of it for this Python and machine; every engine has wheels for Python 3.11 to 3.13"
        ),
        false => last.to_owned(),
    }
}

/// Cargo's last error with its causes; `paths` (of this machine) are removed from the text.
fn last_error(said: &str, paths: &[&Path]) -> String {
    let plain = strip_ansi_codes(said);
    let lines: Vec<&str> = plain.split(['\n', '\r']).map(str::trim_end).collect();
    let is_error = |line: &&str| line.starts_with("error:") || line.starts_with("error[");
    let Some(last) = lines.iter().rposition(is_error) else {
        return "it said nothing of why".into();
    };
    let mut parts = Vec::new();
    // "could not compile" ends the list of errors; the first one says why.
    if lines[last].contains("could not compile") {
        parts.extend(lines.iter().find(|line| is_error(line)).copied());
    }
    parts.push(lines[last]);
    let after = &lines[last..];
    // The innermost cause: those between say how it led to the error.
    let cause = after.windows(2).rfind(|pair| pair[0] == "Caused by:");
    parts.extend(cause.map(|pair| pair[1].trim()));
    // The last line that a build script printed.
    let script = after.iter().position(|line| line.trim() == "--- stderr");
    let words = script.map(|at| &after[at + 1..]).unwrap_or_default();
    let words = words.iter().map(|line| line.trim());
    let words = words.take_while(|line| *line != "stack backtrace:");
    let said = words.filter(|line| {
        !line.is_empty() && !line.starts_with("note:") && !line.starts_with("warning:")
    });
    parts.extend(said.last());
    parts.dedup();
    let mut reason = parts.join("; ");
    for path in paths {
        reason = reason.replace(&format!("{}/", path.display()), "");
    }
    if let Some(home) = std::env::var("HOME").ok().filter(|home| home.len() > 1) {
        reason = reason.replace(&home, "~");
    }
    if let Some((end, _)) = reason.char_indices().nth(CHARS_MAX) {
        reason.truncate(end);
        reason.push('…');
    }
    reason
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fetch_that_failed_says_what_and_why() {
        let said = "    Updating git repository `https://example.org/x`\n\
            warning: spurious network error (3 tries remaining)\n\
            \u{1b}[1m\u{1b}[31merror\u{1b}[0m: failed to get `x` as a dependency of package `y v0.1.0 (/r/engines/y)`\n\n\
            Caused by:\n  failed to load source for dependency `x`\n\n\
            Caused by:\n  failed to fetch into: /c/git/db/x\n\n\
            Caused by:\n  Could not resolve host: example.org\n";
        assert_eq!(
            last_error(said, &[Path::new("/r")]),
            "error: failed to get `x` as a dependency of package `y v0.1.0 (engines/y)`; Could not resolve host: example.org"
        );
    }

    #[test]
    fn a_compiler_error_is_the_first_one() {
        let said = "error[E0432]: unresolved import `x`\n --> src/main.rs:1:5\n\nerror: aborting\nwarning: unused\nerror: could not compile `y` (bin \"y\") due to 1 previous error\n";
        assert_eq!(
            last_error(said, &[]),
            "error[E0432]: unresolved import `x`; error: could not compile `y` (bin \"y\") due to 1 previous error"
        );
    }

    #[test]
    fn a_build_script_speaks_last() {
        let said = "error: failed to run custom build command for `x-sys v1.0.0`\n\n\
            Caused by:\n  process didn't exit successfully: `build-script-build` (exit status: 101)\n\
            \x20 --- stdout\n  cargo:rerun-if-changed=a\n\n  --- stderr\n  thread 'main' panicked at build.rs:3:5:\n  no libx here\n\
            \x20 stack backtrace:\n     0: main\n  note: run with `RUST_BACKTRACE=full`\nwarning: build failed, waiting for other jobs to finish...\n";
        assert_eq!(
            last_error(said, &[]),
            "error: failed to run custom build command for `x-sys v1.0.0`; process didn't exit successfully: `build-script-build` (exit status: 101); no libx here"
        );
    }

    #[test]
    fn what_is_no_fault_of_the_code_says_what_to_do() {
        let offline = "error: failed to download from `https://example.org/a`\n\nCaused by:\n  [6] Could not resolve hostname (Could not resolve host: example.org)\n";
        let why = cargo(offline, &[]);
        assert!(why.contains("HTTPS_PROXY"), "{why}");
        let full = "error: failed to write /t/x: No space left on device (os error 28)\nerror: could not compile `a` (lib) due to 1 previous error\n";
        let why = cargo(full, &[]);
        assert!(
            why.contains("disk is full") && why.contains("CARGO_TARGET_DIR"),
            "{why}"
        );
        let killed = "error: could not compile `a` (lib)\n\nCaused by:\n  process didn't exit successfully: `rustc` (signal: 9, SIGKILL: kill)\n";
        assert!(cargo(killed, &[]).contains("CARGO_BUILD_JOBS=1"));
        let wrong = "error[E0432]: unresolved import `x`\nerror: could not compile `y`\n";
        assert_eq!(cargo(wrong, &[]), last_error(wrong, &[]));
    }

    #[test]
    fn a_wheel_that_is_another_is_named() {
        let said = "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE. If you have updated the package versions, please update the hashes.\n    cmake==4.4.4 from https://example.org/cmake-4.4.4-py3.whl (from -r a.lock (line 1)):\n        Expected sha256 00\n             Got        f7\n";
        let why = pip(said, "a.lock");
        assert!(
            why.starts_with("cmake==4.4.4 is not the file whose hash stands in a.lock"),
            "{why}"
        );
    }

    #[test]
    fn pip_says_what_to_do() {
        let retry = "WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError('<x>: Failed to establish a new connection: [Errno 111] Connection refused')': /simple/cmake/\n";
        let none = "ERROR: Could not find a version that satisfies the requirement cmake==4.4.4 (from versions: none)\nERROR: No matching distribution found for cmake==4.4.4\n";
        let why = pip(&format!("{retry}{none}"), "a.lock");
        assert!(why.contains("can't be reached: connect"), "{why}");
        let why = pip(none, "a.lock");
        assert!(why.contains("no wheel of it for this Python"), "{why}");
        let full = "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device\n\n";
        let why = pip(full, "a.lock");
        assert!(why.contains("the disk is full"), "{why}");
        assert_eq!(pip("", "a.lock"), "pip said nothing of why");
        assert_eq!(pip("ERROR: strange\n", "a.lock"), "strange");
    }

    #[test]
    fn silence_and_floods_are_one_line_too() {
        assert_eq!(last_error("", &[]), "it said nothing of why");
        let flood = format!("error: {}", "x".repeat(1000));
        assert_eq!(last_error(&flood, &[]).chars().count(), CHARS_MAX + 1);
    }
}
