//! Libraries that choose their instructions by the features of the processor: the ladder of levels
//! to which an environment variable can limit each library.
//!
//! Which processor has which features is not known here.

use super::{Build, Need};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The ladder of one library.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IsaLadder {
    /// Name of the library, for messages.
    pub library: String,
    /// Environment variable that limits the library to a level.
    pub variable: String,
    /// Build requirement of the programs that have the library.
    pub need: Need,
    /// Python packages that have the library: a Python program has it where its locked requirements
    /// name one of them.
    #[serde(default)]
    pub packages: Vec<String>,
    /// Levels, from high to low.
    #[serde(rename = "level")]
    pub levels: Vec<IsaLevel>,
}

/// One level of a ladder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IsaLevel {
    /// Value of the environment variable.
    pub value: String,
    /// CPU flags, as the Linux kernel spells them, of the instructions that the level above uses
    /// and this one doesn't.
    pub without: Vec<String>,
}

impl IsaLadder {
    /// Whether a program that is built like this has the library. `requirements` is the text of a
    /// Python program's locked requirements.
    pub fn is_for(&self, build: &Build, requirements: &str) -> bool {
        match build {
            Build::Python { .. } => requirements.lines().any(|line| {
                let name = line.split("==").next().unwrap_or(line).trim();
                self.packages.iter().any(|package| package == name)
            }),
            _ => build.needs().contains(&self.need),
        }
    }

    /// The highest level that does without all of these flags that the ladder knows; `None` where
    /// it knows none of them.
    pub fn level_without(&self, flags: &[&str]) -> Option<&IsaLevel> {
        let mut from_low = self.levels.iter().rev();
        from_low.find(|level| level.has_any(flags))
    }

    /// The next level down that does without instructions which a processor with these flags has.
    /// `from` is the present value; `None` means no limit.
    pub fn level_below(&self, from: Option<&str>, flags: &[&str]) -> Option<&IsaLevel> {
        let first = match from {
            None => 0,
            Some(value) => 1 + self.levels.iter().position(|level| level.value == value)?,
        };
        self.levels[first..]
            .iter()
            .find(|level| level.has_any(flags))
    }
}

impl IsaLevel {
    fn has_any(&self, flags: &[&str]) -> bool {
        self.without
            .iter()
            .any(|flag| flags.contains(&flag.as_str()))
    }
}

/// Check that the levels of each ladder differ, and that no two ladders share a need or a variable.
pub(crate) fn check(ladders: &[IsaLadder]) -> Result<(), String> {
    let (mut variables, mut needs) = (BTreeSet::new(), BTreeSet::new());
    for ladder in ladders {
        let wrong = |what: String| {
            let library = &ladder.library;
            Err(format!("the isa_ladder of {library:?}: {what}"))
        };
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if ladder.variable.is_empty() || !ladder.variable.chars().all(is_name) {
            return wrong(format!("{:?} is no name of a variable", ladder.variable));
        }
        if !variables.insert(&ladder.variable) {
            return wrong(format!("another one sets {} too", ladder.variable));
        }
        if !needs.insert(ladder.need) {
            return wrong("another one is of the same need".into());
        }
        if ladder.levels.is_empty() {
            return wrong("it has no level".into());
        }
        let (mut values, mut flags) = (BTreeSet::new(), BTreeSet::new());
        for level in &ladder.levels {
            if level.value.is_empty() || !values.insert(&level.value) {
                return wrong(format!("level {:?} is empty or listed twice", level.value));
            }
            if level.without.is_empty() {
                return wrong(format!("level {:?} does without nothing", level.value));
            }
            if let Some(twice) = level.without.iter().find(|flag| !flags.insert(*flag)) {
                return wrong(format!("{twice:?} is listed twice"));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ladder() -> IsaLadder {
        let text = r#"
library = "lib"
variable = "LIB_MAX"
need = "libtorch"
packages = ["torch", "other"]
level = [
    { value = "C", without = ["tiles", "tiles8"] },
    { value = "B", without = ["half"] },
    { value = "A", without = ["wide"] },
]
"#;
        toml::from_str(text).expect("it is a ladder")
    }

    fn value(level: Option<&IsaLevel>) -> Option<&str> {
        level.map(|level| level.value.as_str())
    }

    #[test]
    fn the_level_is_the_highest_that_does_without_all_of_them() {
        let ladder = ladder();
        assert_eq!(value(ladder.level_without(&["tiles8"])), Some("C"));
        assert_eq!(value(ladder.level_without(&["tiles", "half"])), Some("B"));
        assert_eq!(value(ladder.level_without(&["unknown"])), None);
        assert_eq!(value(ladder.level_without(&[])), None);
    }

    #[test]
    fn a_level_that_takes_nothing_from_this_processor_is_no_step_down() {
        let ladder = ladder();
        let all = ["tiles", "half", "wide"];
        assert_eq!(value(ladder.level_below(None, &all)), Some("C"));
        assert_eq!(value(ladder.level_below(Some("C"), &all)), Some("B"));
        assert_eq!(value(ladder.level_below(None, &["wide"])), Some("A"));
        assert_eq!(value(ladder.level_below(Some("A"), &all)), None);
        assert_eq!(value(ladder.level_below(Some("other"), &all)), None);
    }

    #[test]
    fn it_is_for_programs_with_the_need_and_for_python_with_the_package() {
        let ladder = ladder();
        let needs = |needs| Build::Prebuilt {
            path: "p".into(),
            needs,
            libtorch: None,
        };
        assert!(ladder.is_for(&needs(vec![Need::Libtorch]), ""));
        assert!(!ladder.is_for(&needs(vec![Need::Cmake]), ""));
        let python = Build::Python {
            script: "s.py".into(),
            requirements: "r.lock".into(),
            environment: "venv".into(),
            modules: None,
        };
        assert!(ladder.is_for(&python, "numpy==2\ntorch==2.9.0 \\\n    --hash=x\n"));
        assert!(!ladder.is_for(&python, "torchvision==1\n# via torch\n"));
    }

    #[test]
    fn ladders_that_contradict_themselves_are_refused() {
        let refused = |ladders: &[IsaLadder], word: &str| {
            let error = check(ladders).unwrap_err();
            assert!(error.contains(word), "{error}");
        };
        assert!(check(&[ladder()]).is_ok());
        refused(&[ladder(), ladder()], "another one sets LIB_MAX");
        let renamed = IsaLadder {
            variable: "OTHER".into(),
            ..ladder()
        };
        refused(&[ladder(), renamed], "the same need");
        let with = |change: fn(&mut IsaLadder)| {
            let mut ladder = ladder();
            change(&mut ladder);
            [ladder]
        };
        refused(&with(|l| l.variable = "A=B".into()), "no name");
        refused(&with(|l| l.levels.clear()), "no level");
        refused(
            &with(|l| l.levels[1].value = "C".into()),
            "\"C\" is empty or listed twice",
        );
        refused(&with(|l| l.levels[1].without.clear()), "without nothing");
        refused(
            &with(|l| l.levels[1].without = vec!["tiles".into()]),
            "\"tiles\" is listed twice",
        );
    }
}
