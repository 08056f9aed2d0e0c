//! A small plan for the tests of this crate and of those that depend on it.

use schema::plan::{Case, Launch, Plan, PlannedScenario};
use schema::registry::Target;
use schema::scenario::{Axis, LoadShape};

/// A plan with one target, a serial scenario with two cases, and two blocks.
pub fn plan() -> Plan {
    let case = |id: &str, prompt_tokens| Case {
        id: id.into(),
        prompt_tokens,
        new_tokens: 16,
        concurrency: 1,
        requests: 20,
        ..Case::default()
    };
    let launch = |invocation| Launch {
        invocation,
        target: "t".into(),
        scenario: "s".into(),
        cases: vec!["p10".into(), "p500".into()],
    };
    Plan {
        profile: "x".into(),
        model: "m".into(),
        seed: 1,
        threads: 1,
        invocations: 2,
        warmup_requests: 1,
        request_timeout_s: 1,
        load_timeout_s: 1,
        matters_percent: 2.0,
        scenarios: vec![PlannedScenario {
            id: "s".into(),
            version: 1,
            load: LoadShape::Serial,
            axis: Axis::PromptTokens,
            cases: vec![case("p10", 10), case("p500", 500)],
            ..PlannedScenario::default()
        }],
        launches: vec![launch(0), launch(1)],
        ..Plan::default()
    }
}

/// The target of an engine of that name, in f32 on a processor.
pub fn target(id: &str) -> Target {
    Target {
        id: id.into(),
        engine: id.into(),
        backend: "cpu".into(),
        precision: "f32".into(),
        weights: "w".into(),
        ..Target::default()
    }
}
