//! What the instrument says it really emitted, found again by prompt.

use anyhow::{Context, Result};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

/// One line of its file: a batch.
#[derive(Debug, Deserialize)]
struct Batch {
    prompt_ids: Vec<Vec<u32>>,
    token_ns: Vec<u64>,
}

/// When each request's tokens were emitted.
#[derive(Debug)]
pub struct Truth {
    batches: Vec<Vec<u64>>,
    by_prompt: BTreeMap<Vec<u32>, usize>,
}

impl Truth {
    /// Read the file. Of equal prompts the last counts, so ask for distinct ones.
    pub fn load(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| {
            format!(
                "{} can't be read: the instrument wrote down nothing",
                path.display()
            )
        })?;
        Self::parse(&text).with_context(|| format!("{} is no record of batches", path.display()))
    }

    fn parse(text: &str) -> Result<Self> {
        let mut truth = Self {
            batches: Vec::new(),
            by_prompt: BTreeMap::new(),
        };
        for line in text.lines() {
            let batch: Batch = serde_json::from_str(line)?;
            let index = truth.batches.len();
            truth.batches.push(batch.token_ns);
            let prompts = batch.prompt_ids.into_iter().map(|ids| (ids, index));
            truth.by_prompt.extend(prompts);
        }
        Ok(truth)
    }

    /// When the tokens of the request with that prompt were emitted.
    pub fn token_ns(&self, prompt_ids: &[u32]) -> Option<&[u64]> {
        let index = self.by_prompt.get(prompt_ids)?;
        Some(&self.batches[*index])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_a_batch_share_its_times() {
        let text = r#"{"batch":1,"rows":2,"prompt_ids":[[1,2],[3,4]],"started_ns":5,"due_ns":[6],"token_ns":[7,8]}
{"batch":2,"rows":1,"prompt_ids":[[5,6]],"started_ns":9,"due_ns":[9],"token_ns":[10]}
"#;
        let truth = Truth::parse(text).unwrap();
        assert_eq!(truth.token_ns(&[3, 4]), Some(&[7, 8][..]));
        assert_eq!(truth.token_ns(&[5, 6]), Some(&[10][..]));
        assert_eq!(truth.token_ns(&[1]), None);
        assert!(Truth::parse("{}").is_err());
    }
}
