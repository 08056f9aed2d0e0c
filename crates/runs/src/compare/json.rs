//! A comparison for programs. The fields are stable: scripts depend on them.

use super::{Comparison, Subject};
use anyhow::Result;
use serde_json::{Value, json};
use stats::between::{Change, Verdict};

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
        "cells": comparison.changes.iter().map(cell).collect::<Vec<_>>(),
        "environment": comparison.environment,
        "summary": comparison.count(),
    });
    Ok(serde_json::to_string_pretty(&value)? + "\n")
}

fn cell(change: &Change) -> Value {
    let about = change.metric.map(|metric| metric.describe());
    json!({
        "target": change.target,
        "scenario": change.scenario,
        "case": change.case,
        "metric": about.map(|about| about.name),
        "unit": about.map(|about| about.unit),
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
        Verdict::Faster => "faster",
        Verdict::Slower => "slower",
        Verdict::NoDetectableDifference => "no_detectable_difference",
        Verdict::NotComparable => "not_comparable",
    }
}
