//! A handicap on request: every pass takes a given share longer, and computes the
//! same. It is there to ask whether the verdicts find a difference of known size.
//!
//! It deliberately can't be on unnoticed: `hello` says so, and so does the record.

use protocol::clock::now_ns;

/// The environment variable that asks for it: whole percent.
pub const VARIABLE: &str = "LMRS_SLOW_PERCENT";

/// How much longer a pass takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slowdown {
    /// Percent of the pass's own time; 0: nothing is done.
    percent: u64,
}

impl Slowdown {
    /// As the variable's value asks for it; an error that says what was expected.
    pub fn parse(value: Option<&str>) -> Result<Self, String> {
        let Some(value) = value else {
            return Ok(Self::default());
        };
        match value.parse() {
            Ok(percent) if percent <= 1000 => Ok(Self { percent }),
            _ => Err(format!(
                "{VARIABLE}={value}: expected whole percent from 0 to 1000"
            )),
        }
    }

    /// As the environment asks for it.
    pub fn from_env() -> Result<Self, String> {
        Self::parse(std::env::var(VARIABLE).ok().as_deref())
    }

    /// Percent, where it is on.
    pub fn percent(self) -> Option<u64> {
        (self.percent > 0).then_some(self.percent)
    }

    /// Do it, then wait for the share that is asked for. Waiting spins, as the
    /// engine's threads do: a sleeping process would lose its place on the CPU.
    pub fn stretch<T>(self, pass: impl FnOnce() -> T) -> T {
        if self.percent == 0 {
            return pass();
        }
        let start_ns = now_ns();
        let done = pass();
        let end_ns = until(start_ns, now_ns(), self.percent);
        while now_ns() < end_ns {
            std::hint::spin_loop();
        }
        done
    }
}

/// When a pass that took from `start_ns` to `now_ns` may end.
fn until(start_ns: u64, now_ns: u64, percent: u64) -> u64 {
    now_ns + (now_ns - start_ns) * percent / 100
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_off_unless_asked_for_and_refuses_what_it_cannot_read() {
        assert_eq!(Slowdown::parse(None).unwrap().percent(), None);
        assert_eq!(Slowdown::parse(Some("0")).unwrap().percent(), None);
        assert_eq!(Slowdown::parse(Some("10")).unwrap().percent(), Some(10));
        for wrong in ["", "ten", "-1", "10 %", "1001"] {
            let error = Slowdown::parse(Some(wrong)).unwrap_err();
            assert!(error.contains(VARIABLE), "{error}");
        }
    }

    #[test]
    fn a_pass_ends_its_share_later_and_keeps_its_result() {
        assert_eq!(until(1_000, 2_000, 10), 2_100);
        assert_eq!(until(1_000, 1_000, 10), 1_000);
        let slow = Slowdown::parse(Some("100")).unwrap();
        assert_eq!(slow.stretch(|| 7), 7);
    }
}
