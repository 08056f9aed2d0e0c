//! `cargo xtask list`: lists what can be chosen, by the names that every other command takes. It
//! reads data/, engines/ and the headers of runs, and nothing else.

mod rows;

use anyhow::Result;
use base::repo::Repo;
use base::text::{WIDTH_MAX, few, fitted};
use clap::ValueEnum;
use rows::Listing;
use runs::results::Results;
use serde_json::{Map, Value};
use std::path::PathBuf;

/// Maximum number of names of each kind where all kinds are listed.
const NAMES_MAX: usize = 12;

/// What the command line says.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// What to list; by default a few names of everything.
    #[arg(value_enum)]
    pub kind: Option<Kind>,
    /// Directory of the runs, where it isn't runs and data/results.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print JSON: an array of objects; where no kind is named, an object with one such array for
    /// each.
    #[arg(long)]
    pub json: bool,
}

/// What can be listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Inference engines, with what each is.
    Engines,
    /// An engine, a backend and a precision each, and the profiles that run them.
    Targets,
    /// What is asked of an engine, and the micro suites.
    Scenarios,
    /// How much is measured, and how long that takes.
    Profiles,
    /// Models, their sizes, and whether they are here.
    Models,
    /// Runs on disk, the newest first.
    Runs,
    /// What is measured, for `compare --metric`.
    Metrics,
}

impl Kind {
    /// Return the word for this kind on the command line.
    fn id(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

/// Print the list.
pub fn command(repo: &Repo, options: &Options) -> Result<()> {
    let runs = Results::new(repo, options.out.as_deref());
    match (options.kind, options.json) {
        (Some(kind), true) => print_json(&listing(repo, &runs, kind)?.json),
        (Some(kind), false) => {
            print!("{}", listing(repo, &runs, kind)?.text());
            Ok(())
        }
        (None, true) => {
            let mut all = Map::new();
            for kind in Kind::value_variants() {
                all.insert(kind.id(), listing(repo, &runs, *kind)?.json);
            }
            print_json(&Value::Object(all))
        }
        (None, false) => {
            print!("{}", overview(repo, &runs)?);
            println!("\n`cargo xtask list {}` says more of one kind", words());
            Ok(())
        }
    }
}

fn words() -> String {
    let kinds = Kind::value_variants().iter().map(|kind| kind.id());
    kinds.collect::<Vec<_>>().join("|")
}

fn print_json(value: &Value) -> Result<()> {
    println!("{}", serde_json::to_string_pretty(value)?);
    Ok(())
}

/// List every kind with its number and a few names.
fn overview(repo: &Repo, runs: &Results) -> Result<String> {
    let mut rows = Vec::new();
    for kind in Kind::value_variants() {
        let listing = listing(repo, runs, *kind)?;
        let ids: Vec<&str> = listing.rows.iter().map(|row| row[0].as_str()).collect();
        let named = few(&ids, NAMES_MAX, ", ");
        rows.push([kind.id(), ids.len().to_string(), named]);
    }
    Ok(fitted(rows, WIDTH_MAX))
}

fn listing(repo: &Repo, runs: &Results, kind: Kind) -> Result<Listing> {
    match kind {
        Kind::Engines => rows::engines(repo),
        Kind::Targets => rows::targets(repo),
        Kind::Scenarios => rows::scenarios(repo),
        Kind::Profiles => rows::profiles(repo),
        Kind::Models => rows::models(repo),
        Kind::Runs => Ok(rows::runs(runs)),
        Kind::Metrics => Ok(rows::metrics()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Listing> {
        let repo = Repo::find().unwrap();
        let runs = Results::new(&repo, None);
        let kinds = Kind::value_variants().iter();
        kinds
            .map(|kind| listing(&repo, &runs, *kind).unwrap())
            .collect()
    }

    #[test]
    fn every_listing_fits_a_hundred_columns() {
        for listing in all() {
            let text = listing.text();
            for line in text.lines() {
                assert!(line.chars().count() <= 100, "{line}");
            }
            assert!(
                listing
                    .rows
                    .iter()
                    .all(|row| row.len() == listing.head.len())
            );
        }
        let repo = Repo::find().unwrap();
        let text = overview(&repo, &Results::new(&repo, None)).unwrap();
        assert_eq!(text.lines().filter(|l| !l.starts_with(' ')).count(), 7);
        assert!(
            text.lines().all(|line| line.chars().count() <= 100),
            "{text}"
        );
    }

    #[test]
    fn json_has_the_same_names_as_the_text_and_the_hidden_ones() {
        for listing in all() {
            let items = listing.json.as_array().unwrap();
            assert_eq!(items.len(), listing.rows.len() + listing.hidden);
            let ids: Vec<&str> = items.iter().map(|i| i["id"].as_str().unwrap()).collect();
            for row in &listing.rows {
                assert!(ids.contains(&row[0].as_str()), "{}", row[0]);
            }
        }
    }

    #[test]
    fn where_there_is_nothing_that_is_said() {
        let listing = rows::runs(&Results::at("/nowhere".as_ref()));
        assert_eq!(listing.text(), "There is none\n");
        assert_eq!(listing.json, serde_json::json!([]));
    }
}
