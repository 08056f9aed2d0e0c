//! Tests that known work done beside a launch shows what disturbed the launch.

use crate::common::made;
use crate::telemetry::slow;
use schema::record::CanaryReading;
use stats::analysis::{Analysis, Cell};
use stats::canary::Work;
use stats::disturbance::Cause;

/// Analyse two targets in 15 invocations, so that there is a band; `change` gets a log's target,
/// invocation and the reading beside its case.
fn beside(change: impl Fn(&str, u32, &mut CanaryReading)) -> Analysis {
    beside_slower(change, 0)
}

/// Analyse the same, with requests that take longer by so many ns in every third invocation.
fn beside_slower(change: impl Fn(&str, u32, &mut CanaryReading), longer_ns: u64) -> Analysis {
    let mut made = made(&[slow("base.cpu.f32"), slow("other.cpu.f32")], 15, 20);
    for log in &mut made.run.launches {
        let mut reading = CanaryReading {
            // Readings vary by under a percent, as usual.
            one_core_ns: Some(53_000 + 100 * (log.launch.invocation % 5)),
            all_cores_ns: Some(54_000),
            cache_line_ns: None,
            memory_ns: Some(90_000),
        };
        change(&log.launch.target, log.launch.invocation, &mut reading);
        log.case_ends[0].canary = vec![reading];
        let is_slow = log.launch.invocation.is_multiple_of(3);
        for request in log.requests.iter_mut().filter(|_| is_slow) {
            *request.token_ns.last_mut().unwrap() += longer_ns;
            request.answered_ns += longer_ns;
        }
    }
    made.analyse()
}

#[test]
fn a_launch_beside_which_known_work_was_slow_is_disturbed() {
    let analysis = beside(|target, invocation, reading| {
        if (target, invocation) == ("other.cpu.f32", 7) {
            reading.all_cores_ns = Some(108_000);
        }
    });
    let of = |target: &str| -> &Cell {
        let mut cells = analysis.cells.iter();
        cells.find(|cell| cell.target == target).unwrap()
    };
    let (base, other) = (of("base.cpu.f32"), of("other.cpu.f32"));
    assert_eq!((base.disturbances.len(), base.unseen), (0, 0));
    let [disturbance] = other.disturbances.as_slice() else {
        panic!("one launch was slow: {:?}", other.disturbances);
    };
    assert_eq!(disturbance.invocation, 7);
    let [Cause::Slow(slow)] = disturbance.causes.as_slice() else {
        panic!("{:?}", disturbance.causes);
    };
    assert_eq!(
        (slow.work, slow.ns, slow.usual_ns),
        (Work::AllCores, 108_000.0, 54_000.0)
    );
    assert_eq!(
        disturbance.causes[0].to_string(),
        "beside it products on all cores took 100 % longer than usual"
    );
}

#[test]
fn a_state_that_the_machine_is_often_in_is_usual() {
    let analysis = beside(|_, invocation, reading| {
        if invocation % 2 == 0 {
            reading.all_cores_ns = Some(108_000);
        }
    });
    let mut cells = analysis.cells.iter();
    assert!(cells.all(|cell| cell.disturbances.is_empty()));
}

#[test]
fn slow_work_is_a_disturbance_where_engines_felt_it() {
    let bounced = |_: &str, invocation: u32, reading: &mut CanaryReading| {
        let is_slow = invocation.is_multiple_of(3);
        reading.cache_line_ns = Some(if is_slow { 170 } else { 31 });
    };
    let disturbed = |analysis: &Analysis| -> usize {
        let cells = analysis.cells.iter();
        cells.map(|cell| cell.disturbances.len()).sum()
    };
    let unmoved = beside_slower(bounced, 0);
    assert_eq!(disturbed(&unmoved), 0);
    assert!(unmoved.cells.iter().all(|cell| cell.unseen == 0));
    let [unfelt] = &unmoved.unfelt[..] else {
        panic!("{:?}", unmoved.unfelt)
    };
    assert_eq!(unfelt.work, Work::CacheLine);
    assert_eq!((unfelt.slow, unfelt.launches), (10, 30));
    let (low, high) = unfelt.ci95;
    assert!((low..=high).contains(&1.0) && high < 1.05, "{unfelt:?}");

    let slower = beside_slower(bounced, 100_000_000);
    assert_eq!((disturbed(&slower), &slower.unfelt[..]), (10, &[][..]));
}

#[test]
fn where_nobody_looked_it_is_said() {
    let cell = made(&[slow("base.cpu.f32")], 5, 20).cell();
    assert_eq!(cell.unseen, 5);
}
