//! The house rules for GitHub's workflows: pinned actions, few permissions, no code of strangers on
//! our machines, no text from outside (such as a title) in a shell. They work without linters;
//! actionlint and zizmor (`crate::lint`) check the rest.

use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

#[derive(Deserialize)]
struct Workflow {
    on: Value,
    permissions: Option<Value>,
    concurrency: Option<Value>,
    jobs: BTreeMap<String, Job>,
}

#[derive(Deserialize)]
struct Job {
    #[serde(rename = "runs-on", default)]
    runs_on: Value,
    #[serde(rename = "if")]
    condition: Option<String>,
    #[serde(rename = "timeout-minutes")]
    timeout: Option<Value>,
    permissions: Option<Value>,
    #[serde(default)]
    steps: Vec<Step>,
}

#[derive(Deserialize)]
struct Step {
    uses: Option<String>,
    run: Option<String>,
    #[serde(rename = "if")]
    condition: Option<Value>,
    #[serde(default)]
    with: BTreeMap<String, Value>,
}

/// Return the complaints about a workflow.
pub fn check(name: &str, text: &str) -> Vec<String> {
    let mut complaints = unpinned(name, text);
    let workflow: Workflow = match serde_saphyr::from_str(text) {
        Ok(workflow) => workflow,
        Err(error) => {
            complaints.push(format!("{name}: no workflow: {error}"));
            return complaints;
        }
    };
    let mut complain = |what: String| complaints.push(format!("{name}: {what}"));
    // Each job states its own permissions, so the workflow itself grants none.
    if workflow.permissions.as_ref().is_none_or(grants) {
        complain("begins without `permissions: {}`: each job says what it needs".into());
    }
    if workflow.concurrency.is_none() {
        complain("has no `concurrency`".into());
    }
    for trigger in ["pull_request_target", "workflow_run"] {
        if names(&workflow.on, trigger) {
            complain(format!(
                "`on: {trigger}` gives a stranger's code our rights"
            ));
        }
    }
    let strangers = names(&workflow.on, "pull_request");
    for (id, job) in &workflow.jobs {
        if job.permissions.is_none() {
            complain(format!("job {id} doesn't say which permissions it needs"));
        }
        if job.timeout.is_none() {
            complain(format!("job {id} has no `timeout-minutes`"));
        }
        if names(&job.runs_on, "self-hosted") {
            let is_ours = "github.event.repository.fork == false";
            let condition = job.condition.as_deref().unwrap_or_default();
            if strangers || !condition.contains(is_ours) {
                complain(format!(
                    "job {id} is self-hosted: no pull request may start it, and `if: {is_ours}` must stand there"
                ));
            }
            if keeps_leftovers(&job.steps) {
                complain(format!(
                    "job {id} is self-hosted and keeps what earlier runs left (`clean: false`): take it away by `git clean`"
                ));
            }
            if job.steps.iter().any(uploads_only_success) {
                complain(format!(
                    "job {id} is self-hosted and loses its records where a step fails: give the upload `if: ${{{{ !cancelled() }}}}`"
                ));
            }
        }
        for step in &job.steps {
            if step.run.as_ref().is_some_and(|run| run.contains("${{")) {
                complain(format!(
                    "job {id} puts `${{{{ … }}}}` into a script: give it a variable by `env`"
                ));
            }
            let is_checkout = |uses: &String| uses.starts_with("actions/checkout@");
            let keeps = step.with.get("persist-credentials") != Some(&Value::Bool(false));
            if step.uses.as_ref().is_some_and(is_checkout) && keeps {
                complain(format!(
                    "job {id} checks out without `persist-credentials: false`"
                ));
            }
        }
    }
    complaints
}

/// Tell whether a checkout keeps files of earlier runs and no step cleans them up.
fn keeps_leftovers(steps: &[Step]) -> bool {
    let leaves = |step: &Step| step.with.get("clean") == Some(&Value::Bool(false));
    let cleans = |step: &Step| {
        step.run
            .as_ref()
            .is_some_and(|run| run.contains("git clean"))
    };
    steps.iter().any(leaves) && !steps.iter().any(cleans)
}

