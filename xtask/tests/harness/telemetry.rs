//! Counters of a real run: every case has readings of the engine's own process,
//! of the host and of what reading cost, and so has a case that failed.

use crate::checkout::{Checkout, PROFILE, text};
use schema::record::Status;

#[test]
fn every_case_has_readings_even_one_that_failed() {
    let checkout = Checkout::with(&["exit"]);
    // As in `faults`: a fault at the 100th batch strikes only while timed.
    checkout.profile(&PROFILE.replace("requests = 6", "requests = 110"));
    let (output, run) = checkout.bench(&[("FAKE_FAULT_AT", "100")]);
    let failed = |log: &&schema::launch_log::LaunchLog| {
        let end = log.end.as_ref();
        log.ready.is_some() && end.is_some_and(|end| end.status == Status::Crashed)
    };
    assert!(
        run.launches.iter().any(|log| failed(&log)),
        "{}",
        text(&output)
    );
    for log in run.launches.iter().filter(failed) {
        assert!(!log.telemetry.is_empty(), "{}", log.file.display());
    }
    let mut complete = 0;
    for log in &run.launches {
        let readings = &log.telemetry;
        assert!(readings.is_sorted_by_key(|reading| reading.t_ns));
        assert!(readings.is_sorted_by_key(|reading| reading.cpu_ns));
        assert!(readings.is_sorted_by_key(|reading| reading.minor_faults));
        for end in &log.case_ends {
            complete += 1;
            let first = readings.iter().find(|reading| reading.case == end.case);
            let first = first.expect("the first reading of a case is taken as it begins");
            assert!(first.t_ns <= end.end_ns);
            assert_eq!(first.processes, Some(1));
            assert!(first.rss_bytes > Some(0) && first.cpu_ns > Some(0));
            assert!(first.host_busy_ns > first.cpu_ns);
            assert!(first.sampler_cpu_ns < first.harness_cpu_ns);
            assert_eq!(first.gpu_power_mw, None, "its backend uses no GPU");
        }
    }
    assert!(complete > 0, "{}", text(&output));
}
