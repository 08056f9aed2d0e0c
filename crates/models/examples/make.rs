//! Writes one embedded model: `cargo run --release -p models --example make -- tiny-llama OUT`. A
//! third argument names the file of trained weights.
//!
//! It is for trying things by hand; benchmarks use the command `cargo xtask fetch`.

use std::path::Path;

use anyhow::{Context, Result};
use models::{Origin, Trained};

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let id = args.next().context("which model? e.g. tiny-llama")?;
    let dir = args.next().context("into which folder?")?;
    let spec = models::ModelSpec::named(&id).with_context(|| format!("no model named {id:?}"))?;
    let start = std::time::Instant::now();
    let mut last = String::new();
    let weights = args.next();
    let trained = weights.map(|path| Trained::load(&spec, path.as_ref()));
    let trained = trained.transpose()?;
    let origin = trained.as_ref().map_or(Origin::Seed, Origin::Trained);
    models::generate(&spec, origin, Path::new(&dir), &mut |what, fraction| {
        let line = format!("{what} {:3.0} %", 100.0 * fraction);
        if line != last {
            eprint!("\r{line:40}");
            last = line;
        }
    })?;
    eprintln!("\r{dir}: {:.1} s{:30}", start.elapsed().as_secs_f64(), "");
    Ok(())
}
