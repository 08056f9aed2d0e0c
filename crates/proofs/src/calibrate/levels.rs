//! Measures the harness's error under load: closed loops whose reported latencies are compared with
//! the true ones, and an open loop whose requests may be sent late.
//!
//! The instrument writes down when it emitted each token; its records are found by prompt.

use super::{Effort, Instrument};
use anyhow::{Context, Result, bail};
use harness::engine::load::load_request;
use harness::engine::session::{Session, Timeouts};
use harness::run::issue;
use harness::run::load::{CasePrompts, PromptQueue};
use harness::run::open_loop::Offered;
use schema::calibration::{Level, ScheduleLag};
use schema::plan::Case;
use schema::record::RequestRecord;
use schema::scenario::LoadShape;
use serde::Deserialize;
use stats::calibration::{latency_error, schedule_lag};
use stats::percentile::percentile;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// Rate of the open loop (requests per second).
const RATE_PER_S: f64 = 1000.0;
/// Length of every prompt (tokens).
const PROMPT_TOKENS: u32 = 4;
/// Prompts consist of ids below this; the instrument's vocabulary is larger.
const IDS: u32 = 256;

impl Instrument<'_> {
    /// Run a closed loop at `concurrency`, and compare reported times with those of emission.
    pub fn level(&self, concurrency: u32, effort: Effort) -> Result<Level> {
        let dir = tempfile::tempdir().context("there is no room for a temporary directory")?;
        let path = dir.path().join("truth.jsonl");
        let case = case(concurrency, effort.requests, effort.new_tokens);
        let timed = self.run(&path, LoadShape::ClosedLoop, &case, None)?;
        let truth = Truth::load(&path)?;
        let (mut ttft, mut itl, mut delivery) = (Vec::new(), Vec::new(), Vec::new());
        for request in &timed {
            let Some(emitted) = truth.token_ns(&prompt(request.prompt)) else {
                bail!("the instrument has no record of prompt {}", request.prompt)
            };
            if emitted.len() != request.token_ns.len() {
                bail!(
                    "the instrument says it emitted {} tokens, it reported {}",
                    emitted.len(),
                    request.token_ns.len()
                );
            }
            let from_due = |stamp: u64| difference_ns(request.scheduled_ns, stamp);
            ttft.push((from_due(request.token_ns[0]), from_due(emitted[0])));
            let gaps = |stamps: &[u64]| -> Vec<f64> {
                stamps
                    .windows(2)
                    .map(|two| difference_ns(two[0], two[1]))
                    .collect()
            };
            itl.extend(gaps(&request.token_ns).into_iter().zip(gaps(emitted)));
            delivery.push(from_due(request.received_ns));
        }
        let none = "the instrument answered nothing that could be compared";
        Ok(Level {
            concurrency,
            requests: timed.len() as u64,
            ttft: latency_error(&ttft).context(none)?,
            itl: latency_error(&itl).context(none)?,
            delivery_ns_p50: percentile(&delivery, 50.0).context(none)?,
            delivery_ns_p99: percentile(&delivery, 99.0).context(none)?,
        })
    }

    /// Run an open loop, and measure how late its requests are sent.
    pub fn schedule(&self, effort: Effort) -> Result<ScheduleLag> {
        let dir = tempfile::tempdir().context("there is no room for a temporary directory")?;
        let case = Case {
            load_percent: Some(100),
            ..case(100, effort.open_requests, effort.new_tokens)
        };
        let offered = Offered {
            rate_per_s: RATE_PER_S,
            seed: 1,
            name: "calibrate".into(),
        };
        let path = dir.path().join("truth.jsonl");
        let timed = self.run(&path, LoadShape::Poisson, &case, Some(offered))?;
        let lag = |r: &RequestRecord| difference_ns(r.scheduled_ns, r.sent_ns);
        let lags: Vec<f64> = timed.iter().map(lag).collect();
        schedule_lag(RATE_PER_S, &lags).context("the instrument answered nothing")
    }

    fn run(
        &self,
        truth: &Path,
        shape: LoadShape,
        case: &Case,
        offered: Option<Offered>,
    ) -> Result<Vec<RequestRecord>> {
        let mut env = self.program.env.clone();
        env.extend(self.known.env.clone());
        env.push((self.known.truth.clone(), truth.display().to_string()));
        let program = self.program.clone().with_env(env);
        let load = load_request(
            &self.target,
            truth.parent().unwrap_or(truth),
            1,
            case.prompt_tokens + case.new_tokens,
            case.concurrency,
        );
        let timeouts = Timeouts::outside_a_run(Duration::from_secs(30), Duration::from_secs(30));
        let mut session = Session::open(&program, &load, &timeouts)?;
        let queue = |first: u64, count: u64| {
            PromptQueue::new(first, (first..first + count).map(prompt).collect())
        };
        let timed_count = u64::from(case.requests.next_multiple_of(case.concurrency));
        let prompts = CasePrompts {
            timed: queue(0, timed_count),
            untimed: queue(timed_count, 64),
        };
        let timed = issue::timed(&mut session, shape, case, 10, offered, prompts)?;
        // The instrument writes the last batch's times before it ends.
        session.close()?;
        Ok(timed)
    }
}

fn difference_ns(from_ns: u64, to_ns: u64) -> f64 {
    to_ns as f64 - from_ns as f64
}

fn case(concurrency: u32, requests: u32, new_tokens: u32) -> Case {
    Case {
        id: "calibrate".into(),
        prompt_tokens: PROMPT_TOKENS,
        new_tokens,
        concurrency,
        requests,
        ..Case::default()
    }
}

/// Return a prompt that is different for every index, so that it can be found again: the index in
/// base [`IDS`].
fn prompt(index: u64) -> Vec<u32> {
    let digit = |place| (index / u64::from(IDS).pow(place) % u64::from(IDS)) as u32;
    (0..PROMPT_TOKENS).map(digit).collect()
}

/// One line of the instrument's file, which is one batch.
#[derive(Debug, Deserialize)]
struct Batch {
    prompt_ids: Vec<Vec<u32>>,
    token_ns: Vec<u64>,
}

/// The times at which the instrument emitted each request's tokens, by its prompt.
#[derive(Debug)]
pub struct Truth(BTreeMap<Vec<u32>, Vec<u64>>);

impl Truth {
    /// Read the instrument's file. Of equal prompts only the last is kept, so prompts must differ.
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
        let mut truth = BTreeMap::new();
        for line in text.lines() {
            let batch: Batch = serde_json::from_str(line)?;
            let prompts = batch.prompt_ids.into_iter();
            truth.extend(prompts.map(|ids| (ids, batch.token_ns.clone())));
        }
        Ok(Self(truth))
    }

    /// Return when each token of the request with that prompt was emitted (ns).
    pub fn token_ns(&self, prompt_ids: &[u32]) -> Option<&[u64]> {
        self.0.get(prompt_ids).map(Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_are_distinct_and_in_the_vocabulary() {
        let all: std::collections::BTreeSet<Vec<u32>> = (0..2000).map(prompt).collect();
        assert_eq!(all.len(), 2000);
        assert!(all.iter().flatten().all(|&id| id < IDS));
    }

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
