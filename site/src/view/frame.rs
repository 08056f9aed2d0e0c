//! The frame around every page: its title, the way back to the root, navigation, banners that must
//! not be missed, and where the numbers come from.

use crate::Input;
use crate::view::instrument;
use crate::view::nav::Nav;
use crate::view::paths;
use schema::run::Run;
use serde::Serialize;

/// The frame of one page.
#[derive(Clone, Debug, Serialize)]
pub struct Frame {
    /// Title in the browser's tab.
    pub title: String,
    /// Description for search results and link previews.
    pub description: String,
    /// Prefix of every relative link: `""` or `"../"`.
    pub root: &'static str,
    /// Warnings above everything else.
    pub banners: Vec<String>,
    /// The navigation.
    pub nav: Nav,
    /// Path of the search page, or empty.
    pub search: &'static str,
    /// Id of the run shown, or empty.
    pub run_id: String,
    /// When the run started, RFC 3339, or empty.
    pub started: String,
    /// An SVG element with the markers' shapes, for every chart and table of the page.
    pub sprite: String,
    /// The harness's own error in the run, or a sentence that it isn't known.
    pub instrument: String,
    /// The page's address once the site is published, or empty.
    pub url: String,
    /// The address of the preview picture, or empty.
    pub picture: String,
}

impl Frame {
    /// Make the frame of the page at `path`; `run` is the run that the page is about.
    pub fn new(input: &Input, run: Option<&Run>, path: &str, title: &str, about: &str) -> Self {
        Self {
            title: title.to_owned(),
            description: about.to_owned(),
            root: if path.contains('/') { "../" } else { "" },
            banners: banners(input, run),
            nav: Nav::new(input, path),
            search: match input.runs.is_empty() {
                true => "",
                false => paths::SEARCH,
            },
            run_id: run.map(|r| r.header.id.clone()).unwrap_or_default(),
            started: run.map(|r| r.header.started.clone()).unwrap_or_default(),
            sprite: crate::chart::style::sprite(),
            instrument: run.map(instrument::sentence).unwrap_or_default(),
            url: published(input, path),
            picture: match input.publishing.picture {
                Some(_) => published(input, crate::PICTURE),
                None => String::new(),
            },
        }
    }
}

/// The address of a path once the site is published; empty where the site's address isn't known.
pub fn published(input: &Input, path: &str) -> String {
    let base = input.publishing.base_url;
    base.map_or(String::new(), |base| format!("{base}/{path}"))
}

fn banners(input: &Input, run: Option<&Run>) -> Vec<String> {
    let mut banners = Vec::from_iter(input.publishing.banner.map(str::to_owned));
    let Some(run) = run else {
        return banners;
    };
    let plan = &run.header.plan;
    if let Some(stopped) = run.header.origin.stopped {
        let limit = match plan.publishable {
            true => "",
            false => " Those are too few samples for any claim.",
        };
        banners.push(format!(
            "Stopped after {} of {} blocks, which are what is shown.{limit}",
            stopped.whole, stopped.planned
        ));
    } else if !plan.publishable && banners.is_empty() {
        let mut profiles = input.profiles.iter();
        let profile = profiles.find(|profile| profile.id == plan.profile);
        let about = profile.map_or(String::new(), |profile| format!(" {}", profile.about));
        banners.push(format!(
            "Not for publication. The profile “{}” has too few samples for any claim.{about}",
            plan.profile
        ));
    }
    if run.header.provenance.git_dirty == Some(true) {
        banners.push(
            "Made from changed files: the revision named here is not exactly what ran.".into(),
        );
    }
    banners
}
