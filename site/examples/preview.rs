//! Renders a synthetic run, to look at the pages: `cargo run -p site --example
//! preview -- DIR [cpu|smoke|empty]`. No number in it was measured.

#[path = "../tests/rendered/common/mod.rs"]
mod common;

use anyhow::{Context, Result};
use std::path::Path;

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let dir = args.next().context("name a directory to write to")?;
    let runs = match args.next().as_deref() {
        Some("empty") => vec![],
        Some("smoke") => vec![common::run("smoke", 1, 5)],
        _ => vec![
            common::launch::with_twins(common::run("cpu", 5, 24), 24),
            common::run("smoke", 1, 5),
        ],
    };
    let world = common::world(runs);
    let pages = site::render(&world.input())?;
    for (path, bytes) in &pages {
        println!("{:>7} {path}", bytes.len());
    }
    site::write(&pages, Path::new(&dir))
}
