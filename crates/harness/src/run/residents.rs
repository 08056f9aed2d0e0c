//! Processes that stay in memory between the launches of a block: a target is started once for all
//! scenarios that don't need a fresh process. Between two launches its process is stopped
//! (SIGSTOP), so it takes no CPU time from the engine that is measured. A process on a GPU stays
//! only as long as no other process uses the GPU.

use super::pending::Pending;
use super::{scenario, target_of};
use crate::engine::session::Session;
use crate::gpu;
use schema::plan::Plan;

/// The processes that stay, by target's id or twin's name, least recently used first.
#[derive(Default)]
pub(super) struct Residents {
    block: u32,
    idle: Vec<(String, Session)>,
}

impl Residents {
    /// Begin or continue a block: end the processes of any other block.
    pub(super) fn enter(&mut self, block: u32) {
        if self.block != block {
            self.leave();
            self.block = block;
        }
    }

    /// End all processes, because the next one may need the GPU memory that they hold.
    pub(super) fn leave(&mut self) {
        self.idle.drain(..).for_each(|(_, session)| end(session));
    }

    /// Take the process of `name`, if it stayed.
    pub(super) fn take(&mut self, name: &str) -> Option<Session> {
        let at = self.idle.iter().position(|(of, _)| of == name)?;
        Some(self.idle.remove(at).1)
    }

    /// Stop a process and let it stay.
    pub(super) fn keep(&mut self, name: &str, session: Session) {
        session.process.pause();
        self.idle.push((name.to_owned(), session));
    }

    /// End the least recently used process, to make room; returns whether there was one.
    pub(super) fn make_room(&mut self) -> bool {
        if self.idle.is_empty() {
            return false;
        }
        end(self.idle.remove(0).1);
        true
    }

    pub(super) fn pids(&self) -> impl Iterator<Item = u32> {
        self.idle.iter().map(|(_, session)| session.process.pid())
    }
}

impl Drop for Residents {
    fn drop(&mut self) {
        self.leave();
    }
}

/// End a process that has served its launches; how it ends is no result of theirs.
fn end(session: Session) {
    session.process.abort();
}

/// Sort launches into the order in which they are made: those that share a process on a GPU come
/// last in their block, grouped by target in the order of each target's first, so that each process
/// has the GPU to itself until it ends.
pub(super) fn in_order(plan: &Plan, launches: Vec<Pending>) -> Vec<Pending> {
    let shares_gpu = |item: &Pending| {
        plan.shares_process(scenario(plan, &item.launch.scenario))
            && gpu::is_used_by(&target_of(plan, &item.launch).backend)
    };
    let mut all = Vec::with_capacity(launches.len());
    for block in launches.chunk_by(|a, b| a.launch.invocation == b.launch.invocation) {
        let (mut shared, others): (Vec<&Pending>, Vec<&Pending>) =
            block.iter().partition(|item| shares_gpu(item));
        let first: Vec<&str> = shared.iter().map(|item| &*item.launch.target).collect();
        shared.sort_by_key(|item| first.iter().position(|name| *name == item.launch.target));
        all.extend(others.into_iter().chain(shared).cloned());
    }
    all
}

