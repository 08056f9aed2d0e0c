//! Why Cargo failed, in one line: its own words, out of hundreds. Pure.

use std::path::Path;

/// Characters of a reason, which stands in a table.
const CHARS_MAX: usize = 400;

/// Cargo's last error with its causes; `paths` (of this machine) are shortened away.
pub fn last_error(said: &str, paths: &[&Path]) -> String {
    let plain = without_escapes(said);
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
    let causes = after.iter().zip(after.iter().skip(1));
    let causes = causes.filter(|(line, _)| **line == "Caused by:");
    // The outermost and the innermost: between them stands how one led to the other.
    let causes: Vec<&str> = causes.map(|(_, cause)| cause.trim()).collect();
    parts.extend(causes.last());
    // A build script's own last words.
    let script = after.iter().position(|line| line.trim() == "--- stderr");
    let words = script.map(|at| &after[at + 1..]).unwrap_or_default();
    let words: Vec<&str> = words
        .iter()
        .map(|line| line.trim())
        .take_while(|line| *line != "stack backtrace:")
        .collect();
    parts.extend(words.into_iter().rev().find(|line| {
        !line.is_empty() && !line.starts_with("note:") && !line.starts_with("warning:")
    }));
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

/// Without terminal colours.
pub fn without_escapes(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        if c == '\u{1b}' {
            // ESC [ … letter
            rest.find(char::is_ascii_alphabetic);
        } else {
            plain.push(c);
        }
    }
    plain
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
    fn silence_and_floods_are_one_line_too() {
        assert_eq!(last_error("", &[]), "it said nothing of why");
        let flood = format!("error: {}", "x".repeat(1000));
        assert_eq!(last_error(&flood, &[]).chars().count(), CHARS_MAX + 1);
    }
}
