//! Decides which instructions a program's library may use: by the registry's ladder for this
//! processor, by the user's choice, and one level lower after an illegal instruction.

use super::{EngineFailure, Program};
use crate::machine::Processor;
use base::repo::Repo;
use schema::record::IsaLimit;
use schema::registry::isa::{IsaLadder, IsaLevel};
use schema::registry::{Build, Registry};

/// A ladder of instruction levels, and the level that a program is kept to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Isa {
    ladder: IsaLadder,
    /// The extensions that the processor advertises.
    advertised: Vec<&'static str>,
    /// The level that the library is kept to; `None`: the library chooses by itself.
    limit: Option<IsaLimit>,
    /// Whether the user set the variable; then it is left alone.
    is_given: bool,
}

impl Isa {
    /// The level for a program that was never started. `given` is the variable's value in our own
    /// environment.
    fn new(ladder: &IsaLadder, processor: &Processor, given: Option<String>) -> Self {
        let given = given.filter(|value| !value.is_empty());
        let is_given = given.is_some();
        let limit = match given {
            Some(value) => Some(limit(ladder, &value, "set by the user".into())),
            None => ladder.level_without(&processor.unusable).map(|level| {
                let (unusable, why) = (processor.unusable.join(", "), &processor.why);
                let why = format!("the processor advertises {unusable}, but {why}");
                limit(ladder, &level.value, why)
            }),
        };
        Self {
            ladder: ladder.clone(),
            advertised: processor.advertised.clone(),
            limit,
            is_given,
        }
    }

    /// One level lower, after an illegal instruction; `None` where the user chose the level, or
    /// where no lower level excludes an extension that this processor has.
    fn lower(&self) -> Option<Self> {
        if self.is_given {
            return None;
        }
        let now = self.limit.as_ref().map(|limit| limit.value.as_str());
        let IsaLevel { value, .. } = self.ladder.level_below(now, &self.advertised)?;
        let why = match now {
            None => "it died of an illegal instruction without a limit".to_owned(),
            Some(value) => format!("it died of an illegal instruction at {value}"),
        };
        Some(Self {
            limit: Some(limit(&self.ladder, value, why)),
            ..self.clone()
        })
    }
}

fn limit(ladder: &IsaLadder, value: &str, why: String) -> IsaLimit {
    IsaLimit {
        variable: ladder.variable.clone(),
        value: value.to_owned(),
        why,
    }
}

/// The ladder and level for a program that is built by `how`; `None` where no ladder applies.
pub fn of_build(repo: &Repo, registry: &Registry, how: &Build) -> Option<Isa> {
    let requirements = match how {
        // A file that can't be read is reported when the requirements are installed.
        Build::Python { requirements, .. } => {
            std::fs::read_to_string(repo.root.join(requirements)).unwrap_or_default()
        }
        _ => String::new(),
    };
    let mut ladders = registry.isa_ladders.iter();
    let ladder = ladders.find(|ladder| ladder.is_for(how, &requirements))?;
    Some(here(ladder))
}

fn here(ladder: &IsaLadder) -> Isa {
    let given = std::env::var(&ladder.variable).ok();
    Isa::new(ladder, Processor::here(), given)
}

/// The limits that the registry's libraries are kept to on this machine: for programs that aren't
/// started as engines, such as their tests.
pub fn limits(registry: &Registry) -> Vec<IsaLimit> {
    let ladders = registry.isa_ladders.iter();
    ladders.filter_map(|ladder| here(ladder).limit).collect()
}

impl Program {
    /// The same program with `isa` as its ladder and level.
    pub fn with_isa(mut self, isa: Option<Isa>) -> Self {
        self.isa = isa;
        self
    }

    /// The limit that its library is kept to, if any.
    pub fn isa_limit(&self) -> Option<&IsaLimit> {
        self.isa.as_ref()?.limit.as_ref()
    }

    /// The same program one level lower, where `failure` is an illegal instruction and there is a
    /// lower level.
    pub fn after(&self, failure: &EngineFailure) -> Option<Self> {
        if !failure.is_illegal_instruction() {
            return None;
        }
        let lower = self.isa.as_ref()?.lower()?;
        Some(self.clone().with_isa(Some(lower)))
    }

