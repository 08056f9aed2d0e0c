//! Makes launches that take turns: the processes of several targets are in memory together, and
//! each answers a few requests and is stopped (SIGSTOP) until its turn comes again. Where a case has
//! several users, a turn is a closed loop of its own, and the process is stopped when nothing is in
//! flight.
//!
//! Where targets run one after the other, a disturbance of the machine (another guest of the
//! hypervisor, a clock that changes) affects one of them, and may last as long as a case. In turns
//! each is measured at many moments of the same minute, and a lasting disturbance affects all.
//! (Interleaving trials: Abedi, Brecht: Conducting Repeatable Experiments in Highly Variable Cloud
//! Computing Environments, ICPE 2017.)
//!
//! A stopped process takes no CPU time, so threads that spin while they wait disturb no other.
//! While it is stopped, its threads fall asleep and other processes fill the caches. So each turn
//! begins with untimed requests: at least one of each user, until `WAKE_NS` have passed.

use super::launch::{Running, recording_sink};
use super::load::{CaseError, CasePrompts, Progress, Sink, Window};
use super::serial::Serial;
use super::told;
use super::windows::Windows;
use crate::engine::session::Session;
use anyhow::Result;
use base::random::{self, SplitMix64};
use schema::plan::{Case, Launch, Plan};
use tracing::Span;

/// Make the launches of one round, which are loaded and stopped. `Err` only where a record can't be
/// written.
pub(super) fn run(all: &mut [Running]) -> Result<()> {
    let Some(first) = all.first() else {
        return Ok(());
    };
    let (plan, launch) = (first.context.stage.plan, first.launch);
    let stream = format!("turns/{}/{}", launch.scenario, launch.invocation);
    let mut random = SplitMix64(plan.seed ^ random::hash(&stream));
    for id in case_order(plan, launch) {
        let mut players: Vec<Player> = all
            .iter_mut()
            .filter_map(|running| Player::new(running, id))
            .collect();
        random.shuffle(&mut players);
        take_turns(players, plan.warmup_requests, &mut random)?;
    }
    Ok(())
}

/// The cases of a round in the plan's order: a launch may have only some of them left.
fn case_order<'a>(plan: &'a Plan, launch: &Launch) -> &'a [String] {
    let is_of_round =
        |l: &&Launch| (l.invocation, &l.scenario) == (launch.invocation, &launch.scenario);
    let planned = plan.launches.iter().find(is_of_round);
    planned.map_or(&[], |planned| &planned.cases)
}

/// The load of a case that is interrupted after each turn, and how far it is done.
enum Load<'a> {
    One(Serial<'a>),
    Several(Windows<'a>),
}

impl<'a> Load<'a> {
    fn new(case: &'a Case, prompts: CasePrompts) -> Self {
        match case.concurrency {
            1 => Self::One(Serial::new(case, prompts)),
            _ => Self::Several(Windows::new(case, prompts)),
        }
    }

    /// Make untimed requests before any turn: at most `most` of one user, or one of each of several.
    fn warm_up(&mut self, session: &mut Session, most: u32, sink: Sink) -> Result<(), CaseError> {
        match self {
            Self::One(serial) => serial.warm_up(session, most, sink),
            Self::Several(windows) => windows.warm_up(session, sink),
        }
    }

    fn turn(&mut self, session: &mut Session, sink: Sink) -> Result<(), CaseError> {
        match self {
            Self::One(serial) => serial.turn(session, sink),
            Self::Several(windows) => windows.turn(session, sink),
        }
    }

    fn is_done(&self) -> bool {
        match self {
            Self::One(serial) => serial.is_done(),
            Self::Several(windows) => windows.is_done(),
        }
    }

    fn progress(&self) -> &Progress<'a> {
        match self {
            Self::One(serial) => &serial.progress,
            Self::Several(windows) => &windows.progress,
        }
    }
}

/// A launch while it takes turns in one of its cases.
struct Player<'r, 'a> {
    running: &'r mut Running<'a>,
    case: &'a Case,
    load: Load<'a>,
    turns: u32,
    span: Span,
}

