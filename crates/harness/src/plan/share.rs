//! Cases of different scenarios that offer the same load are measured once. For example, a closed
//! loop of one user is the same load as one request at a time. Pure.
//!
//! The other cases use the records of the one that is measured, which has as many requests and
//! lasts as long as any of them asks for. Each scenario still computes its own metrics from these
//! records.

use schema::plan::{Case, PlannedScenario};
use schema::scenario::{LoadShape, PromptSource};
use std::cmp::Reverse;

/// Mark every case whose load another scenario measures, and give the measuring case the most
/// requests and the longest duration that any of them asks for.
pub(super) fn share(scenarios: &mut [PlannedScenario]) {
    let mut order: Vec<usize> = (0..scenarios.len()).collect();
    order.sort_by_key(|&index| precedence(&scenarios[index]));
    for (rank, &source) in order.iter().enumerate() {
        for &other in &order[rank + 1..] {
            for at in 0..scenarios[other].cases.len() {
                share_one(scenarios, source, other, at);
            }
        }
    }
}

/// A key that sorts scenarios: of several with an equal load, the first measures for all. Turns
/// come first, then one request at a time, then the shorter work.
fn precedence(scenario: &PlannedScenario) -> (Reverse<bool>, bool, u64) {
    let tokens =
        |case: &Case| u64::from(case.prompt_tokens + case.new_tokens) * u64::from(case.concurrency);
    (
        Reverse(scenario.turns),
        scenario.load != LoadShape::Serial,
        scenario.cases.iter().map(tokens).sum(),
    )
}

fn share_one(scenarios: &mut [PlannedScenario], source: usize, other: usize, at: usize) {
    let case = &scenarios[other].cases[at];
    let (measuring, asked) = (&scenarios[source], &scenarios[other].targets);
    let measures_all = match asked.is_empty() {
        // A list that is empty means all targets.
        true => measuring.targets.is_empty(),
        false => asked.iter().all(|target| measuring.runs(target)),
    };
    if case.measured_by.is_some() || !measures_all {
        return;
    }
    let Some(load) = load(&scenarios[other], case) else {
        return;
    };
    let same =
        |of: &PlannedScenario, c: &Case| c.measured_by.is_none() && self::load(of, c) == Some(load);
    let from = &scenarios[source];
    let Some(found) = from.cases.iter().position(|c| same(from, c)) else {
        return;
    };
    let (requests, duration_s) = (case.requests, case.duration_s);
    let by = from.case_key(&from.cases[found]);
    let measured = &mut scenarios[source].cases[found];
    measured.requests = measured.requests.max(requests);
    measured.duration_s = measured.duration_s.max(duration_s);
    scenarios[other].cases[at].measured_by = Some(by);
}

/// Users, prompt and output length of a closed loop; `None` for other loads, which are not shared:
/// a batch starts together in a fresh process, an open loop has its own arrivals, own prompts have
/// several lengths, and with a prefix cache even prompts that share nothing are another load.
fn load(scenario: &PlannedScenario, case: &Case) -> Option<(u32, u32, u32)> {
    if scenario.prompts == PromptSource::Own || scenario.reuses_prompts() {
        return None;
    }
    let users = match scenario.load {
        LoadShape::Serial => 1,
        LoadShape::ClosedLoop => case.concurrency,
        LoadShape::Batch | LoadShape::Poisson | LoadShape::ConstantRate => return None,
    };
    Some((users, case.prompt_tokens, case.new_tokens))
}

#[cfg(test)]
mod tests {
    use super::*;
    use schema::scenario::Axis;

    fn scenario(id: &str, load: LoadShape, cases: &[(u32, u32, u32, f64)]) -> PlannedScenario {
        let axis = match load {
            LoadShape::Serial => Axis::PromptTokens,
            LoadShape::Batch => Axis::Batch,
            _ => Axis::Users,
        };
        let case = |&(prompt_tokens, concurrency, requests, duration_s): &(u32, u32, u32, f64)| {
            let mut case = Case {
                prompt_tokens,
                new_tokens: 16,
                concurrency,
                requests,
                duration_s,
                ..Case::default()
            };
            case.id = format!("{}{}", axis.letter(), case.axis_value(axis));
            case
        };
        PlannedScenario {
            id: id.into(),
            load,
            axis,
            turns: id == "single",
            cases: cases.iter().map(case).collect(),
            ..PlannedScenario::default()
        }
    }

