//! Tests of readings: the metrics computed from them and the disturbances that they show, against
//! values worked out by hand.

use crate::common::{self, Engine, Made, assert_close, made};
use schema::record::Telemetry;
use stats::analysis::{Analysis, Cell, MetricId};
use stats::between::between;
use stats::disturbance::{Cause, Clock, Disturbance};

const MS: u64 = 1_000_000;
const S: f64 = 1e9;

/// Return an engine that takes 600 ms for a request of 4 tokens: 20 of them take 12 s.
pub fn slow(target: &'static str) -> Engine {
    Engine {
        target,
        prefill_ns: 300 * MS,
        step_ns: 100 * MS,
        jitter: 0.0,
    }
}

/// Make a run of one target in five invocations, read every 40 ms from the first timed request to
/// the last; `change` gets the invocation, the time since then (ns) and an undisturbed reading of
/// two CPUs, one of which the engine keeps busy.
fn watched(change: impl Fn(u32, f64, &mut Telemetry)) -> Made {
    watch(made(&[slow("base.cpu.f32")], 5, 20), change)
}

fn watch(mut made: Made, change: impl Fn(u32, f64, &mut Telemetry)) -> Made {
    for log in &mut made.run.launches {
        let (start_ns, end_ns) = (log.case_ends[0].start_ns, log.case_ends[0].end_ns);
        log.telemetry = (start_ns..=end_ns)
            .step_by(40 * MS as usize)
            .map(|t_ns| {
                let since = (t_ns - start_ns) as f64;
                let ns = |cores: f64| Some((cores * since) as u64);
                let mut reading = Telemetry {
                    t_ns,
                    cpu_ns: ns(0.97),
                    harness_cpu_ns: ns(0.02),
                    host_busy_ns: ns(1.0),
                    host_idle_ns: ns(1.0),
                    host_steal_ns: Some(0),
                    ..Telemetry::default()
                };
                change(log.launch.invocation, since, &mut reading);
                reading
            })
            .collect();
    }
    made
}

fn value(cell: &Cell, id: MetricId) -> Option<f64> {
    Some(cell.metric(id)?.value)
}

/// Assert equality to a part in a thousand: readings do not fall on the window's edges.
#[track_caller]
fn assert_near(got: Option<f64>, want: f64) {
    let got = got.expect("the metric is there");
    assert!((got / want - 1.0).abs() < 1e-3, "got {got}, want {want}");
}

#[test]
fn without_readings_no_metric_of_counters_is_there() {
    let cell = made(&[slow("base.cpu.f32")], 5, 20).cell();
    for id in [
        MetricId::CpuPerTokenNs,
        MetricId::CpuEnergyPerTokenJ,
        MetricId::GpuUtilizationPercent,
        MetricId::GpuSmActivePercent,
        MetricId::GpuTensorActivePercent,
        MetricId::GpuDramBandwidthPercent,
        MetricId::GpuMemoryUtilizationPercent,
        MetricId::GpuTemperatureCelsius,
        MetricId::GpuSmClockMhz,
        MetricId::GpuThrottledPercent,
        MetricId::PeakGpuMemoryBytes,
        MetricId::GpuEnergyPerTokenJ,
        MetricId::SamplerCpuPercent,
    ] {
        assert_eq!(value(&cell, id), None, "{id:?}");
    }
    assert_eq!((cell.disturbances.len(), cell.unwatched), (0, 5));
}

#[test]
fn use_and_energy_per_token() {
    // 4 tokens in 600 ms (and a little for the harness): 6.66 tokens a second.
    let cell = watched(|_, since, reading| {
        reading.package_energy_uj = Some((since * 50.0 / 1e3) as u64); // 50 W
        reading.gpu_power_mw = Some(300_000);
        reading.sampler_cpu_ns = Some((since * 0.004) as u64);
    })
    .cell();
    let (tokens, window_ns) = (80.0, 20.0 * 600.13e6);
    let seconds = window_ns / S;
    let near = |id, want| assert_near(value(&cell, id), want);
    near(MetricId::CpuPerTokenNs, 0.97 * window_ns / tokens);
    near(MetricId::CpuEnergyPerTokenJ, 50.0 * seconds / tokens);
    near(MetricId::GpuEnergyPerTokenJ, 300.0 * seconds / tokens);
    near(MetricId::SamplerCpuPercent, 0.4);
    let with_memory = watched(|_, since, reading| {
        reading.package_energy_uj = Some((since * 50.0 / 1e3) as u64);
        reading.dram_energy_uj = Some((since * 10.0 / 1e3) as u64);
    })
    .cell();
    let energy = value(&with_memory, MetricId::CpuEnergyPerTokenJ);
    assert_near(energy, 60.0 * seconds / tokens);
}

