//! Names that the user gives. An unknown one is a typed error, [`UnknownName`], which suggests the
//! nearest known name and ends the command with exit status 2, as clap's own errors do. Names are
//! looked up before anything is locked or made. An unknown name in a data file is an error of that
//! file and not an `UnknownName`.

use crate::text::few;
use schema::model::Models;
use schema::registry::Target;
use stats::analysis::MetricId;

/// Exit status of a command that was given an unknown name.
pub const EXIT_STATUS: u8 = 2;
/// Most known names that an error lists where none is near.
const NAMED_MAX: usize = 8;

/// The kind of thing that is looked up by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An engine of the registry.
    Engine,
    /// A target of the registry.
    Target,
    /// A scenario, or a micro suite.
    Scenario,
    /// A profile.
    Profile,
    /// A model.
    Model,
    /// A run.
    Run,
    /// A metric.
    Metric,
}

impl Kind {
    /// The word for one thing of this kind.
    fn word(self) -> &'static str {
        match self {
            Self::Engine => "engine",
            Self::Target => "target",
            Self::Scenario => "scenario",
            Self::Profile => "profile",
            Self::Model => "model",
            Self::Run => "run",
            Self::Metric => "metric",
        }
    }
}

/// The error of a name that doesn't exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownName {
    kind: Kind,
    name: String,
    /// All names that exist.
    known: Vec<String>,
    /// Where the name was looked for, where that isn't the whole checkout.
    place: &'static str,
    /// The command that lists all names; empty where there is none.
    list: String,
}

impl UnknownName {
    /// Create the error that nothing in `known` is called `name`.
    pub fn new(kind: Kind, name: &str, known: Vec<String>) -> Self {
        Self {
            kind,
            name: name.to_owned(),
            known,
            place: "",
            list: format!("cargo xtask list {}s", kind.word()),
        }
    }

    /// Say that the name was looked for among those of one run.
    pub fn in_that_run(self) -> Self {
        Self {
            place: " in that run",
            list: String::new(),
            ..self
        }
    }

    /// Name another command that lists all names.
    pub fn listed_by(self, list: String) -> Self {
        Self { list, ..self }
    }
}

impl std::fmt::Display for UnknownName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "no {} {:?}{}: ", self.kind.word(), self.name, self.place)?;
        match (nearest(&self.name, &self.known), self.known.as_slice()) {
            (Some(near), _) => write!(f, "did you mean {near}?")?,
            (None, []) => write!(f, "there is none.")?,
            (None, known) => write!(f, "there are {}.", few(known, NAMED_MAX, ", "))?,
        }
        match self.list.as_str() {
            "" => Ok(()),
            list => write!(f, " `{list}` lists what there is"),
        }
    }
}

impl std::error::Error for UnknownName {}

/// A request that can't be met here, such as a model that the user brought and that can't be used.
/// It is refused before anything is fetched, built or written.
#[derive(Debug, PartialEq, Eq)]
pub struct Refused(pub String);

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refused {}

/// Whether a command failed because of its request: an unknown name, or something that can't be
/// had.
pub fn is_refused(error: &anyhow::Error) -> bool {
    error.is::<UnknownName>() || error.is::<Refused>()
}

/// Refuse the first of `names` that isn't `known`.
pub fn check(kind: Kind, names: &[String], known: &[String]) -> Result<(), UnknownName> {
    match names.iter().find(|name| !known.contains(name)) {
        None => Ok(()),
        Some(name) => Err(UnknownName::new(kind, name, known.to_vec())),
    }
}

/// Refuse the first of `names` that is neither an engine nor a target among `targets`.
pub fn check_engines(names: &[String], targets: &[Target]) -> Result<(), UnknownName> {
    let is_known = |name: &&String| targets.iter().any(|t| t.id == **name || t.engine == **name);
    let Some(name) = names.iter().find(|name| !is_known(name)) else {
        return Ok(());
    };
    // Only targets have dots in their ids.
    let kind = match name.contains('.') {
        true => Kind::Target,
        false => Kind::Engine,
    };
    let id = |target: &Target| match kind {
        Kind::Target => target.id.clone(),
        _ => target.engine.clone(),
    };
    let mut known: Vec<String> = targets.iter().map(id).collect();
    known.dedup();
    Err(UnknownName::new(kind, name, known))
}