    fn sharing(scenarios: &[PlannedScenario]) -> Vec<String> {
        let of = |s: &PlannedScenario| -> Vec<String> {
            let by = s
                .cases
                .iter()
                .filter_map(|c| Some((c, c.measured_by.as_ref()?)));
            by.map(|(c, by)| format!("{}/{} by {}/{}", s.id, c.id, by.scenario, by.case))
                .collect()
        };
        scenarios.iter().flat_map(of).collect()
    }

    #[test]
    fn a_scenario_of_fewer_targets_is_served_and_one_of_more_is_not() {
        let of = |single: &[&str], long: &[&str]| {
            let mut all = vec![
                scenario("single", LoadShape::Serial, &[(50, 1, 20, 0.0)]),
                scenario("long", LoadShape::Serial, &[(50, 1, 20, 0.0)]),
            ];
            let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
            all[0].targets = owned(single);
            all[1].targets = owned(long);
            share(&mut all);
            sharing(&all)
        };
        assert_eq!(of(&["a", "b"], &["b"]), ["long/p50 by single/p50"]);
        assert_eq!(
            of(&[], &["b"]),
            ["long/p50 by single/p50"],
            "none named are all"
        );
        assert!(of(&["a"], &["a", "b"]).is_empty());
        assert!(of(&["a"], &[]).is_empty());
        assert!(of(&["b"], &["a"]).is_empty());
    }

    #[test]
    fn equal_loads_are_measured_once_and_as_long_as_the_longest_asks() {
        let mut all = vec![
            scenario(
                "concurrent",
                LoadShape::ClosedLoop,
                &[(50, 1, 20, 0.0), (50, 8, 20, 0.5)],
            ),
            scenario(
                "long",
                LoadShape::Serial,
                &[(50, 1, 30, 0.0), (512, 1, 20, 0.0)],
            ),
            scenario(
                "memory",
                LoadShape::Batch,
                &[(50, 1, 20, 0.0), (50, 8, 20, 0.0)],
            ),
            scenario(
                "single",
                LoadShape::Serial,
                &[(10, 1, 20, 0.0), (50, 1, 20, 1.0)],
            ),
            scenario(
                "sustained",
                LoadShape::ClosedLoop,
                &[(50, 8, 40, 2.0), (60, 8, 20, 0.0)],
            ),
        ];
        share(&mut all);
        assert_eq!(
            sharing(&all),
            [
                "concurrent/u1 by single/p50",
                "long/p50 by single/p50",
                "sustained/u8 by concurrent/u8",
            ]
        );
        let single = &all[3].cases[1];
        assert_eq!((single.requests, single.duration_s), (30, 1.0));
        let concurrent = &all[0].cases[1];
        assert_eq!((concurrent.requests, concurrent.duration_s), (40, 2.0));
        // A process has one peak of memory, so a batch shares with no other scenario.
        assert_eq!(all[2].measured_cases().count(), 2);
    }

    #[test]
    fn where_prompts_are_kept_nothing_is_shared_with_other_scenarios() {
        let mut all = vec![
            scenario("long", LoadShape::Serial, &[(50, 1, 20, 0.0)]),
            scenario("prefix", LoadShape::Serial, &[(50, 1, 20, 0.0)]),
        ];
        all[1].axis = Axis::SharedPercent;
        all[1].cases[0].shared_percent = Some(0);
        share(&mut all);
        assert!(sharing(&all).is_empty());
        all[1].axis = Axis::PromptTokens;
        share(&mut all);
        assert_eq!(sharing(&all).len(), 1, "or else they would be one load");
    }
}