#[test]
fn energy_with_a_gap_is_none() {
    let cell = watched(|_, since, reading| {
        let gap = (4.0 * S..7.5 * S).contains(&since);
        reading.gpu_power_mw = (!gap).then_some(300_000);
    })
    .cell();
    assert_eq!(value(&cell, MetricId::GpuEnergyPerTokenJ), None);
    let cell = watched(|_, since, reading| {
        let gap = (4.0 * S..6.5 * S).contains(&since);
        reading.gpu_power_mw = (!gap).then_some(300_000);
    })
    .cell();
    assert!(value(&cell, MetricId::GpuEnergyPerTokenJ).is_some());
}

#[test]
fn gauges_of_the_gpu_are_means_over_the_window() {
    let cell = watched(|_, since, reading| {
        let second_half = since > 6.0 * S;
        reading.gpu_utilization_percent = Some(if second_half { 100.0 } else { 50.0 });
        // The counter is read every third time.
        let asked = (since as u64 / (40 * MS)).is_multiple_of(3);
        reading.gpu_tensor_active_percent = asked.then_some(30.0);
        reading.gpu_sm_active_percent = (since < 1.0 * S).then_some(80.0);
    })
    .cell();
    let utilization = value(&cell, MetricId::GpuUtilizationPercent).unwrap();
    assert!((utilization - 75.0).abs() < 0.5, "{utilization}");
    let tensor = value(&cell, MetricId::GpuTensorActivePercent);
    assert_close(tensor.unwrap(), 30.0);
    // Readings over a twelfth of the window don't stand for the whole of it.
    assert_eq!(value(&cell, MetricId::GpuSmActivePercent), None);
}

#[test]
fn the_state_of_the_gpu_is_told_as_it_was_read() {
    let cell = watched(|_, since, reading| {
        let second_half = since > 6.0 * S;
        reading.gpu_memory_utilization_percent = Some(if second_half { 40.0 } else { 20.0 });
        reading.gpu_sm_clock_mhz = Some(if second_half { 1000 } else { 2000 });
        // The temperature is read every tenth time.
        let asked = (since as u64 / (40 * MS)).is_multiple_of(10);
        reading.gpu_temperature_celsius = asked.then_some(71);
        // The reasons are the power limit in one half; heat, and the power limit, in the other.
        reading.gpu_throttle_reasons = Some(if second_half { 0x4 | 0x20 } else { 0x4 });
    })
    .cell();
    let near = |id, want: f64| {
        let got = value(&cell, id).expect("it was read");
        assert!((got / want - 1.0).abs() < 0.03, "{id:?}: {got}");
    };
    near(MetricId::GpuMemoryUtilizationPercent, 30.0);
    near(MetricId::GpuTemperatureCelsius, 71.0);
    near(MetricId::GpuSmClockMhz, 1500.0);
    near(MetricId::GpuThrottledPercent, 50.0);
    let never = watched(|_, _, reading| reading.gpu_throttle_reasons = Some(0x4)).cell();
    assert_eq!(value(&never, MetricId::GpuThrottledPercent), Some(0.0));
    assert_eq!(value(&never, MetricId::GpuTemperatureCelsius), None);
}

#[test]
fn peak_gpu_memory_is_the_engines_own_where_that_is_known() {
    let peak = |own: Option<u64>, processes: u32| {
        let cell = watched(|_, since, reading| {
            reading.gpu_memory_used_bytes = Some(900);
            if (5.0 * S..5.2 * S).contains(&since) {
                reading.gpu_memory_used_bytes = Some(1000);
                reading.gpu_memory_bytes = own;
                reading.gpu_processes = Some(processes);
            }
        })
        .cell();
        value(&cell, MetricId::PeakGpuMemoryBytes)
    };
    assert_eq!(peak(Some(700), 2), Some(700.0));
    assert_eq!(peak(None, 1), Some(1000.0));
    assert_eq!(peak(None, 2), None, "whose it is can't be told");
}