impl<'r, 'a> Player<'r, 'a> {
    /// Begin the case `id`; `None` where the launch doesn't have that case, or has failed.
    fn new(running: &'r mut Running<'a>, id: &str) -> Option<Self> {
        let (case, prompts) = running.take_case(id)?;
        let span = running.span.in_scope(|| told::span(case));
        let (engine, _) = running.at_work()?;
        engine.begin_turns(case);
        Some(Self {
            running,
            case,
            load: Load::new(case, prompts),
            turns: 0,
            span,
        })
    }

    /// Make the untimed requests of the case, before any turn.
    fn warm_up(&mut self, requests: u32) -> Result<(), CaseError> {
        let _inside = self.span.clone().entered();
        told::turn(self.running.launch);
        told::case(self.case);
        let Some((engine, record)) = self.running.at_work() else {
            return Ok(());
        };
        let mut sink = recording_sink(record, &mut engine.audit);
        engine.session.process.resume();
        self.load
            .warm_up(&mut engine.session, requests, &mut sink)?;
        engine.session.process.pause();
        Ok(())
    }

    fn turn(&mut self) -> Result<(), CaseError> {
        let _inside = self.span.clone().entered();
        told::turn(self.running.launch);
        let canary = self.running.context.canary;
        let Some((engine, record)) = self.running.at_work() else {
            return Ok(());
        };
        engine.look_before_turn(canary);
        // Take the reading before the process is resumed, so that it delays no request.
        engine.sampler.begin_turn(self.turns);
        engine.audit.watch();
        self.turns += 1;
        let mut sink = recording_sink(record, &mut engine.audit);
        engine.session.process.resume();
        self.load.turn(&mut engine.session, &mut sink)?;
        drop(sink);
        engine.audit.pause();
        engine.sampler.end_turn();
        engine.session.process.pause();
        Ok(())
    }

    /// End the case for this launch. A failure of the engine ends the launch.
    fn over(self, result: Result<Window, CaseError>) -> Result<()> {
        let _inside = self.span.entered();
        let canary = self.running.context.canary;
        if result.is_ok()
            && let Some((engine, _)) = self.running.at_work()
        {
            engine.look_after_turns(canary);
        }
        match self.running.case_over(self.case, result) {
            Ok(()) => Ok(()),
            Err(CaseError::Engine(failure)) => {
                if failure.was_skipped() {
                    self.running.context.stage.control.skippable(); // for the other launches
                }
                self.running.fail(failure);
                self.running.finish().map(drop)
            }
            Err(CaseError::Record(error)) => Err(error),
        }
    }
}

/// Give turns until all players are done or have failed. The next turn always goes to the player
/// with the least progress, so that the turns of each are spread over the same time.
fn take_turns(mut players: Vec<Player>, warmup: u32, random: &mut SplitMix64) -> Result<()> {
    let mut at = 0;
    while at < players.len() {
        match players[at].warm_up(warmup) {
            Ok(()) => at += 1,
            Err(stop) => players.remove(at).over(Err(stop))?,
        }
    }
    while let Some(next) = least_far(players.iter().map(|p| p.load.progress().share()), random) {
        let result = players[next].turn();
        if result.is_err() || players[next].load.is_done() {
            let player = players.swap_remove(next);
            let window = result.map(|()| player.load.progress().window());
            player.over(window)?;
        }
    }
    Ok(())
}

/// The index of one of those with the least progress, drawn at random; `None` if there are none.
fn least_far(progress: impl Iterator<Item = f64>, random: &mut SplitMix64) -> Option<usize> {
    let progress: Vec<f64> = progress.collect();
    let least = progress.iter().copied().reduce(f64::min)?;
    let behind: Vec<usize> = (0..progress.len())
        .filter(|&index| progress[index] <= least)
        .collect();
    Some(behind[random.below(behind.len())])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_is_least_far_is_next_and_chance_decides_between_equals() {
        let mut random = SplitMix64(1);
        let mut next = |progress: &[f64]| least_far(progress.iter().copied(), &mut random);
        assert_eq!(next(&[]), None);
        assert_eq!(next(&[0.5, 0.25, 0.75]), Some(1));
        let mut seen = [0u32; 3];
        for _ in 0..300 {
            seen[next(&[0.5, 0.25, 0.25]).unwrap()] += 1;
        }
        // 300 fair draws of two: 150 ± 9; ± 45 is 5 σ.
        assert!(seen[0] == 0 && seen[1].abs_diff(150) < 45, "{seen:?}");
    }
}
