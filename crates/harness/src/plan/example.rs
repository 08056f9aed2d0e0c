//! A small plan for the tests of this crate and of those that depend on it.

use schema::plan::{Case, Launch, Plan, PlannedScenario};
use schema::scenario::{Axis, LoadShape};

/// A plan with one target, a serial scenario with two cases, and two blocks.
pub fn plan() -> Plan {
    let case = |id: &str, prompt_tokens| Case {
        id: id.into(),
        prompt_tokens,
        new_tokens: 16,
        concurrency: 1,
        load_percent: None,
        shared_percent: None,
        requests: 20,
        duration_s: 0.0,
        measured_by: None,
        prompt_tokens_mean: None,
    };
    let launch = |invocation| Launch {
        invocation,
        target: "t".into(),
        scenario: "s".into(),
        cases: vec!["p10".into(), "p500".into()],
    };
    Plan {
        prompts: None,
        profile: "x".into(),
        publishable: false,
        model: "m".into(),
        seed: 1,
        threads: 1,
        invocations: 2,
        warmup_requests: 1,
        request_timeout_s: 1,
        load_timeout_s: 1,
        budget_s: 0.0,
        slo: None,
        aa_pairs: false,
        until: None,
        prompt_seed: None,
        one_process: false,
        matters_percent: 2.0,
        micro: Default::default(),
        targets: vec![],
        scenarios: vec![PlannedScenario {
            prompts: Default::default(),
            id: "s".into(),
            version: 1,
            load: LoadShape::Serial,
            axis: Axis::PromptTokens,
            targets: vec![],
            turns: false,
            cases: vec![case("p10", 10), case("p500", 500)],
        }],
        launches: vec![launch(0), launch(1)],
    }
}
