//! Renders the site from synthetic runs, and checks what must stand on its pages.

mod advice;
mod common;
mod cost;
mod downloads;
mod engine;
mod exhibits;
mod guide;
mod hostile;
#[path = "common/html.rs"]
mod html;
mod instrument;
mod micro;
mod other_runs;
mod pages;
mod report;
mod run_page;
mod search;
mod several;
mod whole_site;
mod words;
