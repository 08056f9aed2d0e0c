//! `data/adapters.json`: the cost of our adapters, as `cargo xtask bench-adapters --write` measured
//! it. The methodology page prints it.

use serde::{Deserialize, Serialize};

/// The cost of adapters on one machine with one model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdapterCosts {
    /// Description of the processor, where known.
    pub cpu_model: Option<String>,
    /// Id of the model.
    pub model: String,
    /// Rows, one for every engine and kind of work.
    pub rows: Vec<AdapterCost>,
}

/// A comparison of one engine through our adapter and driven directly, at one kind of work.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdapterCost {
    /// Day of the measurement, `2026-11-25`.
    pub measured: String,
    /// Revision of the repository, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// Engine id.
    pub engine: String,
    /// The engine's version, as the adapter reports it.
    pub version: String,
    /// Target whose adapter was timed.
    pub target: String,
    /// Kind of work that was timed.
    pub work: Work,
    /// Prompt length (tokens).
    pub prompt_tokens: u32,
    /// Output length (tokens).
    pub new_tokens: u32,
    /// Number of interleaved pairs of processes.
    pub pairs: u32,
    /// Geometric mean over pairs of adapter ÷ direct, in tokens per second.
    pub ratio: f64,
    /// 95 % interval of the ratio; absent with one pair.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ci95: Option<(f64, f64)>,
    /// Median through our adapter (tokens per second: of the prompt in prefill, else of the
    /// output).
    pub adapter_tok_per_s: f64,
    /// Median when driven directly (tokens per second).
    pub direct_tok_per_s: f64,
    /// Name and version of the engine's own benchmark that drove it; absent where a program of ours
    /// did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Reason why the two gave different tokens; empty where all were equal.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub other_tokens: String,
}

/// A kind of work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// Reading a prompt and producing one token.
    #[default]
    Prefill,
    /// Producing tokens after a short prompt.
    Decode,
}

impl Work {
    /// The name in the file.
    pub fn name(self) -> &'static str {
        match self {
            Work::Prefill => "prefill",
            Work::Decode => "decode",
        }
    }
}

impl AdapterCosts {
    /// Keep the rows of `before` for engines that have no row here, if model and processor are the
    /// same.
    pub fn keep(&mut self, before: Self) {
        if (&self.model, &self.cpu_model) != (&before.model, &before.cpu_model) {
            return;
        }
        let is_new = |engine: &String| self.rows.iter().any(|row| row.engine == *engine);
        let kept = before.rows.into_iter().filter(|row| !is_new(&row.engine));
        let kept: Vec<AdapterCost> = kept.collect();
        self.rows.extend(kept);
        self.rows.sort_by(|a, b| a.engine.cmp(&b.engine));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn costs(model: &str, rows: &[(&str, f64)]) -> AdapterCosts {
        let row = |&(engine, ratio): &(&str, f64)| AdapterCost {
            engine: engine.into(),
            ratio,
            ..AdapterCost::default()
        };
        AdapterCosts {
            cpu_model: Some("A processor".into()),
            model: model.into(),
            rows: rows.iter().map(row).collect(),
        }
    }

    #[test]
    fn engines_that_were_not_measured_again_keep_their_rows() {
        let before = costs("m", &[("a", 1.0), ("b", 1.0), ("b", 0.9)]);
        let mut now = costs("m", &[("b", 0.5)]);
        now.keep(before.clone());
        assert_eq!(now, costs("m", &[("a", 1.0), ("b", 0.5)]));
        let mut of_another_model = costs("n", &[("b", 0.5)]);
        of_another_model.keep(before);
        assert_eq!(of_another_model, costs("n", &[("b", 0.5)]));
    }
}
