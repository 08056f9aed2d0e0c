//! The prompts of a case: cut and tokenised before the clock runs, the same for every target,
//! and found again by the number that a record has of them.

use super::launch::Context;
use super::load::{CasePrompts, PromptQueue};
use crate::prompts::Prompts;
use anyhow::Result;
use schema::plan::{Case, Plan, PlannedScenario};

/// Timed prompts prepared per second of a case that runs for a duration: more
/// requests than that and the case ends early, with its floor of samples met.
pub const PROMPTS_PER_S: f64 = 2000.0;
/// Untimed prompts prepared per case.
const UNTIMED_PROMPTS: usize = 64;
/// Prompt indices of one invocation: none is shared with another.
const PROMPTS_PER_INVOCATION: u64 = 1_000_000;
/// Untimed prompts are numbered from here within an invocation.
const UNTIMED_FROM: u64 = 900_000;

/// Those of one invocation.
pub(super) fn case_prompts(
    context: &Context,
    scenario: &PlannedScenario,
    case: &Case,
    invocation: u32,
) -> Result<CasePrompts> {
    let cell = CellPrompts::new(context.plan, context.prompts, scenario, case)?;
    let untimed = context.prompts.take_alike(
        &scenario.id,
        &case.id,
        1 + u64::from(invocation),
        lengths(case),
        UNTIMED_PROMPTS,
    )?;
    let first = u64::from(invocation) * PROMPTS_PER_INVOCATION;
    let timed = cell.of_invocation(invocation).to_vec();
    Ok(CasePrompts {
        untimed: PromptQueue::new(first + UNTIMED_FROM, untimed),
        timed: PromptQueue::new(first, timed),
    })
}

/// How long the prompts of a case are, and how much of it all of them begin with.
fn lengths(case: &Case) -> (usize, usize) {
    (case.prompt_tokens as usize, case.shared_tokens() as usize)
}

/// The timed prompts of a case over all invocations, all distinct: the same for
/// every target, and the same whenever they are cut again.
pub struct CellPrompts {
    per_invocation: usize,
    all: Vec<Vec<u32>>,
}

impl CellPrompts {
    /// Cut them.
    pub fn new(
        plan: &Plan,
        prompts: &Prompts,
        scenario: &PlannedScenario,
        case: &Case,
    ) -> Result<Self> {
        let count = case.requests as usize + (case.duration_s * PROMPTS_PER_S).ceil() as usize;
        let per_invocation = count.next_multiple_of(case.concurrency as usize);
        let total = per_invocation * plan.invocations as usize;
        let all = prompts.take_alike(&scenario.id, &case.id, 0, lengths(case), total)?;
        Ok(Self {
            per_invocation,
            all,
        })
    }

    fn of_invocation(&self, invocation: u32) -> &[Vec<u32>] {
        let first = self.per_invocation * invocation as usize;
        &self.all[first..first + self.per_invocation]
    }

    /// The prompt of a record's `prompt` index.
    pub fn get(&self, index: u64) -> Option<&[u32]> {
        let (invocation, offset) = (
            index / PROMPTS_PER_INVOCATION,
            (index % PROMPTS_PER_INVOCATION) as usize,
        );
        let position = self.per_invocation * invocation as usize + offset;
        (offset < self.per_invocation)
            .then(|| self.all.get(position).map(Vec::as_slice))
            .flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::super::pending::tests::plan;
    use super::*;
    use crate::prompts::tests::prompts;
    use schema::scenario::Axis;

    /// Cut again for the reference's judgement, they are what was sent.
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
        assert!(
            first
                .iter()
                .chain(second)
                .all(|ids| ids[..36] == *beginning)
        );
        assert!(!second.contains(&first[0]));
        let again = CellPrompts::new(&plan, &prompts, &scenario, &case).unwrap();
        assert_eq!(again.get(PROMPTS_PER_INVOCATION + 2), Some(&*second[2]));
    }
}
