//! Measures the peak rates of a backend's device with the program that the registry names for it.

use super::asked::{NoAnswer, ask_process};
use crate::engine::Program;
use base::text::line;
use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::time::Duration;
use watch::warn;

/// How long the program may take: it measures a card within some ten seconds, and the first use of
/// a driver takes some more.
const PATIENCE: Duration = Duration::from_secs(120);
/// Characters that are quoted of the program's stderr, at most.
const REASON_CHARS: usize = 200;

/// The limits that `program` measures, as facts of a run: their names begin with the backend's,
/// because the processor has limits of the same names. `Err` says why there are none.
pub fn measured(backend: &str, program: &Program) -> Result<BTreeMap<String, String>, String> {
    ask(backend, program.command(), PATIENCE)
}

fn ask(
    backend: &str,
    mut command: Command,
    timeout: Duration,
) -> Result<BTreeMap<String, String>, String> {
    command.stderr(Stdio::piped());
    let answered = ask_process::<BTreeMap<String, f64>>(command, timeout);
    let (limits, lacking) = answered.map_err(|silence| match silence {
        NoAnswer::NotStarted(error) => {
            format!("the program that measures them can't be started: {error}")
        }
        NoAnswer::Late(timeout) => format!(
            "the program that measures them did not answer within {} s",
            timeout.as_secs_f64()
        ),
        NoAnswer::Failed(status, why) if why.is_empty() => {
            format!("the program that measures them ended without an answer ({status})")
        }
        NoAnswer::Failed(_, why) => line(&why, REASON_CHARS),
    })?;
    // The card lacks a number format, or a library can't be loaded: the other limits are kept.
    for said in lacking.lines().filter(|said| !said.trim().is_empty()) {
        warn(line(said, REASON_CHARS));
    }
    let wrong = limits
        .iter()
        .find(|(_, value)| !(value.is_finite() && **value > 0.0));
    if let Some((name, value)) = wrong {
        let name = line(name, REASON_CHARS);
        return Err(format!("it was measured to have a {name} of {value}"));
    }
    let facts = limits.into_iter();
    Ok(facts
        .map(|(name, value)| (format!("{backend}_{name}"), format!("{value:.0}")))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, patience_ms: u64) -> Result<BTreeMap<String, String>, String> {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        ask("cuda", command, Duration::from_millis(patience_ms))
    }

    #[test]
    fn limits_are_facts_of_their_backend() {
        let facts = shell("echo loading; echo '{\"flops_f16_per_s\": 8e14}'", 60_000).unwrap();
        let expected = (
            "cuda_flops_f16_per_s".to_owned(),
            "800000000000000".to_owned(),
        );
        assert_eq!(facts, BTreeMap::from([expected]));
    }

    #[test]
    fn what_measures_may_fail_in_any_way() {
        let why = shell(
            "echo 'gpu-limits: there is no CUDA driver' >&2; exit 1",
            60_000,
        );
        assert_eq!(why, Err("gpu-limits: there is no CUDA driver".into()));
        let crashed = shell("kill -SEGV $$", 60_000).unwrap_err();
        assert!(crashed.contains("signal: 11"), "{crashed}");
        let hung = shell("exec sleep 600", 20).unwrap_err();
        assert!(hung.contains("within 0.02 s"), "{hung}");
        assert!(shell("echo '[1]'", 60_000).is_err());
        let nothing = shell("echo '{\"flops_f16_per_s\": 0}'", 60_000).unwrap_err();
        assert!(nothing.contains("a flops_f16_per_s of 0"), "{nothing}");
        let missing = ask("cuda", Command::new("/nonexistent"), PATIENCE).unwrap_err();
        assert!(missing.contains("can't be started"), "{missing}");
    }
}
