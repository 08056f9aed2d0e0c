//! Prepares the prompts of a case: cut and tokenised before the clock runs, the same for every
//! target, and found again by the index that a record has. The user's own prompts come from the
//! plan.

use super::load::{CasePrompts, PromptQueue};
use crate::own_prompts::in_order;
use crate::prompts::Prompts;
use anyhow::{Context as _, Result};
use schema::limits::PROMPTS_PER_S;
use schema::own_prompts::OwnPrompts;
use schema::plan::{Case, Plan, PlannedScenario};
use schema::scenario::PromptSource;

const UNTIMED_PROMPTS: usize = 64;
/// The range of prompt indices of one invocation; no index belongs to two invocations.
const PROMPTS_PER_INVOCATION: u64 = 1_000_000;
/// The first index of untimed prompts within an invocation; no case has as many timed ones.
const UNTIMED_FROM: u64 = schema::limits::REQUESTS as u64;

pub(super) fn case_prompts(
    plan: &Plan,
    prompts: &Prompts,
    scenario: &PlannedScenario,
    case: &Case,
    invocation: u32,
) -> Result<CasePrompts> {
    let cell = CellPrompts::new(plan, prompts, scenario, case)?;
    let untimed = match own(plan, scenario)? {
        Some(own) => {
            let stream = format!("{}/untimed/{invocation}", scenario.id);
            in_order(own, plan.seed, &stream, UNTIMED_PROMPTS)
        }
        None => prompts.take_alike(
            &scenario.case_key(case).to_string(),
            1 + u64::from(invocation),
            lengths(case),
            UNTIMED_PROMPTS,
        )?,
    };
    let first = u64::from(invocation) * PROMPTS_PER_INVOCATION;
    let timed = cell.of_invocation(invocation).to_vec();
    Ok(CasePrompts {
        untimed: PromptQueue::new(first + UNTIMED_FROM, untimed),
        timed: PromptQueue::new(first, timed),
    })
}

/// The length of a case's prompts, and the number of tokens that all of them begin with.
fn lengths(case: &Case) -> (usize, usize) {
    (case.prompt_tokens as usize, case.shared_tokens() as usize)
}

/// The user's own prompts, for a scenario that uses them; `None` where its prompts are generated.
fn own<'a>(plan: &'a Plan, scenario: &PlannedScenario) -> Result<Option<&'a OwnPrompts>> {
    if scenario.prompts == PromptSource::Generated {
        return Ok(None);
    }
    let own = plan.own_prompts(scenario).map(Some);
    own.with_context(|| format!("the plan has no prompts for {}", scenario.id))
}

/// The timed prompts of a case over all invocations: the same for every target, and the same
/// whenever they are cut again. All are distinct, except the user's own, which are repeated where a
/// case asks for more than there are, and are the same for every case of a scenario.
pub struct CellPrompts {
    per_invocation: usize,
    all: Vec<Vec<u32>>,
}

impl CellPrompts {
    /// Cut or order the prompts of a case.
    pub fn new(
        plan: &Plan,
        prompts: &Prompts,
        scenario: &PlannedScenario,
        case: &Case,
    ) -> Result<Self> {
        let own = own(plan, scenario)?;
        let per_invocation = match own {
            // Each invocation takes the next prompts of an endless sequence, one for each request.
            Some(_) => case.requests as usize,
            None => {
                let more = (case.duration_s * PROMPTS_PER_S).ceil() as usize;
                (case.requests as usize + more).next_multiple_of(case.concurrency as usize)
            }
        };
        let total = per_invocation * plan.invocations as usize;
        let all = match own {
            Some(own) => in_order(own, plan.seed, &scenario.id, total),
            None => {
                let purpose = scenario.case_key(case).to_string();
                prompts.take_alike(&purpose, 0, lengths(case), total)?
            }
        };
        Ok(Self {
            per_invocation,
            all,
        })
    }

    fn of_invocation(&self, invocation: u32) -> &[Vec<u32>] {
        let first = self.per_invocation * invocation as usize;
        &self.all[first..first + self.per_invocation]
    }

