//! How much untimed work the harness does around what it times. The load generator and the estimate
//! of a run's length share these rules. Pure.

/// Duration of untimed requests (ns) after which more of them would warm up nothing further. In the
/// published run of 2026-11-23, where the requests of an engine took longer than this, its second
/// request was within 4 % of its timed ones.
pub const WARM_NS: u64 = 500_000_000;
/// Least length of a turn's timed part (ns): disturbances of a machine last longer.
pub const TURN_NS: u64 = 25_000_000;
/// Length of the untimed part at the beginning of a turn (ns): untimed requests are made until it
/// is over, and at least one. In the published run of 2026-11-24, timed requests that began 2 to 10
/// ms after the turn began took 2 to 5 % longer on average (11 to 17 % for the fastest target).
/// Later ones took 0.997 ± 0.003 of the time of the last request of their turn. Whatever its
/// length, the first whole request of a turn differs from the others: in two runs of 2026-11-27,
/// where shorter ones went before it, it took 0.89 to 1.18 times as long, and the second one 0.97
/// to 1.05 times.
pub const WAKE_NS: u64 = 10_000_000;
/// Most untimed requests at the beginning of a turn.
pub const WAKE_REQUESTS_MAX: u32 = 5;
/// Least timed requests of a turn, so that the untimed ones are a small part of it.
pub const TURN_REQUESTS_MIN: u32 = 6;
/// Timed requests of each user in a turn of several users, so that the untimed ones around them are
/// a small part, and all users are at work for most of the timed part.
pub const WINDOW_ROUNDS: u32 = 4;
/// Least number of full rounds of a capacity stage.
pub const CAPACITY_ROUNDS: u32 = 8;
/// Least length of a capacity stage (s).
pub const CAPACITY_S: f64 = 2.0;

/// The number of warm-up requests where each takes `round_s`: `most`, or fewer if these last long
/// enough.
pub fn warm_ups(most: u32, round_s: f64) -> f64 {
    let enough = (WARM_NS as f64 / 1e9 / round_s).ceil();
    f64::from(most).min(enough)
}

/// The number of untimed requests at the beginnings of all turns, where a request takes `round_s`
/// and a case is timed for `timed_s` in all.
pub fn untimed_in_turns(timed_s: f64, round_s: f64) -> f64 {
    let turn_s = (f64::from(TURN_REQUESTS_MIN) * round_s).max(TURN_NS as f64 / 1e9);
    let turns = (timed_s / turn_s).ceil();
    turns * wake_rounds(round_s)
}

/// The number of untimed rounds at the beginning of a turn, where a round takes `round_s`.
fn wake_rounds(round_s: f64) -> f64 {
    let rounds = (WAKE_NS as f64 / 1e9 / round_s).ceil();
    rounds.clamp(1.0, f64::from(WAKE_REQUESTS_MAX))
}

/// The number of rounds of all users in the windows of a case in turns, where a round takes
/// `round_s` and the case asks for `rounds` timed ones and at least `duration_s`. Each window has
/// untimed rounds at its beginning, and one that holds up the load at its end.
pub fn rounds_in_windows(rounds: f64, duration_s: f64, round_s: f64) -> f64 {
    let of_window = f64::from(WINDOW_ROUNDS).max(TURN_NS as f64 / 1e9 / round_s);
    // What would be left for a short window belongs to the one before.
    let of_requests = (rounds / of_window).floor().max(1.0);
    let of_duration = (duration_s / (of_window * round_s)).ceil();
    let windows = of_requests.max(of_duration);
    rounds.max(windows * of_window) + windows * (wake_rounds(round_s) + 1.0)
}

/// The length of a capacity stage (s) where a full round takes `round_s`.
pub fn capacity_s(round_s: f64) -> f64 {
    // One more round before for the warm-up, and one after for the fillers.
    (f64::from(CAPACITY_ROUNDS) * round_s).max(CAPACITY_S) + 2.0 * round_s
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_requests_warm_up_as_often_as_is_asked_and_long_ones_once() {
        assert_eq!(warm_ups(2, 0.004), 2.0);
        assert_eq!(warm_ups(2, 0.3), 2.0);
        assert_eq!(warm_ups(2, 0.5), 1.0);
        assert_eq!(warm_ups(5, 0.2), 3.0);
        assert_eq!(warm_ups(0, 0.2), 0.0);
    }

    #[test]
    fn an_untimed_request_a_turn_and_more_until_a_hundredth_of_a_second_has_passed() {
        // 24 requests of 100 ms: 4 turns of six.
        assert_eq!(untimed_in_turns(2.4, 0.1), 4.0);
        // Half a second of requests of 4 ms: 20 turns of 25 ms, and three requests are over 10 ms.
        assert_eq!(untimed_in_turns(0.5, 0.004), 20.0 * 3.0);
        // A hundred requests of 0.1 ms fit in 10 ms, but at most five are made.
        assert_eq!(untimed_in_turns(0.5, 0.000_1), 20.0 * 5.0);
    }

    #[test]
    fn a_window_has_untimed_rounds_before_and_after_its_four() {
        // Nine rounds of 100 ms: windows of four and of five.
        assert_eq!(rounds_in_windows(9.0, 0.0, 0.1), 9.0 + 2.0 * 2.0);
        assert_eq!(rounds_in_windows(3.0, 0.0, 0.1), 4.0 + 2.0);
        // A second of them has three whole windows.
        assert_eq!(rounds_in_windows(9.0, 1.0, 0.1), 12.0 + 3.0 * 2.0);
        // Half a second of rounds of 5 ms: 20 windows of 25 ms, and two rounds are 10 ms.
        assert_eq!(rounds_in_windows(9.0, 0.5, 0.005), 20.0 * (5.0 + 3.0));
    }
}
