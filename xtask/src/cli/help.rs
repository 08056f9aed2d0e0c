//! The help of the command line, and shell completions.
//!
//! The first page of `--help` groups the verbs by purpose, each with its first sentence.
//!
//! `cargo xtask completions` prints what a shell completes. It includes the names that this
//! checkout has when it is printed; the command line itself accepts any string and reports unknown
//! names.

use super::{Cli, Verb};
use anyhow::Result;
use base::repo::Repo;
use base::text::{WIDTH_MAX, fitted};
use clap::builder::{PossibleValuesParser, Styles};
use clap::{Arg, Command, CommandFactory, Subcommand};
use schema::micro::scenario_id;
use stats::analysis::MetricId;
use std::collections::BTreeMap;

pub(super) use clap_complete::Shell;

/// The verbs by purpose, with a space between two. A test checks that none is missing.
const GROUPS: [(&str, &str); 4] = [
    (
        "Run",
        "bench-all bench fetch build verify trace reproduce merge",
    ),
    (
        "Inspect",
        "list doctor compare export calibrate bench-adapters",
    ),
    ("Publish", "publish submit site dist"),
    ("Repository", "test tidy simulate train completions"),
];

/// Make the template of the first page: clap's usual one, but with the verbs in groups.
pub(super) fn template() -> String {
    let styles = Styles::styled();
    let header = styles.get_header();
    let command = Verb::augment_subcommands(Command::new("xtask"));
    let names = GROUPS.iter().flat_map(|(_, verbs)| verbs.split(' '));
    let width = names.map(str::len).max().unwrap_or(0);
    let row = |name: &str| {
        let verb = command.find_subcommand(name);
        let about = verb.and_then(Command::get_about).map(ToString::to_string);
        let about = about.unwrap_or_default();
        let first = about.split(". ").next().unwrap_or_default();
        [format!("{name:<width$}"), first.to_owned()]
    };
    let mut text = String::from("{about-with-newline}\n{usage-heading} {usage}\n");
    for (name, verbs) in GROUPS {
        text += &format!("\n{header}{name}:{header:#}\n");
        let rows = fitted(verbs.split(' ').map(row), WIDTH_MAX - 2);
        text.extend(rows.lines().map(|line| format!("  {line}\n")));
    }
    text + &format!(
        "\n{header}Options:{header:#}\n{{options}}\n\n`cargo xtask VERB --help` shows a verb's options and an example.\n"
    )
}

/// Name of the command that is completed.
const NAME: &str = "xtask";

/// The help below the options of `completions`.
pub(super) const HELP: &str = "\
Example:
  cargo xtask completions bash > ~/.local/share/bash-completion/completions/xtask
  cargo xtask completions zsh > ~/.zfunc/_xtask
  cargo xtask completions fish > ~/.config/fish/completions/xtask.fish

They are of a command called xtask, which a line in your shell's start-up file makes:
  xtask() { cargo xtask \"$@\"; }            (bash, zsh)
  function xtask; cargo xtask $argv; end    (fish)";

/// Print the completions for a shell.
pub(super) fn completions(repo: &Repo, shell: Shell) -> Result<()> {
    print!("{}", script(shell, &names(repo)?)?);
    Ok(())
}

fn script(shell: Shell, names: &Names) -> Result<String> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command(names), NAME, &mut script);
    Ok(String::from_utf8(script)?)
}

/// The possible values of each argument, by the argument's id.
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

/// Return the command line with these names as possible values of its arguments.
fn command(names: &Names) -> Command {
    let with_names = |arg: Arg| match names.get(arg.get_id().as_str()) {
        None => arg,
        Some(names) => {
            let defaults = arg.get_default_values().iter();
            let defaults = defaults.map(|value| value.to_string_lossy().into_owned());
            let others = defaults.filter(|value| !names.contains(value));
            // Clap keeps references to names, which must live as long as the program.
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
    use crate::cli::Cli;
    use clap::{CommandFactory, Parser, ValueEnum};

    fn verbs() -> Vec<Command> {
        let mut command = Cli::command();
        command.build();
        let verbs = command.get_subcommands();
        verbs
            .filter(|verb| !verb.is_hide_set() && verb.get_name() != "help")
            .cloned()
            .collect()
    }

    #[test]
    fn every_verb_is_in_one_group_and_every_name_is_a_verb() {
        let grouped = GROUPS.iter().flat_map(|(_, verbs)| verbs.split(' '));
        let mut grouped: Vec<&str> = grouped.collect();
        let verbs = verbs();
        let mut all: Vec<&str> = verbs.iter().map(Command::get_name).collect();
        grouped.sort_unstable();
        all.sort_unstable();
        assert_eq!(grouped, all);
    }

    #[test]
    fn the_first_page_has_the_groups_and_fits_a_hundred_columns() {
        let text = Cli::command().render_help().to_string();
        for (name, _) in GROUPS {
            assert!(text.contains(&format!("\n{name}:\n")), "{text}");
        }
        for verb in verbs() {
            let line = format!("\n  {} ", verb.get_name());
            assert_eq!(text.matches(&line).count(), 1, "{line:?} in {text}");
        }
        assert!(text.contains("--version"), "{text}");
        assert!(!text.contains('{') && !text.contains("Others:"), "{text}");
        assert!(
            text.lines().all(|line| line.chars().count() <= 100),
            "{text}"
        );
        // A verb's own page has clap's layout.
        let list = Cli::try_parse_from(["xtask", "list", "--help"]);
        let list = list.err().map(|help| help.to_string()).unwrap_or_default();
        assert!(
            list.contains("--json") && !list.contains("Inspect:"),
            "{list}"
        );
    }

    /// Return the words of an example after `cargo xtask`, split as a shell splits them.
    fn words(line: &str) -> Option<Vec<String>> {
        let (_, command) = line.split_once("cargo xtask ")?;
        let ends = [" #", " > ", " | "].map(|end| command.find(end));
        let end = ends.into_iter().flatten().min().unwrap_or(command.len());
        let words = command[..end].split_whitespace();
        let words = words.map(|word| word.trim_matches('\'').to_owned());
        Some(words.collect())
    }

    #[test]
    fn every_verb_has_an_example_and_every_example_can_be_parsed() {
        for verb in verbs() {
            let name = verb.get_name();
            let after = verb.get_after_help().map(ToString::to_string);
            let after = after.unwrap_or_default();
            let lines = after
                .lines()
                .skip_while(|line| !line.starts_with("Example"));
            let lines = lines.take_while(|line| !line.is_empty());
            let examples: Vec<Vec<String>> = lines.filter_map(words).collect();
            let own = examples.iter().filter(|words| words[0] == name);
            assert!(own.count() > 0, "{name} has no example: {after}");
            for words in examples {
                let all = std::iter::once("xtask").chain(words.iter().map(String::as_str));
                let parsed = Cli::try_parse_from(all);
                let fault = parsed.err().map(|error| error.to_string());
                assert_eq!(fault, None, "{words:?}");
            }
        }
    }

    #[test]
    fn examples_end_where_a_shell_takes_over() {
        let of = |line: &str| words(line).map(|words| words.join(" "));
        assert_eq!(of("HF_TOKEN=… cargo xtask fetch a"), Some("fetch a".into()));
        assert_eq!(of("  cargo xtask export > x"), Some("export".into()));
        assert_eq!(of("  cargo xtask bench a   # why"), Some("bench a".into()));
        assert_eq!(of("no command"), None);
    }

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
