//! Takes a picture of the index page for link previews, with Chromium. Where there is no Chromium,
//! the site has no picture; that is printed and is no failure.

use anyhow::{Context, Result};
use std::path::Path;
use std::process::{Command, Stdio};

/// Names that Chromium's program may have.
const NAMES: [&str; 4] = [
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
];

/// Width and height of a link preview (px).
const SIZE: &str = "1200,630";

/// Take a picture (PNG) of a page on disk; `None` where no Chromium could take one.
pub fn of_page(index: &Path) -> Result<Option<Vec<u8>>> {
    let named = std::env::var("CHROMIUM")
        .ok()
        .filter(|name| !name.is_empty());
    let names = named.iter().map(String::as_str).chain(NAMES);
    for name in names {
        if let Some(picture) = take(name, index)? {
            return Ok(Some(picture));
        }
    }
    eprintln!("no preview picture: no Chromium took one (name one in CHROMIUM)");
    Ok(None)
}

/// Take the picture with one program; `None` where it doesn't exist or wrote no picture.
fn take(program: &str, index: &Path) -> Result<Option<Vec<u8>>> {
    let dir = tempfile::tempdir().context("a temporary directory for Chromium")?;
    let picture = dir.path().join("preview.png");
    let index = std::fs::canonicalize(index).context("the index page is gone")?;
    let status = Command::new(program)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--hide-scrollbars",
            &format!("--window-size={SIZE}"),
            &format!("--user-data-dir={}", dir.path().join("profile").display()),
            &format!("--screenshot={}", picture.display()),
            &format!("file://{}", index.display()),
        ])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    Ok(match status {
        Ok(_) => std::fs::read(&picture)
            .ok()
            .filter(|png| png.starts_with(b"\x89PNG")),
        Err(_) => None,
    })
}