    /// The prompt with the index that a record's `prompt` has.
    pub fn get(&self, index: u64) -> Option<&[u32]> {
        let invocation = (index / PROMPTS_PER_INVOCATION) as usize;
        let offset = (index % PROMPTS_PER_INVOCATION) as usize;
        if offset >= self.per_invocation {
            return None;
        }
        let position = self.per_invocation * invocation + offset;
        self.all.get(position).map(Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prompts::tests::prompts;
    use fixtures::plan;
    use schema::scenario::Axis;
    use std::collections::BTreeMap;

    /// A plan with three prompts of the user's, used six times in each of two blocks.
    fn own_plan() -> Plan {
        let mut plan = plan();
        plan.prompts = Some(OwnPrompts {
            file: "mine.jsonl".into(),
            sha256: String::new(),
            tokens: vec![vec![1], vec![2, 2], vec![3, 3, 3]],
        });
        let scenario = &mut plan.scenarios[0];
        scenario.prompts = PromptSource::Own;
        for case in &mut scenario.cases {
            (case.requests, case.duration_s) = (6, 0.0);
            (case.prompt_tokens, case.prompt_tokens_mean) = (3, Some(2));
        }
        scenario.cases[1].concurrency = 4;
        plan
    }

    fn cell(plan: &Plan, case: usize) -> CellPrompts {
        let scenario = &plan.scenarios[0];
        let text = Prompts::of_tokens((0..400).collect());
        CellPrompts::new(plan, &text, scenario, &scenario.cases[case]).unwrap()
    }

    #[test]
    fn prompts_of_the_users_are_found_again_by_their_index() {
        let plan = own_plan();
        let (one, other) = (cell(&plan, 0), cell(&plan, 1));
        for invocation in 0..plan.invocations {
            let asked = one.of_invocation(invocation);
            assert_eq!(asked.len(), 6);
            assert_eq!(
                asked,
                other.of_invocation(invocation),
                "the same for each case"
            );
            let mut times: BTreeMap<&Vec<u32>, u32> = BTreeMap::new();
            for (offset, prompt) in asked.iter().enumerate() {
                let index = u64::from(invocation) * PROMPTS_PER_INVOCATION + offset as u64;
                assert_eq!(one.get(index), Some(prompt.as_slice()));
                *times.entry(prompt).or_default() += 1;
            }
            assert!(times.len() == 3 && times.values().all(|count| *count == 2));
        }
        assert_eq!(one.get(6), None, "nobody was asked that");
        assert_eq!(cell(&plan, 0).all, one.all, "whenever they are cut again");
    }

    #[test]
    fn a_plan_without_the_prompts_it_asks_is_an_error() {
        let mut plan = own_plan();
        plan.prompts = None;
        let (scenario, text) = (&plan.scenarios[0], Prompts::of_tokens(vec![0; 9]));
        let error = CellPrompts::new(&plan, &text, scenario, &scenario.cases[0]);
        assert!(error.is_err_and(|error| error.to_string().contains("has no prompts")));
    }

    /// The prompts that are cut again for the reference's judgement are those that were sent.
    #[test]
    fn prompts_of_all_invocations_begin_alike_and_are_found_again() {
        let prompts = prompts();
        let plan = plan();
        let mut scenario = plan.scenarios[0].clone();
        scenario.axis = Axis::SharedPercent;
        let case = Case {
            id: "s90".into(),
            prompt_tokens: 40,
            shared_percent: Some(90),
            requests: 5,
            ..scenario.cases[0].clone()
        };
        let cell = CellPrompts::new(&plan, &prompts, &scenario, &case).unwrap();
        let (first, second) = (cell.of_invocation(0), cell.of_invocation(1));
        assert_eq!((first.len(), second.len()), (5, 5));
        let beginning = &first[0][..36];
        let mut all = first.iter().chain(second);
        assert!(all.all(|ids| ids[..36] == *beginning));
        assert!(!second.contains(&first[0]));
        let again = CellPrompts::new(&plan, &prompts, &scenario, &case).unwrap();
        assert_eq!(again.get(PROMPTS_PER_INVOCATION + 2), Some(&*second[2]));
    }
}
