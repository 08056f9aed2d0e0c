//! Prints a comparison for a terminal, for a comment on a pull request, or for programs (JSON).
//!
//! On a terminal the verdict comes first, and where nothing changed everything fits on one screen.
//! A comment on GitHub holds 65 536 characters, so rows that don't fit are left out and counted.
//! Text from a record is quoted as code (`markdown_code`), so that nothing in it is taken for
//! markup.
//!
//! The fields of the JSON are stable, because scripts depend on them.

use super::digest::{HEAD, LINE_CHARS, around, gaps, notes, row, shown, verdict};
use super::{Comparison, Subject};
use anyhow::Result;
use base::text::{aligned, line, markdown_code};
use serde_json::{Value, json};
use stats::analysis::Verdict;
use stats::between::Change;

pub(super) fn text(comparison: &Comparison, all: bool) -> String {
    let mut text = format!("{}\n", verdict(comparison));
    for (name, run) in [("A", &comparison.a), ("B", &comparison.b)] {
        text += &format!("{name}  {}\n", line(&run.line, LINE_CHARS));
    }
    let changes = shown(&comparison.changes, all).into_iter();
    let rows: Vec<_> = changes.map(|change| row(change, line, ":")).collect();
    if !rows.is_empty() {
        let head = HEAD.map(str::to_owned);
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
    text += match comparison.environment.is_empty() {
        true => "\nNothing recorded of the environment differs.\n",
        false => "\nWhat differs around them, A → B:\n",
    };
    for difference in around(&comparison.environment, all) {
        text += &format!("  {difference}\n");
    }
    let notes = notes(comparison);
    if !notes.is_empty() {
        text += &format!("\n{}\n", notes.join("\n"));
    }
    text
}

/// Maximum size of the whole comment (bytes).
const BYTES_MAX: usize = 59_000;
/// Bytes reserved for the line that counts the rows left out.
const LINE_BYTES: usize = 200;

pub(super) fn markdown(comparison: &Comparison, all: bool) -> String {
    let (head, tail) = (head(comparison), tail(comparison));
    let changes = shown(&comparison.changes, all);
    let mut room = BYTES_MAX.saturating_sub(head.len() + tail.len() + LINE_BYTES);
    let mut table = match changes.is_empty() {
        true => String::new(),
        false => format!(
            "\n| {} |\n|---|---|---|--:|--:|--:|---|---|\n",
            HEAD.join(" | ")
        ),
    };
    let mut rows = 0;
    for change in &changes {
        let row = format!("| {} |\n", row(change, markdown_code, "").join(" | "));
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
    let run = |run: &Subject| markdown_code(&run.line, LINE_CHARS);
    format!(
        "**{}**\n\n- A: {}\n- B: {}\n",
        verdict(comparison),
        run(&comparison.a),
        run(&comparison.b)
    )
}

/// Format gaps, surroundings and notes. They are always short, so `all` doesn't apply to them.
fn tail(comparison: &Comparison) -> String {
    let mut text = String::new();
    if let Some((what, reasons)) = gaps(comparison) {
        text += &format!("\n{what}:\n\n");
        for (n, reason) in reasons {
            text += &format!("- {n}: {}\n", markdown_code(&reason, LINE_CHARS));
        }
    }
    if !comparison.environment.is_empty() {
        text += "\nWhat differs around them, A → B:\n\n";
        for difference in around(&comparison.environment, false) {
            text += &format!("- {}\n", markdown_code(&difference, LINE_CHARS));
        }
    }
    for note in notes(comparison) {
        text += &format!("\n{note}\n");
    }
    text
}

pub(super) fn json(comparison: &Comparison) -> Result<String> {
    let run = |run: &Subject| {
        json!({
            "run": run.id,
            "started": run.started,
            "plan_sha256": run.plan_sha256,
        })
    };
    let value = json!({
        "a": run(&comparison.a),
        "b": run(&comparison.b),
        "agreement": comparison.agreement,
        "cells": comparison.changes.iter().map(cell).collect::<Vec<_>>(),
        "environment": comparison.environment,
        "summary": comparison.count(),
    });
    Ok(serde_json::to_string_pretty(&value)? + "\n")
}

fn cell(change: &Change) -> Value {
    json!({
        "target": change.target,
        "scenario": change.scenario,
        "case": change.case,
        "metric": change.metric,
        "unit": change.metric.map(|metric| metric.describe().unit),
        "before": change.before,
        "after": change.after,
        "ratio": change.ratio,
        "ci_low": change.ci95.map(|ci| ci.0),
        "ci_high": change.ci95.map(|ci| ci.1),
        "p_holm": change.p_holm,
        "inflation": change.inflation,
        "verdict": id(change.verdict),
        "reason": change.reason,
        "broken": change.broken,
        "disturbed_before": change.disturbed.0,
        "disturbed_after": change.disturbed.1,
    })
}

fn id(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Better => "faster",
        Verdict::Worse => "slower",
        Verdict::Equal => "equal",
        Verdict::Undecided => "undecided",
        Verdict::Unknown => "not_comparable",
    }
}
