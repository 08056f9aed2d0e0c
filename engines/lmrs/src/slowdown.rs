//! A handicap by name: every pass takes a given share longer, and computes the
//! same. It is there to ask whether the verdicts find a difference of known size.
//!
//! It deliberately can't be on unnoticed: only a target of that variant has it, and
//! `hello` says so.

use protocol::clock::now_ns;

/// What its variants begin with; whole percent follow.
const PREFIX: &str = "slowed_";

/// How much longer a pass takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slowdown {
    /// Percent of the pass's own time; 0: nothing is done.
    percent: u64,
}

impl Slowdown {
    /// What a target's variant asks for, `slowed_10` say; `None` where it is no such
    /// variant.
    pub fn from_variant(variant: &str) -> Option<Self> {
        let percent = variant.strip_prefix(PREFIX)?.parse().ok()?;
        (1..=1000).contains(&percent).then_some(Self { percent })
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
    fn only_its_own_variants_turn_it_on() {
        let percent = |variant| Slowdown::from_variant(variant).and_then(Slowdown::percent);
        assert_eq!(percent("slowed_10"), Some(10));
        for other in [
            "",
            "slowed",
            "slowed_",
            "slowed_0",
            "slowed_-1",
            "slowed_1001",
            "stale_kv",
        ] {
            assert_eq!(Slowdown::from_variant(other), None, "{other}");
        }
        assert_eq!(Slowdown::default().percent(), None);
    }

    #[test]
    fn a_pass_ends_its_share_later_and_keeps_its_result() {
        assert_eq!(until(1_000, 2_000, 10), 2_100);
        assert_eq!(until(1_000, 1_000, 10), 1_000);
        let slow = Slowdown::from_variant("slowed_100").unwrap();
        assert_eq!(slow.stretch(|| 7), 7);
    }
}