fn disturbances(change: impl Fn(u32, f64, &mut Telemetry)) -> Vec<Disturbance> {
    let cell = watched(change).cell();
    assert_eq!(cell.unwatched, 0);
    assert_eq!(cell.invocations, 5, "a disturbed invocation stays");
    cell.disturbances
}

/// Return the causes of the second invocation, which alone is disturbed.
#[track_caller]
fn causes(change: impl Fn(f64, &mut Telemetry)) -> Vec<Cause> {
    let mut found = disturbances(|invocation, since, reading| {
        if invocation == 1 {
            change(since, reading);
        }
    });
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].invocation, 1);
    found.remove(0).causes
}

#[test]
fn an_engine_that_works_hard_disturbs_nobody() {
    assert_eq!(disturbances(|_, _, _| {}), []);
    // Both CPUs are busy with the engine and the harness. The GPU's clock is lowered by the power
    // limit, by idling and by a user, and is low in all invocations; its memory has corrected
    // errors, and uncorrected ones from before.
    let found = disturbances(|_, since, reading| {
        reading.cpu_ns = Some((1.9 * since) as u64);
        reading.host_busy_ns = Some((2.0 * since) as u64);
        reading.host_idle_ns = Some(0);
        reading.gpu_throttle_reasons = Some(0x1 | 0x2 | 0x4 | 0x100);
        reading.gpu_ecc_corrected = Some(since as u64);
        reading.gpu_ecc_uncorrected = Some(3);
        reading.gpu_sm_clock_mhz = Some(600);
        reading.cpu_throttle_count = Some(9);
        reading.gpu_processes = Some(1);
        reading.gpu_processes_own = Some(1);
    });
    assert_eq!(found, []);
}

#[test]
fn other_processes_and_the_hypervisor_disturb() {
    let found = causes(|since, reading| {
        reading.host_busy_ns = Some((1.21 * since) as u64);
        reading.host_idle_ns = Some((0.69 * since) as u64);
        reading.host_steal_ns = Some((0.1 * since) as u64);
    });
    let [Cause::OtherWork { others, stolen }] = found[..] else {
        panic!("{found:?}");
    };
    assert!((others - 0.11).abs() < 1e-3 && (stolen - 0.05).abs() < 1e-3);
    assert_eq!(
        found[0].to_string(),
        "other processes took 11 % of the CPU time, the hypervisor 5 %"
    );
}

#[test]
fn what_counting_by_ticks_may_err_is_granted() {
    let with = |cores: f64| {
        disturbances(|_, since, reading| {
            reading.host_busy_ns = Some(((1.0 + cores) * since) as u64);
            reading.host_idle_ns = Some(((1.0 - cores) * since) as u64);
        })
    };
    // 2 × 12 s are 2 400 ticks: three standard errors are 1.5 × 2400^-½ = 3.06 %, so the limit is
    // at 8.06 % of two CPUs. Undisturbed readings have 0.01 cores of other work already.
    assert_eq!(with(0.14), []);
    assert_eq!(with(0.17).len(), 5);
}

#[test]
fn heat_disturbs() {
    let found = causes(|since, reading| {
        reading.cpu_throttle_count = Some(7 + u64::from(since > 5.0 * S) * 2);
    });
    assert_eq!(found, [Cause::CpuThrottled { times: 2 }]);
    let found = causes(|since, reading| {
        reading.gpu_throttle_reasons = Some(if since > 9.0 * S { 0x44 } else { 0x4 });
    });
    let [Cause::GpuThrottled { share, reasons }] = found[..] else {
        panic!("{found:?}");
    };
    assert!((share - 0.25).abs() < 0.01);
    assert_eq!(reasons, 0x40, "the power limit is not among them");
    assert!(found[0].to_string().contains("hardware thermal slowdown"));
    // A clock that is held down for a moment, as when it changes, is no disturbance.
    let moment = disturbances(|_, since, reading| {
        reading.gpu_throttle_reasons = Some(if since < 0.4 * S { 0x8 } else { 0 });
    });
    assert_eq!(moment, []);
}

