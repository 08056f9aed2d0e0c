//! A comparison as a comment on a pull request. A comment holds 65 536 characters, so rows
//! that have no room are left out and counted; and whatever a record says, nothing of it is
//! markup: it stands as code.

use super::digest::{Row, around, gaps, notes, shown, verdict};
use super::{Comparison, Subject};
use base::text::code;
use stats::between::Change;

/// Bytes of the whole, at most.
const BYTES_MAX: usize = 59_000;
/// Bytes kept for the line that counts what is left out.
const LINE_BYTES: usize = 200;
/// Characters of a name, and of a reason or a difference.
const NAME_CHARS: usize = 100;
const LINE_CHARS: usize = 200;

pub(super) fn markdown(comparison: &Comparison, all: bool) -> String {
    let (head, tail) = (head(comparison), tail(comparison));
    let changes = shown(&comparison.changes, all);
    let mut room = BYTES_MAX.saturating_sub(head.len() + tail.len() + LINE_BYTES);
    let mut table = match changes.is_empty() {
        true => String::new(),
        false => format!(
            "\n| {} |\n|---|---|---|--:|--:|--:|---|---|\n",
            Row::HEAD.join(" | ")
        ),
    };
    let mut rows = 0;
    for row in changes.iter().map(|change| row(change)) {
        if row.len() > room {
            break;
        }
        room -= row.len();
        rows += 1;
        table += &row;
    }
    if rows < changes.len() {
        table += &format!(
            "\n{} more cells are left out here; `cargo xtask compare` prints them all.\n",
            changes.len() - rows
        );
    }
    head + &table + &tail
}

fn head(comparison: &Comparison) -> String {
    let run = |run: &Subject| code(&run.line, LINE_CHARS);
    format!(
        "**{}**\n\n- A: {}\n- B: {}\n",
        verdict(comparison),
        run(&comparison.a),
        run(&comparison.b)
    )
}

fn row(change: &Change) -> String {
    let row = Row::of(change);
    let reason = code(&row.reason, LINE_CHARS);
    format!(
        "| {} | {} | {} | {} | {} | {} | {} | {} |\n",
        code(&row.cell, NAME_CHARS),
        code(&row.target, NAME_CHARS),
        code(row.metric, NAME_CHARS),
        row.before,
        row.after,
        row.ratio,
        row.interval,
        format!("{} {reason}", row.verdict).trim_end()
    )
}

/// Gaps, surroundings and notes: short whatever the run, so never with `all`.
fn tail(comparison: &Comparison) -> String {
    let mut text = String::new();
    if let Some((what, reasons)) = gaps(comparison) {
        text += &format!("\n{what}:\n\n");
        for (n, reason) in reasons {
            text += &format!("- {n}: {}\n", code(&reason, LINE_CHARS));
        }
    }
    if !comparison.environment.is_empty() {
        text += "\nWhat differs around them, A → B:\n\n";
        for difference in around(&comparison.environment, false) {
            text += &format!("- {}\n", code(&difference, LINE_CHARS));
        }
    }
    for note in notes(&comparison.changes) {
        text += &format!("\n{note}\n");
    }
    text
}
