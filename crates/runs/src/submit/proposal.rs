//! The pull request that proposes a run: its branch, its text, and the commands that its author
//! runs. Text from a record is quoted as code (`markdown_code`), so that nothing in it is markup.

use super::checks::Check;
use crate::summary::{Places, Summary};
use base::repo::Repo;
use base::text::{markdown_code, shell_word, without_escapes};
use schema::run::Run;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Maximum number of characters of a value in a table.
const CHARS_MAX: usize = 200;
/// The machine's facts that the text shows, each with the label that it has there.
const FACTS: [(&str, &str); 6] = [
    ("gpu", "GPU"),
    ("cpu_model", "processor"),
    ("cpu_flags", "instruction sets"),
    ("cpus", "CPUs"),
    ("memory_bytes", "memory (bytes)"),
    ("kernel", "kernel"),
];

/// The files that were written, and how to propose them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Proposal {
    /// Path of the packed run, relative to the root of the checkout.
    pub(super) packed: PathBuf,
    /// Path of the pull request's text, relative to the root of the checkout.
    pub(super) text: PathBuf,
    /// The branch's name.
    pub(super) branch: String,
    /// The pull request's title, which is also the commit's message.
    pub(super) title: String,
    /// The commands that commit and push the run, to be run in the root of the checkout.
    pub(super) commands: Vec<String>,
}

impl Proposal {
    pub(super) fn new(repo: &Repo, id: &str, packed: &Path, text: &Path) -> Self {
        let inside = |path: &Path| path.strip_prefix(&repo.root).unwrap_or(path).to_owned();
        let (packed, text) = (inside(packed), inside(text));
        let branch = format!("results/{id}");
        let title = format!("Record {id}");
        let commands = vec![
            format!("git switch --create {branch} main"),
            format!("git add {}", shell_word(&packed)),
            format!("git commit --message '{title}'"),
            format!("git push --set-upstream origin {branch}"),
        ];
        Self {
            packed,
            text,
            branch,
            title,
            commands,
        }
    }

    /// Describe what the author does next.
    pub(super) fn steps(&self) -> String {
        let commands: Vec<String> = self.commands.iter().map(|c| format!("  {c}\n")).collect();
        format!(
            "Packed: {}\nText:   {}\nNothing was pushed. In the root of your checkout, a fork's:\n{}Then open a pull request from {} with that text, \"{}\".\n",
            self.packed.display(),
            self.text.display(),
            commands.concat(),
            self.branch,
            self.title
        )
    }
}

/// Write the text of the pull request, in Markdown.
pub(super) fn text(
    run: &Run,
    summary: &Summary,
    checks: &[Check],
    packed_bytes: u64,
    proposal: &Proposal,
) -> String {
    let header = &run.header;
    let provenance = &header.provenance;
    let revision = provenance.git_revision.as_deref().unwrap_or_default();
    let own = [
        ("run", header.id.as_str()),
        ("profile", header.plan.profile.as_str()),
        ("model", header.plan.model.as_str()),
        ("begun", header.started.as_str()),
        ("revision", revision),
    ];
    let facts = FACTS.iter().filter_map(|(key, name)| {
        let value = provenance.facts.get(*key)?;
        Some((*name, value.as_str()))
    });
    let mut text = format!("{}.\n\n| | |\n|---|---|\n", proposal.title);
    for (name, value) in own.into_iter().chain(facts) {
        text += &format!("| {name} | {} |\n", markdown_code(value, CHARS_MAX));
    }
    text += &format!("| packed | {:.1} MB |\n", packed_bytes as f64 / 1e6);
    let places = Places {
        records: &proposal.packed,
        report: None,
    };
    // Three backticks would end the fence.
    let screen = without_escapes(&summary.screen(&places)).replace('`', "'");
    text += &format!("\n## What leads, and what has no numbers\n\n```text\n{screen}```\n");
    text += "\n## Checks\n\n| check | result | found |\n|---|---|---|\n";
    for check in checks {
        let found = markdown_code(&check.finding, CHARS_MAX);
        text += &format!("| {} | {} | {found} |\n", check.name, check.result());
    }
    text += "\n## The parity gate\n\n| target | verdict | scope | verified to (tokens) | KL (nats) |\n|---|---|---|--:|--:|\n";
    for verify in run.verify.values() {
        let positions = verify.verified_positions.map(|n| n.to_string());
        let kl = verify.kl_nats.map(|kl| format!("{kl:.1e}"));
        let columns = [
            markdown_code(&verify.target, CHARS_MAX),
            markdown_code(verify.status.id(), CHARS_MAX),
            markdown_code(&verify.scope, CHARS_MAX),
            positions.unwrap_or_default(),
            kl.unwrap_or_default(),
        ];
        text += &format!("| {} |\n", columns.join(" | "));
    }
    text
}