    /// The same program kept to `limit`, with which it was judged; `None` where it is kept to that
    /// already, or where the user chose.
    pub fn kept_to(&self, limit: Option<&IsaLimit>) -> Option<Self> {
        let isa = self.isa.as_ref()?;
        let is_other = !isa.is_given && limit.is_some() && limit != isa.limit.as_ref();
        is_other.then(|| {
            let limit = limit.cloned();
            self.clone().with_isa(Some(Isa {
                limit,
                ..isa.clone()
            }))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schema::record::Status;
    use schema::registry::Need;
    use std::path::Path;

    fn ladder() -> IsaLadder {
        let level = |value: &str, without: &[&str]| IsaLevel {
            value: value.into(),
            without: without.iter().map(|flag| (*flag).to_owned()).collect(),
        };
        IsaLadder {
            library: "lib".into(),
            variable: "LIB_MAX".into(),
            need: Need::Libtorch,
            packages: Vec::new(),
            levels: vec![
                level("C", &["amx_tile", "amx_bf16"]),
                level("B", &["avx512_fp16"]),
                level("A", &["avx512f"]),
            ],
        }
    }

    fn pretender() -> Processor {
        Processor {
            advertised: vec!["avx512f", "amx_tile"],
            unusable: vec!["amx_tile"],
            why: "it describes no tiles".into(),
            ..Processor::default()
        }
    }

    fn program(processor: &Processor, given: Option<&str>) -> Program {
        let argv = vec!["p".to_owned()];
        let program = Program::new(argv, vec![], Path::new("/r"), Path::new("/b"));
        let isa = Isa::new(&ladder(), processor, given.map(str::to_owned));
        program.with_isa(Some(isa))
    }

    fn sigill() -> EngineFailure {
        EngineFailure {
            signal: Some(libc::SIGILL),
            ..EngineFailure::new(Status::Crashed, "x")
        }
    }

    fn value(program: &Program) -> Option<&str> {
        program.isa_limit().map(|limit| limit.value.as_str())
    }

    #[test]
    fn where_an_extension_pretends_the_library_is_kept_from_it() {
        let kept = program(&pretender(), None);
        let limit = kept.isa_limit().unwrap();
        assert_eq!(
            limit.to_string(),
            "LIB_MAX=C: the processor advertises amx_tile, but it describes no tiles"
        );
        let set: Vec<_> = kept.variables().collect();
        assert_eq!(set, [("LIB_MAX", "C")]);
        let good = Processor {
            unusable: vec![],
            ..pretender()
        };
        let free = program(&good, None);
        assert_eq!((value(&free), free.variables().count()), (None, 0));
    }

    #[test]
    fn what_the_user_set_stays_and_is_recorded() {
        let given = program(&pretender(), Some("ALL"));
        assert_eq!(value(&given), Some("ALL"));
        assert_eq!(given.isa_limit().unwrap().why, "set by the user");
        assert_eq!(given.after(&sigill()), None);
        let other = program(&pretender(), None).isa_limit().cloned();
        assert_eq!(given.kept_to(other.as_ref()), None);
        let empty = program(&pretender(), Some(""));
        assert_eq!(value(&empty), Some("C"));
    }

    #[test]
    fn after_an_illegal_instruction_it_goes_one_level_down() {
        let first = program(&pretender(), None);
        let lower = first.after(&sigill()).unwrap();
        // Level B excludes no extension that this processor advertises.
        assert_eq!(value(&lower), Some("A"));
        let why = &lower.isa_limit().unwrap().why;
        assert_eq!(why, "it died of an illegal instruction at C");
        assert_eq!(lower.after(&sigill()), None);
        let other = EngineFailure::new(Status::Crashed, "exited with status 1");
        assert_eq!(first.after(&other), None);
        assert_eq!(first.clone().with_isa(None).after(&sigill()), None);
        // Later launches are kept to the limit that the judgement was made with.
        let later = first.kept_to(lower.isa_limit()).unwrap();
        assert_eq!(value(&later), Some("A"));
        assert_eq!(first.kept_to(first.isa_limit()), None);
        assert_eq!(first.kept_to(None), None);
    }
}
