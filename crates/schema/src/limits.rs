//! Upper limits on the sizes in profiles and plans, and on the counts in records. They are far above
//! what a run measures. A size beyond them is refused when its file is read, because it would use up
//! the memory, or never come to an end, when something has been measured already.

use std::fmt::Debug;

/// Most blocks of a run. Each launch writes a file, and a run holds 20 000 files.
pub const INVOCATIONS: u32 = 1_000;
/// Most compute threads of an engine: no machine has as many CPUs.
pub const THREADS: u32 = 4_096;
/// Longest prompt and longest output (tokens). No model here has as many positions.
pub const TOKENS: u32 = 1 << 20;
/// Most requests in flight. An engine keeps the context of each in memory.
pub const CONCURRENCY: u32 = 4_096;
/// Most timed or untimed requests of a case in one invocation, and most samples of a micro suite. A
/// record file holds a million lines.
pub const REQUESTS: u32 = 900_000;
/// Highest offered load, in percent of the measured capacity. An engine that is offered more than
/// its capacity only lengthens its queue.
pub const LOAD_PERCENT: u32 = 10_000;
/// Longest duration of anything in a profile (s): a week.
pub const SECONDS: u32 = 7 * 24 * 3600;
/// The same for what is written in milliseconds.
pub const MILLISECONDS: f64 = SECONDS as f64 * 1e3;
/// Most tokens of the prompts of a case over all invocations: they are cut before the clock runs,
/// and 2^30 of them take 4 GiB of memory.
pub const PROMPT_TOKENS: u64 = 1 << 30;
/// Most of anything that a record counts, such as outputs or bytes (1 TiB). The sum of as many of
/// them as a file has lines still fits in 64 bits.
pub const COUNT: u64 = 1 << 40;

/// Timed prompts prepared per second of a case that runs for a duration: a case that uses more ends
/// early, with its minimum of samples reached.
pub const PROMPTS_PER_S: f64 = 2000.0;

/// Check that a size is not over its limit; the error begins with its key. The `Debug` format writes
/// a large float with an exponent.
pub fn within<T: PartialOrd + Debug>(key: &str, value: T, max: T) -> Result<(), String> {
    match value > max {
        true => Err(format!("{key}: {value:?} is more than {max:?}")),
        false => Ok(()),
    }
}

/// Check that a duration (s) is a number, not negative and not over its limit.
pub fn duration(key: &str, seconds: f64) -> Result<(), String> {
    if seconds.is_nan() || seconds < 0.0 {
        return Err(format!("{key} must be a number of seconds, 0 or more"));
    }
    within(key, seconds, f64::from(SECONDS))
}

/// The sizes that hold for all scenarios of a profile or a plan.
pub struct OfAllScenarios {
    /// Number of blocks.
    pub invocations: u32,
    /// Compute threads of an engine.
    pub threads: u32,
    /// Untimed requests of a case.
    pub warmup_requests: u32,
    /// Longest time of a request (s).
    pub request_timeout_s: u32,
    /// Longest time of loading a model (s).
    pub load_timeout_s: u32,
    /// Time budget of the run (s).
    pub budget_s: f64,
}

impl OfAllScenarios {
    /// Check that all are within their limits; the error begins with the key.
    pub fn check(&self) -> Result<(), String> {
        for (key, value, max) in [
            ("invocations", self.invocations, INVOCATIONS),
            ("threads", self.threads, THREADS),
            ("warmup_requests", self.warmup_requests, REQUESTS),
            ("request_timeout_s", self.request_timeout_s, SECONDS),
            ("load_timeout_s", self.load_timeout_s, SECONDS),
        ] {
            within(key, value, max)?;
        }
        duration("budget_s", self.budget_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_names_the_key_the_value_and_the_limit() {
        assert_eq!(within("threads", THREADS, THREADS), Ok(()));
        assert_eq!(
            within("threads", u32::MAX, THREADS).unwrap_err(),
            "threads: 4294967295 is more than 4096"
        );
        assert_eq!(duration("duration_s", 604_800.0), Ok(()));
        assert_eq!(
            duration("duration_s", 1e300).unwrap_err(),
            "duration_s: 1e300 is more than 604800.0"
        );
        assert!(duration("duration_s", f64::INFINITY).is_err());
        assert!(duration("duration_s", -1.0).is_err());
        assert!(duration("duration_s", f64::NAN).is_err());
    }
}
