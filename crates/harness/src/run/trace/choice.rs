//! Chooses what is traced: which targets of a run, and which case. Pure.

use crate::run::refusal;
use schema::plan::{Case, Plan, PlannedScenario};
use schema::record::{Status, VerifyRecord};
use schema::registry::Target;
use schema::scenario::LoadShape;
use std::collections::BTreeMap;

const BACKEND: &str = "cuda";
/// Number of requests that are analysed.
const REQUESTS: u32 = 3;
/// The maximum number of output tokens of a request. Every decode step runs the same kernels, and a
/// line per kernel adds up.
const NEW_TOKENS_MAX: u32 = 32;

/// The verified CUDA targets of a plan, of the engines named (or all), or why there are none.
pub fn targets<'a>(
    plan: &'a Plan,
    verify: &BTreeMap<String, VerifyRecord>,
    engines: &[String],
) -> Result<Vec<&'a Target>, String> {
    let named = |t: &Target| engines.contains(&t.id) || engines.contains(&t.engine);
    let wanted = |t: &&Target| t.backend == BACKEND && (engines.is_empty() || named(t));
    let all: Vec<&Target> = plan.targets.iter().filter(wanted).collect();
    if all.is_empty() {
        return Err(match engines {
            [] => "no target of this run is on CUDA".into(),
            names => format!(
                "no target of this run is on CUDA and of {}",
                names.join(", ")
            ),
        });
    }
    let verified = |target: &&Target| {
        let record = verify.get(&target.id);
        record.is_some_and(|record| record.status == Status::Ok)
    };
    let verified: Vec<&Target> = all.into_iter().filter(verified).collect();
    match verified.is_empty() {
        true => Err("no target on CUDA has passed the parity gate".into()),
        false => Ok(verified),
    }
}

/// The case that a target runs while it is traced: from the scenario with one request at a time and
/// the shortest prompts, the longest case that the target is verified for.
pub fn case<'a>(
    plan: &'a Plan,
    verify: &BTreeMap<String, VerifyRecord>,
    target: &str,
) -> Result<(&'a PlannedScenario, Case), String> {
    let longest = |scenario: &&PlannedScenario| {
        let prompts = scenario.cases.iter().map(|case| case.prompt_tokens);
        prompts.max().unwrap_or(0)
    };
    let is_serial = |s: &&PlannedScenario| s.load == LoadShape::Serial && !s.reuses_prompts();
    let serial = plan.scenarios.iter().filter(is_serial);
    let scenario = serial
        .min_by_key(longest)
        .ok_or("this run plans no scenario with one request at a time")?;
    let mut refused = String::new();
    let mut usable = Vec::new();
    for case in &scenario.cases {
        match refusal(verify, target, case) {
            Some(why) => refused = why,
            None => usable.push(case),
        }
    }
    let chosen = usable.into_iter().max_by_key(|case| case.prompt_tokens);
    let mut case = chosen.ok_or(refused)?.clone();
    case.new_tokens = case.new_tokens.min(NEW_TOKENS_MAX);
    case.requests = REQUESTS;
    case.duration_s = 0.0;
    Ok((scenario, case))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(targets: &[&str]) -> Plan {
        let case = |&prompt_tokens: &u32| Case {
            id: format!("p{prompt_tokens}"),
            prompt_tokens,
            new_tokens: 128,
            duration_s: 5.0,
            ..fixtures::case(20)
        };
        let scenario = |id: &str, load, prompts: &[u32]| PlannedScenario {
            id: id.into(),
            load,
            cases: prompts.iter().map(case).collect(),
            ..PlannedScenario::default()
        };
        Plan {
            targets: targets.iter().map(|id| fixtures::target(id)).collect(),
            scenarios: vec![
                scenario("busy", LoadShape::ClosedLoop, &[8]),
                scenario("long", LoadShape::Serial, &[1024, 8192]),
                scenario("short", LoadShape::Serial, &[10, 200, 50]),
            ],
            ..Plan::default()
        }
    }

    /// The record of a target that is verified up to `positions`, or failed the gate.
    fn verified(id: &str, positions: Option<u32>) -> (String, VerifyRecord) {
        let record = VerifyRecord {
            status: positions.map_or(Status::WrongOutput, |_| Status::Ok),
            reason: "other words".into(),
            verified_positions: positions,
            ..fixtures::verified(id)
        };
        (id.into(), record)
    }

    #[test]
    fn verified_cuda_targets_are_traced_and_no_others() {
        let plan = plan(&["a.cpu.f32", "a.cuda.f16", "b.cuda.f16", "b.cuda.q8_0"]);
        let verify = BTreeMap::from([
            verified("a.cpu.f32", Some(512)),
            verified("a.cuda.f16", Some(512)),
            verified("b.cuda.f16", None),
            verified("b.cuda.q8_0", Some(512)),
        ]);
        let ids = |engines: &[&str]| -> Result<Vec<&str>, String> {
            let engines: Vec<String> = engines.iter().map(|e| (*e).to_owned()).collect();
            let found = targets(&plan, &verify, &engines)?;
            Ok(found.into_iter().map(|t| t.id.as_str()).collect())
        };
        assert_eq!(ids(&[]).unwrap(), ["a.cuda.f16", "b.cuda.q8_0"]);
        assert_eq!(ids(&["a"]).unwrap(), ["a.cuda.f16"]);
        assert_eq!(ids(&["b.cuda.q8_0"]).unwrap(), ["b.cuda.q8_0"]);
        assert!(ids(&["b.cuda.f16"]).unwrap_err().contains("parity gate"));
        assert!(ids(&["c"]).unwrap_err().contains("of c"));
        let cpu = self::plan(&["a.cpu.f32"]);
        let none = targets(&cpu, &verify, &[]).unwrap_err();
        assert_eq!(none, "no target of this run is on CUDA");
    }

    #[test]
    fn the_case_is_short_alone_and_within_what_is_verified() {
        let plan = plan(&["a.cuda.f16"]);
        let verify = |positions| BTreeMap::from([verified("a.cuda.f16", positions)]);
        let (scenario, chosen) = case(&plan, &verify(Some(512)), "a.cuda.f16").unwrap();
        let ids = (scenario.id.as_str(), chosen.id.as_str());
        assert_eq!(ids, ("short", "p200"));
        assert_eq!((chosen.new_tokens, chosen.requests), (32, 3));
        assert_eq!(chosen.duration_s, 0.0);
        let (_, chosen) = case(&plan, &verify(Some(180)), "a.cuda.f16").unwrap();
        assert_eq!(chosen.id, "p50");
        let why = case(&plan, &verify(Some(5)), "a.cuda.f16").unwrap_err();
        assert!(why.contains("5 are verified"), "{why}");
    }
}
