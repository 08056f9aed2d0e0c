//! What a reader must know before taking a target: how it was measured, which defects were mended,
//! how far it was verified, and whether its engine is still released.

use super::setup::batching;
use crate::view::Shown;
use crate::view::maturity::of_date;
use schema::registry::Target;
use serde::Serialize;
use std::collections::BTreeSet;

/// A caveat in two parts, of which a table shows the first alone.
#[derive(Clone, Serialize)]
pub(super) struct Caveat {
    /// What it is, in a few words.
    brief: String,
    /// The particulars; empty where there are none.
    rest: String,
    /// Whether it limits what the number says.
    warns: bool,
}

impl Caveat {
    /// A caveat without particulars.
    pub(super) fn new(brief: impl Into<String>) -> Self {
        Self {
            brief: brief.into(),
            rest: String::new(),
            warns: false,
        }
    }

    /// Whether it has particulars.
    pub(super) fn has_rest(&self) -> bool {
        !self.rest.is_empty()
    }

    /// Put words before it.
    pub(super) fn after(self, words: &str) -> Self {
        Self {
            brief: format!("{words}{}", self.brief),
            ..self
        }
    }

    /// Both parts as one text.
    pub(super) fn whole(&self) -> String {
        match self.rest.as_str() {
            "" => self.brief.clone(),
            rest => format!("{}: {rest}", self.brief),
        }
    }
}

/// Say that a target was not measured as it is deployed; empty if its engine is a client, which
/// measures a server.
pub(super) fn as_measured(shown: &Shown, target: &Target) -> String {
    let engine = shown.input.registry.engine(&target.engine);
    if engine.is_some_and(|engine| engine.test_server.is_some()) {
        return String::new();
    }
    let how = "Measured through an adapter of this project’s, not through a server.";
    match batching(shown, target).as_str() {
        "" => how.to_owned(),
        batching => format!("{how} Requests that came together: {batching}."),
    }
}

/// Say that a target's engine had no release in the year before it was read about; `None` where it
/// had one, or nothing was read.
pub(super) fn stale(shown: &Shown, target: &str) -> Option<Caveat> {
    let all = shown.input.maturity?;
    let dossier = all.dossier(&shown.target(target)?.engine)?;
    let newest = of_date(dossier.latest()?);
    let read = all.read_of(dossier);
    let said = || Caveat {
        brief: format!("no stable release in the year before {read}"),
        rest: format!("the newest is {newest}"),
        warns: false,
    };
    (dossier.releases_last_year == 0).then(said)
}

/// Say which defects of a target's engine its adapter mended, as the adapter declares them:
/// `a fix of ours, which <engine> lacks`, and which; `None` where it declares none.
pub(super) fn mended(shown: &Shown, target: &str) -> Option<Caveat> {
    let ready = shown.logs(target).flat_map(|log| log.ready.iter());
    let declared: BTreeSet<&str> = ready.flat_map(|ready| ready.mended()).collect();
    if declared.is_empty() {
        return None;
    }
    let id = shown.target(target).map(|target| target.engine.as_str());
    let engine = id.and_then(|id| shown.input.registry.engine(id));
    let name = engine.map_or("the engine", |engine| engine.name.as_str());
    let declared: Vec<&str> = declared.into_iter().collect();
    Some(Caveat {
        brief: format!("a fix of ours, which {name} lacks"),
        rest: declared.join("; "),
        warns: true,
    })
}

/// How far a target was verified and why not further; `None` if that is as far as the run asked
/// for. The rest of the record's reason names the prompt and the position, which the run's page
/// shows.
pub(super) fn limit(shown: &Shown, target: &str) -> Option<Caveat> {
    let record = shown.run.verify.get(target)?;
    let reason = record.reason.split("; ").next()?;
    let (brief, rest) = reason.split_once(": ").unwrap_or((reason, ""));
    (!brief.is_empty()).then(|| Caveat {
        brief: brief.into(),
        rest: rest.into(),
        warns: true,
    })
}
