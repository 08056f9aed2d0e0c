//! The page of all engines: a link to each engine's page, how old each is, and known engines that
//! are not measured, with the reason.

use super::{Card, engine_cards};
use crate::chart::Table;
use crate::fmt::NONE;
use crate::view::Shown;
use crate::view::frame::Frame;
use crate::view::maturity::{measured_in_any, package_of};
use crate::view::nav::engines_of;
use crate::view::paths::ENGINES;
use schema::maturity::{NotMeasured, Release};
use serde::Serialize;

/// The page of all engines.
#[derive(Serialize)]
pub struct Engines {
    frame: Frame,
    engines: Vec<Card>,
    read: String,
    beyond: Option<Table>,
    not_measured: Vec<NotMeasured>,
}

/// Make the page that links to every engine's page. Versions that the run shown lacks are those of
/// other runs in `all`.
pub fn page(shown: &Shown, all: &[Shown]) -> Engines {
    let about = "What each engine is, how it was built, within which scope its outputs are \
                 verified, and all of its results.";
    let known = shown.input.maturity;
    Engines {
        frame: shown.frame(ENGINES, "The engines", about),
        engines: engine_cards(shown),
        read: known.map(|all| all.read.clone()).unwrap_or_default(),
        not_measured: known.map_or_else(Vec::new, |all| all.not_measured.clone()),
        beyond: table(shown, all, &engines_of(shown.input, shown.run)),
    }
}

fn dated(release: Option<&Release>) -> String {
    match release {
        Some(release) => format!("{}, {}", release.version, release.date),
        None => NONE.into(),
    }
}

/// Make a table of all engines about which something is known; `None` where there are none.
fn table(shown: &Shown, all: &[Shown], engines: &[String]) -> Option<Table> {
    let known = shown.input.maturity?;
    let row = |id: &String| {
        let dossier = known.dossier(id)?;
        Some(vec![
            shown.input.engine_name(id).to_owned(),
            package_of(shown, dossier).unwrap_or_else(|| NONE.into()),
            dated(dossier.first.as_ref()),
            dated(dossier.latest()),
            match dossier.latest() {
                Some(_) => dossier.releases_last_year.to_string(),
                None => NONE.into(),
            },
            measured_in_any(shown, all, id).unwrap_or_else(|| NONE.into()),
        ])
    };
    let rows: Vec<Vec<String>> = engines.iter().filter_map(row).collect();
    let head = [
        "Engine",
        "Package",
        "First release there",
        "Newest there",
        "Releases in a year",
        "Measured",
    ];
    (!rows.is_empty()).then(|| Table::new(head, rows))
}