/// Whether the process of `item` has another launch to serve in its block, among the launches
/// `later`, which are those after it.
pub(super) fn is_needed_again<'a>(
    plan: &Plan,
    item: &Pending,
    later: impl IntoIterator<Item = &'a Pending>,
) -> bool {
    let mut later = later.into_iter();
    plan.shares_process(scenario(plan, &item.launch.scenario))
        && later.any(|other| {
            (other.launch.invocation, &other.launch.target)
                == (item.launch.invocation, &item.launch.target)
                && plan.shares_process(scenario(plan, &other.launch.scenario))
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fixtures::plan;
    use schema::plan::Launch;
    use schema::registry::Target;
    use schema::scenario::LoadShape;

    fn target(backend: &str) -> Target {
        Target {
            backend: backend.into(),
            ..fixtures::target("t")
        }
    }

    /// A plan with a second scenario of eight users and longer prompts, and a third of batches.
    fn shared() -> Plan {
        let mut plan = plan();
        plan.one_process = true;
        let like = |plan: &Plan, id: &str, load| {
            let mut scenario = plan.scenarios[0].clone();
            scenario.id = id.into();
            scenario.load = load;
            scenario.cases[0].concurrency = 8;
            scenario
        };
        let users = like(&plan, "users", LoadShape::ClosedLoop);
        let memory = like(&plan, "memory", LoadShape::Batch);
        plan.scenarios.extend([users, memory]);
        plan
    }

    #[test]
    fn a_shared_process_is_loaded_for_every_scenario_that_shares_it() {
        let mut plan = shared();
        let users = |plan: &Plan, scenario: usize, backend| -> Vec<u32> {
            let scenario = &plan.scenarios[scenario];
            let own = vec![&scenario.cases[0]];
            let cases = plan.loaded_for(scenario, own, &target(backend).id, 1024);
            cases.into_iter().map(|case| case.concurrency).collect()
        };
        assert_eq!(users(&plan, 0, "cpu"), [1, 1, 8, 1]);
        assert_eq!(users(&plan, 2, "cpu"), [8], "a batch has its own");
        let short = &plan.scenarios[1];
        let own = vec![&short.cases[0]];
        let served = plan.loaded_for(short, own, &target("cpu").id, 100);
        let longest = served.iter().map(|case| case.prompt_tokens).max();
        assert_eq!(longest, Some(10), "the longer ones are not verified");
        plan.one_process = false;
        assert_eq!(users(&plan, 0, "cpu"), [1]);
    }

    #[test]
    fn a_process_that_keeps_prompts_serves_its_own_scenario_alone() {
        let mut plan = shared();
        let mut keeps = plan.scenarios[0].clone();
        keeps.id = "prefix".into();
        keeps.axis = schema::scenario::Axis::SharedPercent;
        plan.scenarios.push(keeps);
        let keeps = plan.scenarios.last().unwrap();
        assert!(!plan.shares_process(keeps));
        let own = vec![&keeps.cases[0]];
        let served = plan.loaded_for(keeps, own, &target("cpu").id, 1024);
        assert_eq!(served.len(), 1);
        let single = &plan.scenarios[0];
        let served = plan.loaded_for(single, vec![], &target("cpu").id, 1024);
        assert_eq!(served.len(), 4, "and the others do without it");
    }

    fn item(invocation: u32, target: &str, scenario: &str) -> Pending {
        Pending {
            launch: Launch {
                invocation,
                target: target.into(),
                scenario: scenario.into(),
                cases: vec!["p10".into()],
            },
            attempt: 0,
        }
    }

    #[test]
    fn on_a_gpu_a_process_has_all_of_its_launches_before_another_begins() {
        let mut plan = shared();
        let on_gpu = |id: &str| Target {
            id: id.into(),
            ..target("cuda")
        };
        plan.targets = vec![target("cpu"), on_gpu("a"), on_gpu("b")];
        let launches = [
            (0, "b", "s"),
            (0, "t", "s"),
            (0, "a", "s"),
            (0, "a", "memory"),
            (0, "a", "users"),
            (0, "a@twin", "users"),
            (0, "t", "users"),
            (0, "b", "users"),
            (1, "a", "users"),
        ];
        let of = |pending: &[Pending]| -> Vec<(u32, String, String)> {
            let launches = pending.iter().map(|item| item.launch.clone());
            launches
                .map(|l| (l.invocation, l.target, l.scenario))
                .collect()
        };
        let pending: Vec<Pending> = launches.map(|(block, t, s)| item(block, t, s)).into();
        let order = [1, 3, 6, 0, 7, 2, 4, 5, 8];
        let wanted: Vec<Pending> = order.map(|at: usize| pending[at].clone()).into();
        assert_eq!(of(&in_order(&plan, pending.clone())), of(&wanted));
        plan.one_process = false;
        assert_eq!(of(&in_order(&plan, pending.clone())), of(&pending));
    }

    #[test]
    fn a_process_stays_for_a_later_launch_of_its_block() {
        let plan = shared();
        let item = |invocation, scenario| item(invocation, "t", scenario);
        let needed = |later: &[Pending]| is_needed_again(&plan, &item(0, "s"), later);
        assert!(needed(&[item(0, "memory"), item(0, "users")]));
        assert!(!needed(&[item(0, "memory")]));
        assert!(!needed(&[item(1, "users")]));
    }
}