/// Tell whether a step uploads files, but is skipped where an earlier step failed.
fn uploads_only_success(step: &Step) -> bool {
    let uses = step.uses.as_deref().unwrap_or_default();
    let condition = step.condition.as_ref().and_then(Value::as_str);
    let runs_after_failure = condition.is_some_and(|condition| {
        ["!cancelled()", "always()"]
            .iter()
            .any(|status| condition.contains(*status))
    });
    uses.starts_with("actions/upload-artifact@") && !runs_after_failure
}

/// Check that every action is pinned by commit, with its version in a comment. Reads the text,
/// because the YAML parser drops comments.
fn unpinned(name: &str, text: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim().trim_start_matches("- ");
        let Some(action) = line.strip_prefix("uses:").map(str::trim) else {
            continue;
        };
        let (action, comment) = action.split_once(" # ").unwrap_or((action, ""));
        let commit = action
            .split_once('@')
            .map_or("", |(_, commit)| commit.trim());
        let is_commit = commit.len() == 40 && commit.bytes().all(|b| b.is_ascii_hexdigit());
        let is_pinned = is_commit && comment.starts_with('v');
        if !(is_pinned || action.starts_with("./")) {
            complaints.push(format!(
                "{name}:{}: {action}: pin it by commit, and say the version: `@<40 hex digits> # v1.2.3`",
                number + 1
            ));
        }
    }
    complaints
}

/// Tell whether permissions grant anything at all.
fn grants(permissions: &Value) -> bool {
    !permissions.as_object().is_some_and(|all| all.is_empty())
}

/// Tell whether a word is the value, an item of the list, or a key of the map.
fn names(value: &Value, word: &str) -> bool {
    match value {
        Value::String(one) => one == word,
        Value::Array(all) => all.iter().any(|one| one == word),
        Value::Object(all) => all.contains_key(word),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FINE: &str = "\
on: workflow_dispatch
permissions: {}
concurrency: x
jobs:
  a:
    if: github.event.repository.fork == false
    runs-on: [self-hosted, linux]
    timeout-minutes: 5
    permissions:
      contents: read
    steps:
      - uses: actions/checkout@de0fac2e4500dabe0009e67214ff5f5447ce83dd # v6.0.2
        with:
          persist-credentials: false
      - uses: ./local
      - run: echo \"$TITLE\"
        env:
          TITLE: ${{ github.event.pull_request.title }}
      - uses: actions/upload-artifact@b7c566a772e6b6bfb58ed0dc250532a479d7789f # v6.0.0
        if: ${{ !cancelled() }}
        with:
          path: records
";

    #[test]
    fn a_careful_workflow_is_fine_and_each_planted_mistake_is_found() {
        assert_eq!(check("a.yml", FINE), Vec::<String>::new());
        let commit = "@de0fac2e4500dabe0009e67214ff5f5447ce83dd";
        let pin = "@de0fac2e4500dabe0009e67214ff5f5447ce83dd # v6.0.2";
        let on = "workflow_dispatch";
        let ours = "    if: github.event.repository.fork == false\n";
        let rights = "    permissions:\n      contents: read\n";
        let keep = "persist-credentials: false";
        let unclean = "persist-credentials: false\n          clean: false";
        let mistakes = [
            (pin, "@v6", "pin it by commit"),
            (pin, commit, "say the version"),
            ("\"$TITLE\"", "${{ github.head_ref }}", "into a script"),
            ("permissions: {}\n", "", "without `permissions: {}`"),
            (": {}\n", ": write-all\n", "without `permissions"),
            ("concurrency: x\n", "", "no `concurrency`"),
            ("    timeout-minutes: 5\n", "", "timeout-minutes"),
            (rights, "", "which permissions"),
            (on, "[push, pull_request]", "is self-hosted"),
            (on, "\n  pull_request_target:\n", "a stranger's code"),
            (ours, "", "is self-hosted"),
            (keep, "fetch-depth: 0", "checks out without"),
            (keep, unclean, "what earlier runs left"),
            ("        if: ${{ !cancelled() }}\n", "", "loses its records"),
            ("!cancelled()", "success()", "loses its records"),
            ("jobs:", "jobs: [", "no workflow"),
        ];
        for (from, to, expected) in mistakes {
            let text = FINE.replacen(from, to, 1);
            assert_ne!(text, FINE, "{from}");
            let found = check("a.yml", &text).join("\n");
            assert!(found.contains(expected), "{expected}: {found:?}");
        }
    }
}