/// Refuse the first of `names` that is no model of data/models.toml.
pub fn check_models(names: &[String], models: &Models) -> Result<(), UnknownName> {
    let known: Vec<String> = models.models.iter().map(|m| m.id.clone()).collect();
    check(Kind::Model, names, &known)
}

/// Look up a metric by its name.
pub fn metric(name: &str) -> Result<MetricId, UnknownName> {
    let known = MetricId::ALL.map(|id| id.describe().name.to_owned());
    MetricId::from_id(name).ok_or_else(|| UnknownName::new(Kind::Metric, name, known.into()))
}

/// Find the name that was likely meant: one at a distance of a few letters (exchanged, missing or
/// superfluous ones), else the first one that begins with `name`.
fn nearest<'a>(name: &str, known: &'a [String]) -> Option<&'a str> {
    let name = name.to_lowercase();
    let letters = name.chars().count();
    let near = known.iter().filter_map(|known| {
        let distance = strsim::osa_distance(&name, known);
        let length = letters.max(known.chars().count());
        // To a single letter, every other letter is equally near.
        let is_near = distance <= (length / 3).max(1) && distance < letters;
        is_near.then_some((distance, known))
    });
    let begins = known
        .iter()
        .find(|known| letters > 2 && known.starts_with(&name));
    let near = near.min_by_key(|(distance, _)| *distance);
    near.map(|(_, known)| known).or(begins).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn the_nearest_name_is_said() {
        let all = known(&["pytorch", "candle", "llamacpp", "burn", "cpu", "cpu-1b"]);
        let cases = [
            ("cnadle", Some("candle")),
            ("Candle", Some("candle")),
            ("llama", Some("llamacpp")),
            ("brun", Some("burn")),
            ("cpu-1", Some("cpu-1b")),
            ("gpu", Some("cpu")),
            ("c", None),
            ("onnx", None),
        ];
        for (name, near) in cases {
            assert_eq!(nearest(name, &all), near, "{name}");
        }
        let runs = known(&["20260102-000000-cpu-1a2b", "20260101-000000-cpu-1a2b"]);
        assert_eq!(nearest("20260101", &runs), Some(runs[1].as_str()));
        assert_eq!(
            nearest("202601", &runs),
            Some(runs[0].as_str()),
            "the first"
        );
    }

    #[test]
    fn an_error_says_what_to_do() {
        let of = |kind, name: &str, all: &[&str]| UnknownName::new(kind, name, known(all));
        assert_eq!(
            of(Kind::Engine, "cnadle", &["candle"]).to_string(),
            "no engine \"cnadle\": did you mean candle? `cargo xtask list engines` lists what there is"
        );
        let all: Vec<String> = (0..12).map(|n| format!("metric-{n}")).collect();
        let many = UnknownName::new(Kind::Metric, "speed", all).to_string();
        assert!(many.contains("there are metric-0, metric-1,"), "{many}");
        assert!(many.contains("metric-7 and 4 more. `cargo"), "{many}");
        let run = of(Kind::Scenario, "x", &["single"]).in_that_run();
        assert_eq!(
            run.to_string(),
            "no scenario \"x\" in that run: there are single."
        );
    }

    #[test]
    fn it_is_known_by_its_type_whatever_stands_around_it() {
        use anyhow::Context;
        let unknown = Err::<(), _>(UnknownName::new(Kind::Run, "x", vec![]));
        let error = unknown.context("a model").context("a run").unwrap_err();
        assert!(is_refused(&error), "{error:?}");
        assert!(!is_refused(&anyhow::anyhow!("no run \"x\"")));
    }

    #[test]
    fn engines_and_targets_are_told_apart_by_their_dots() {
        let target = |id: &str| Target {
            id: id.into(),
            engine: id.split('.').next().unwrap_or_default().into(),
            backend: "cpu".into(),
            precision: "f32".into(),
            ..Target::default()
        };
        let targets = ["a-one.cpu.f32", "a-one.cpu.q8_0", "b-two.cpu.f32"].map(target);
        let check = |names: &[&str]| check_engines(&known(names), &targets);
        assert_eq!(check(&["a-one", "b-two.cpu.f32"]), Ok(()));
        let said = |names: &[&str]| check(names).unwrap_err().to_string();
        assert!(said(&["a-noe"]).starts_with("no engine \"a-noe\": did you mean a-one?"));
        let target = said(&["a-one", "a-one.cpu.q80"]);
        assert!(target.contains("did you mean a-one.cpu.q8_0?"), "{target}");
        assert!(target.contains("list targets"), "{target}");
    }
}