#[test]
fn a_clock_unlike_the_other_invocations_disturbs() {
    let with = |second: u32| {
        disturbances(|invocation, _, reading| {
            let odd = invocation == 1;
            reading.cpu_clock_mhz = Some(if odd { second } else { 3000 });
            reading.gpu_sm_clock_mhz = Some(1980);
        })
    };
    assert_eq!(with(2900), []);
    let clock = Clock {
        mhz: 2700.0,
        usual_mhz: 3000.0,
    };
    let found = with(2700);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].causes, [Cause::CpuClock(clock)]);
    assert_eq!(
        found[0].causes[0].to_string(),
        "the CPU clock was 2700 MHz, 10 % below the usual 3000 MHz"
    );
    assert_eq!(with(3300).len(), 1, "faster is as odd as slower");
}

#[test]
fn company_on_the_gpu_disturbs() {
    let with = |all: u32, own: u32| {
        disturbances(|invocation, since, reading| {
            let odd = invocation == 1 && since > 6.0 * S;
            reading.gpu_processes = Some(if odd { all } else { 1 });
            reading.gpu_processes_own = Some(own);
        })
    };
    assert_eq!(with(1, 1), []);
    assert_eq!(with(2, 1)[0].causes, [Cause::GpuShared { others: 1 }]);
    assert_eq!(with(2, 2), []);
    // Process numbers are of another namespace: the one process is taken to be the engine's.
    assert_eq!(with(1, 0), []);
    assert_eq!(with(3, 0)[0].causes, [Cause::GpuShared { others: 2 }]);
}

#[test]
fn a_failing_gpu_disturbs() {
    let found = causes(|since, reading| {
        reading.gpu_ecc_uncorrected = Some(3 + u64::from(since > 5.0 * S));
    });
    assert_eq!(found, [Cause::GpuMemoryErrors { count: 1 }]);
    let found = causes(|since, reading| {
        reading.gpu_lost = (since > 5.0 * S).then(|| "the GPU was lost: x".into());
        reading.gpu_error = Some("power could not be read: timed out".into());
    });
    assert_eq!(found, [Cause::GpuLost("the GPU was lost: x".into())]);
}

/// Make a run in which other processes take half a CPU during some invocations.
fn busy(engines: &[Engine], is_busy: fn(u32) -> bool) -> Made {
    watch(made(engines, 5, 20), |invocation, since, reading| {
        if is_busy(invocation) {
            reading.host_busy_ns = Some((1.5 * since) as u64);
            reading.host_idle_ns = Some((0.5 * since) as u64);
        }
    })
}

#[test]
fn a_pair_with_a_disturbed_half_is_marked_and_nothing_is_left_out() {
    let engines = [slow("base.cpu.f32"), slow("other.cpu.f32")];
    let quiet = watch(made(&engines, 5, 20), |_, _, _| {}).analyse();
    let busy = busy(&engines, |invocation| invocation == 3).analyse();
    let marks = |analysis: &Analysis| -> Vec<Vec<u32>> {
        let all = analysis.comparisons.iter();
        all.map(|c| c.not_comparable.clone()).collect()
    };
    assert!(!quiet.comparisons.is_empty());
    assert!(marks(&quiet).iter().all(Vec::is_empty));
    assert!(marks(&busy).iter().all(|blocks| *blocks == [3]));
    for (quiet, busy) in quiet.cells.iter().zip(&busy.cells) {
        let ttft = |cell| common::metric(cell, MetricId::TtftNs).by_invocation.clone();
        assert_eq!(ttft(quiet), ttft(busy));
    }
}

#[test]
fn between_runs_each_sides_disturbed_invocations_are_counted() {
    let engines = [slow("base.cpu.f32")];
    let quiet = watch(made(&engines, 5, 20), |_, _, _| {});
    let busy = busy(&engines, |invocation| invocation < 2);
    let changes = between(&quiet.run, &busy.run, &quiet.scenarios, None).changes;
    assert_eq!(changes[0].disturbed, (0, 2));
}
