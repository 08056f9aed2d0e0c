//! How much of a stretch of time lies inside timed requests: what measuring is for. The rest
//! is loading, warming up, and the harness's own work between requests.

use schema::run::LaunchLog;

/// Nanoseconds between `from_ns` and `to_ns` (`CLOCK_MONOTONIC`) in which at least one timed
/// request was under way, from when it was due until its answer was read.
pub fn timed_ns<'a>(
    logs: impl IntoIterator<Item = &'a LaunchLog>,
    from_ns: u64,
    to_ns: u64,
) -> u64 {
    let requests = logs.into_iter().flat_map(|log| &log.requests);
    let mut spans: Vec<(u64, u64)> = requests
        .filter(|request| !request.warmup)
        .map(|request| {
            let start_ns = request.scheduled_ns.max(from_ns);
            (start_ns, request.answered_ns.min(to_ns))
        })
        .filter(|(start_ns, end_ns)| start_ns < end_ns)
        .collect();
    spans.sort_unstable();
    let (mut total_ns, mut until_ns) = (0, 0);
    for (start_ns, end_ns) in spans {
        total_ns += end_ns.saturating_sub(start_ns.max(until_ns));
        until_ns = until_ns.max(end_ns);
    }
    total_ns
}

#[cfg(test)]
mod tests {
    use super::timed_ns;
    use schema::record::{LaunchRecord, RequestRecord};
    use schema::run::LaunchLog;

    fn log(requests: &[(u64, u64, bool)]) -> LaunchLog {
        let request = |&(scheduled_ns, answered_ns, warmup): &(u64, u64, bool)| RequestRecord {
            case: "p10".into(),
            id: 0,
            prompt: 0,
            warmup,
            scheduled_ns,
            sent_ns: scheduled_ns,
            received_ns: scheduled_ns,
            started_ns: scheduled_ns,
            token_ns: vec![],
            answered_ns,
            batch: 1,
            output_ids: vec![],
            output_text: None,
        };
        LaunchLog {
            file: "t/s.jsonl".into(),
            sha256: String::new(),
            launch: LaunchRecord {
                target: "t".into(),
                scenario: "s".into(),
                invocation: 0,
                attempt: 0,
                cases: vec!["p10".into()],
                argv: vec![],
                start_ns: 0,
                reused: false,
            },
            ready: None,
            requests: requests.iter().map(request).collect(),
            unanswered: vec![],
            telemetry: vec![],
            case_ends: vec![],
            end: None,
        }
    }

    #[test]
    fn what_overlaps_counts_once_and_what_is_untimed_or_outside_not_at_all() {
        let one = log(&[(10, 20, false), (15, 30, false), (30, 40, true)]);
        let other = log(&[(25, 35, false), (90, 110, false)]);
        // 10 to 35, and 90 to 100.
        assert_eq!(timed_ns([&one, &other], 0, 100), 35);
        assert_eq!(timed_ns([&one, &other], 12, 32), 20);
        assert_eq!(timed_ns([], 0, 100), 0);
    }
}
