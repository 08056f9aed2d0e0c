//! Tests of runs that were stopped before their end.

use crate::common::{self, Engine, made, plain};
use schema::record::Status;

/// Make a run of two targets and seven planned blocks, stopped in the `block`th after its first
/// launch.
fn stopped_in(block: u32) -> common::Made {
    let other = Engine::plain("b.cpu.f32");
    let mut made = made(&[plain(), other], 7, 22);
    made.run.launches.retain(|log| {
        let launch = &log.launch;
        launch.invocation < block || launch.invocation == block && launch.target == plain().target
    });
    made
}

#[test]
fn a_stopped_run_is_shown_as_far_as_it_was_measured_whole() {
    let mut made = stopped_in(5);
    let cell = made.analyse().cells.remove(0);
    assert_eq!(cell.status, Status::NotRun);
    assert_eq!(cell.reason, "complete in 6 of 7 invocations");
    made.run = made.run.as_far_as_measured();
    let stopped = made.run.header.origin.stopped.unwrap();
    assert_eq!((stopped.whole, stopped.planned), (5, 7));
    assert!(made.run.header.plan.publishable);
    for cell in made.analyse().cells {
        assert_eq!((cell.status, cell.reason.as_str()), (Status::Ok, ""));
        assert_eq!((cell.requests, cell.invocations), (110, 5));
    }
    // With fewer blocks or samples than a publishable profile has, the run can't be published.
    let run = stopped_in(4).run.as_far_as_measured();
    assert_eq!(run.header.plan.invocations, 4);
    assert!(!run.header.plan.publishable);
}

#[test]
fn what_was_not_simply_stopped_stays_as_it_is() {
    let same = |made: common::Made| assert_eq!(made.run.clone().as_far_as_measured(), made.run);
    same(made(&[plain()], 5, 22));
    // One block has no interval.
    same(stopped_in(1));
    // A launch was made after one that is missing.
    let mut holed = stopped_in(5);
    holed.run.launches.retain(|log| log.launch.invocation != 2);
    same(holed);
    // The last launch has no end, so it may be the reason why there are no more.
    let mut killed = stopped_in(5);
    killed.run.launches.last_mut().unwrap().end = None;
    same(killed);
    // A shard is not cut: it is shown by itself or merged.
    let mut shard = stopped_in(5);
    shard.run.header.origin.shard = Some("1/1".parse().unwrap());
    same(shard);
}
