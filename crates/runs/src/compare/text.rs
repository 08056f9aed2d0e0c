//! A comparison for a terminal: the verdict first, and where nothing changed all of it on
//! one screen.

use super::Comparison;
use super::digest::{Row, around, gaps, notes, shown, verdict};
use base::table::aligned;
use base::text::line;

pub(super) fn text(comparison: &Comparison, all: bool) -> String {
    let Comparison {
        a,
        b,
        changes,
        environment,
    } = comparison;
    let mut text = format!("{}\n", verdict(comparison));
    for (name, run) in [("A", a), ("B", b)] {
        text += &format!("{name}  {}\n", line(&run.line, 200));
    }
    let rows: Vec<_> = shown(changes, all).into_iter().map(row).collect();
    if !rows.is_empty() {
        let head = Row::HEAD.map(str::to_owned);
        text += &format!("\n{}", aligned(std::iter::once(head).chain(rows)));
    }
    if let Some((what, reasons)) = gaps(comparison) {
        text += &format!("\n{what}:\n");
        for (n, reason) in reasons {
            text += &format!("  {n:>5}  {reason}\n");
        }
        if !all {
            text += "`cargo xtask compare --all` lists them.\n";
        }
    }
    text += match environment.is_empty() {
        true => "\nNothing recorded of the environment differs.\n",
        false => "\nWhat differs around them, A → B:\n",
    };
    for difference in around(environment, all) {
        text += &format!("  {difference}\n");
    }
    let notes = notes(changes);
    if !notes.is_empty() {
        text += &format!("\n{}\n", notes.join("\n"));
    }
    text
}

fn row(change: &stats::between::Change) -> [String; 8] {
    let row = Row::of(change);
    let verdict = match row.reason.is_empty() {
        true => row.verdict,
        false => format!("{}: {}", row.verdict, line(&row.reason, 200)),
    };
    let (cell, target) = (line(&row.cell, 100), line(&row.target, 100));
    let metric = row.metric.to_owned();
    [
        cell,
        target,
        metric,
        row.before,
        row.after,
        row.ratio,
        row.interval,
        verdict,
    ]
}
