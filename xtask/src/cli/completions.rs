//! `cargo xtask completions`: what a shell completes of this command line. The names that
//! this checkout has are among it, as they are when it is printed; the command line itself
//! takes any string, and says by itself what isn't known.

use super::Cli;
use anyhow::Result;
use base::repo::Repo;
use clap::builder::PossibleValuesParser;
use clap::{Arg, Command, CommandFactory};
pub(super) use clap_complete::Shell;
use schema::micro::scenario_id;
use stats::analysis::MetricId;
use std::collections::BTreeMap;

/// What the completions are of.
const NAME: &str = "xtask";

/// What stands below the verb's options.
pub(super) const HELP: &str = "\
Example:
  cargo xtask completions bash > ~/.local/share/bash-completion/completions/xtask
  cargo xtask completions zsh > ~/.zfunc/_xtask
  cargo xtask completions fish > ~/.config/fish/completions/xtask.fish

They are of a command called xtask, which a line in your shell's start-up file makes:
  xtask() { cargo xtask \"$@\"; }            (bash, zsh)
  function xtask; cargo xtask $argv; end    (fish)";

/// Print them.
pub(super) fn print(repo: &Repo, shell: Shell) -> Result<()> {
    print!("{}", script(shell, &names(repo)?)?);
    Ok(())
}

fn script(shell: Shell, names: &Names) -> Result<String> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command(names), NAME, &mut script);
    Ok(String::from_utf8(script)?)
}

/// What an argument of that id may be.
type Names = BTreeMap<&'static str, Vec<String>>;

fn names(repo: &Repo) -> Result<Names> {
    let registry = repo.registry()?;
    let engines = registry.engines.iter().map(|engine| engine.id.clone());
    let targets = registry.targets().into_iter().map(|target| target.id);
    let scenarios = repo.scenarios()?.into_iter().map(|scenario| scenario.id);
    let suites = repo
        .suites()?
        .into_iter()
        .map(|suite| scenario_id(&suite.id));
    let models = repo.models()?.models.into_iter().map(|model| model.id);
    let models: Vec<String> = models.collect();
    let profiles = repo.profiles()?.into_iter().map(|profile| profile.id);
    let metrics = MetricId::ALL.map(|id| id.describe().name.to_owned());
    Ok(BTreeMap::from([
        ("engines", engines.chain(targets).collect()),
        ("scenarios", scenarios.chain(suites).collect()),
        ("model", models.clone()),
        ("models", models),
        ("profile", profiles.collect()),
        ("metric", metrics.to_vec()),
    ]))
}

/// The command line, with these names as what its arguments may be.
fn command(names: &Names) -> Command {
    let with_names = |arg: Arg| match names.get(arg.get_id().as_str()) {
        None => arg,
        Some(names) => {
            let defaults = arg.get_default_values().iter();
            let defaults = defaults.map(|value| value.to_string_lossy().into_owned());
            let others = defaults.filter(|value| !names.contains(value));
            // Clap keeps names that live as long as the program.
            let all = names.iter().cloned().chain(others).map(String::leak);
            let all: Vec<&'static str> = all.map(|name| &*name).collect();
            arg.value_parser(PossibleValuesParser::new(all))
        }
    };
    let verb = |verb: Command| verb.mut_args(with_names);
    Cli::command().name(NAME).mut_subcommands(verb)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;

    #[test]
    fn every_shell_completes_verbs_options_and_names() {
        let repo = Repo::find().unwrap();
        let names = names(&repo).unwrap();
        assert!(names.values().all(|names| !names.is_empty()), "{names:?}");
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let script = script(shell, &names).unwrap();
            for word in ["bench-all", "dry-run", "cpu-1b", "tiny-llama3", "ttft_ns"] {
                assert!(script.contains(word), "{shell} has no {word}");
            }
        }
        assert!(Shell::value_variants().len() >= 3);
    }

    #[test]
    fn a_checkout_without_the_default_profile_has_completions_too() {
        let names = BTreeMap::from([("profile", vec!["mine".to_owned()])]);
        let script = script(Shell::Bash, &names).unwrap();
        assert!(script.contains("mine"), "{script}");
    }
}
