//! Renders recorded runs with this checkout's data, to look at the pages without building the
//! harness: `cargo run --release -p site --example records -- DIR RUN…`, where each RUN is the
//! directory of a run, and the first one is shown. Readers use `cargo xtask site` instead: it finds
//! the runs itself, and writes to the documented path.

use anyhow::{Context, Result, ensure};
use schema::claims::Claims;
use schema::error::read_json;
use schema::golden::ParityLimits;
use schema::hypothesis::Hypotheses;
use schema::maturity::Maturity;
use schema::model::Models;
use schema::profile::Profile;
use schema::registry::Registry;
use schema::run::Run;
use schema::scenario::Scenario;
use std::path::Path;

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let dir = args.next().context("name a directory to write to")?;
    let runs = args
        .map(|run| Ok(Run::load(Path::new(&run))?))
        .collect::<Result<Vec<Run>>>()?;
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .context("the crate lies in the checkout")?;
    let scenarios = Scenario::load_all(&root.join("data/scenarios"))?;
    let registry = Registry::load(&root.join("engines/engines.toml"))?;
    let models = Models::load(&root.join("data/models.toml"))?;
    let profiles = ["cpu", "cpu-1b", "gpu", "smoke"]
        .map(|id| Profile::load(&root.join(format!("data/profiles/{id}.toml"))))
        .into_iter()
        .collect::<Result<Vec<_>, _>>()?;
    let parity = ParityLimits::load(&root.join("data/parity.toml"))?;
    let simulation = read_json(&root.join("data/simulation.json"))?;
    let path = root.join("data/hypotheses.toml");
    let hypotheses = Hypotheses::load(&path, &registry, &scenarios)?;
    let faults = stats::hypotheses::validate(&hypotheses);
    ensure!(
        faults.is_empty(),
        "{}: {}",
        path.display(),
        faults.join("; ")
    );
    let maturity = Maturity::load(root, &registry)?;
    let claims = Claims::load(root, &registry)?;
    let prices = schema::prices::Prices::newest(&root.join("data/prices"))?;
    let suites = schema::micro::Suite::load_all(&root.join("data/scenarios/micro"))?;
    let pages = site::render(&site::Input {
        runs: &runs,
        scenarios: &scenarios,
        suites: &suites,
        registry: &registry,
        models: &models,
        shipped: &[],
        profiles: &profiles,
        parity: Some(&parity),
        simulation: Some(&simulation),
        adapters: None,
        hypotheses: Some(&hypotheses),
        prices: prices.as_ref(),
        maturity: maturity.as_ref(),
        claims: claims.as_ref(),
        publishing: site::Publishing::default(),
        authored: &Default::default(),
    })?;
    for (path, bytes) in &pages {
        println!("{:>7} {path}", bytes.len());
    }
    site::write(&pages, Path::new(&dir))
}
