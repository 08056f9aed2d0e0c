//! The site rendered from made-up runs, and what must stand on its pages.

mod around;
mod common;
mod exhibits;
mod hostile;
#[path = "common/html.rs"]
mod html;
mod instrument;
mod micro;
mod own_prompts;
mod pages;
mod pins;
mod report;
mod reuse;
mod several;
#[path = "common/sound.rs"]
mod sound;
mod words;
