//! A first result within minutes: where `bench-all` has much to compile, the engines that are
//! compiled first are measured for about a minute before the others are built. It is a run like any
//! other, of a profile of its own, but kept apart from the others: `latest` and the site ignore it,
//! and its report is not the report of the main run.

use super::{Options, create, measure, planned};
use anyhow::{Result, anyhow};
use base::interrupt;
use base::repo::{FIRST_LOOK_DIR, Repo};
use harness::plan::profile_targets;
use runs::page;
use runs::results::Results;
use schema::profile::Profile;
use schema::registry::{Registry, Target};
use std::path::{Path, PathBuf};
use watch::Control;

/// A first look that the profile and the user's options allow.
pub(crate) struct FirstLook<'a> {
    repo: &'a Repo,
    registry: &'a Registry,
    profile: String,
    runs_dir: PathBuf,
    control: Control,
    pub(super) targets: Vec<Target>,
}

impl<'a> FirstLook<'a> {
    /// Prepare the first look that a profile names; `None` where it names none, or where the user
    /// narrowed the run. A wrong name is an error in either case.
    pub(super) fn new(
        repo: &'a Repo,
        registry: &'a Registry,
        runs_dir: &Path,
        profile: &Profile,
        options: &Options,
    ) -> Result<Option<Self>> {
        let Some(id) = &profile.first_look else {
            return Ok(None);
        };
        // The profile names it, not the command line.
        let of_file =
            |why: anyhow::Error| anyhow!("data/profiles/{}.toml: first_look: {why}", profile.id);
        let look = repo.profile(id).map_err(of_file)?;
        if !is_wanted(options) {
            return Ok(None);
        }
        Ok(Some(Self {
            repo,
            registry,
            targets: profile_targets(&look, &registry.targets(), &[])?,
            profile: look.id,
            runs_dir: runs_dir.join(FIRST_LOOK_DIR),
            control: options.control.clone(),
        }))
    }

    /// Measure and render the first look while the programs in `left` aren't built yet. A failure
    /// causes only a warning, so that the main run goes on; an error is returned only where the
    /// user interrupts.
    pub(super) fn take(&self, left: &[String]) -> Result<()> {
        let taken = self.measure_and_render(left);
        interrupt::check()?;
        match taken {
            Ok(page) => println!(
                "A first look: {}\nThe report itself comes at the end; building goes on.",
                page.display()
            ),
            Err(error) => watch::warn(format!("There is no first look: {error:#}")),
        }
        Ok(())
    }

    fn measure_and_render(&self, left: &[String]) -> Result<PathBuf> {
        eprintln!(
            "Measuring a first look (about a minute) with the engines built so far; then building goes on"
        );
        let options = Options {
            profile: Some(self.profile.clone()),
            control: self.control.clone(),
            ..Options::default()
        };
        let (repo, registry) = (self.repo, self.registry);
        let results = Results::at(&self.runs_dir);
        let planned = planned(repo, registry, &results, &options)?;
        let opened = create(repo, registry, &self.runs_dir, &options, planned)?;
        let run = measure(self.repo, self.registry, &opened)?;
        let banner = banner(&self.names(left));
        page::render_apart(self.repo, run, &self.repo.first_look_dir(), &banner)
    }

    /// Return the names of the engines whose programs these are, without repeats.
    fn names(&self, programs: &[String]) -> Vec<&str> {
        let engines = self.registry.engines.iter();
        let is_left = |target: &Target| {
            let id = self.registry.program_id(target);
            id.is_some_and(|id| programs.contains(&id))
        };
        let targets = self.registry.targets();
        let left = engines.filter(|engine| {
            let mut own = targets.iter().filter(|target| target.engine == engine.id);
            own.any(is_left)
        });
        left.map(|engine| engine.name.as_str()).collect()
    }
}

/// Tell whether the user wants the whole of a new run, with its report.
fn is_wanted(options: &Options) -> bool {
    let narrows = !options.engines.is_empty() || !options.scenarios.is_empty();
    let own = options.model.is_some() || options.prompts.is_some();
    let changes = own || options.invocations.is_some();
    let is_part = options.shard.is_some() || options.budget_from.is_some();
    let has_no_time = options.stop_after.is_some();
    options.site && !(narrows || changes || is_part || has_no_time)
}

fn banner(left: &[&str]) -> String {
    let left = match left {
        [] => String::new(),
        left => format!(" Still being compiled: {}.", left.join(", ")),
    };
    format!(
        "A first look, not the report: few samples of the engines that were compiled first, so that there is something to see.{left} The report will be at target/site/index.html."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_wants_everything_gets_a_first_look() {
        let all = || Options {
            site: true,
            ..Options::default()
        };
        assert!(is_wanted(&all()));
        let changes: [fn(&mut Options); 7] = [
            |options| options.site = false,
            |options| options.engines = vec!["a".into()],
            |options| options.model = Some("m".into()),
            |options| options.invocations = Some(9),
            |options| options.prompts = Some("mine.jsonl".into()),
            |options| options.budget_from = Some("latest".into()),
            |options| options.stop_after = Some(1),
        ];
        for change in changes {
            let mut options = all();
            change(&mut options);
            assert!(!is_wanted(&options), "{options:?}");
        }
    }

    #[test]
    fn the_banner_says_what_is_missing() {
        let text = banner(&["A", "B"]);
        assert!(text.starts_with("A first look, not the report"), "{text}");
        assert!(text.contains("Still being compiled: A, B."), "{text}");
        assert!(!banner(&[]).contains("Still"));
    }

    #[test]
    fn an_unknown_first_look_is_an_error_of_the_profile_even_where_none_is_wanted() {
        let repo = Repo::find().unwrap();
        let registry = repo.registry().unwrap();
        let profile = Profile {
            id: "mine".into(),
            first_look: Some("no-such-profile".into()),
            ..Profile::default()
        };
        let options = Options::default();
        let look = FirstLook::new(&repo, &registry, &repo.runs_dir(), &profile, &options);
        let said = look.err().expect("there is no such profile").to_string();
        let file = "data/profiles/mine.toml: first_look: ";
        assert!(said.starts_with(file), "{said}");
        assert!(said.contains("no-such-profile"), "{said}");
    }

    #[test]
    fn the_profiles_that_name_a_first_look_name_one_that_can_be_taken() {
        let repo = Repo::find().unwrap();
        let registry = repo.registry().unwrap();
        let options = Options {
            site: true,
            ..Options::default()
        };
        let mut looks = 0;
        for profile in repo.profiles().unwrap() {
            let dir = repo.runs_dir();
            let look = FirstLook::new(&repo, &registry, &dir, &profile, &options).unwrap();
            let Some(look) = look else { continue };
            looks += 1;
            assert!(!look.targets.is_empty());
            assert_eq!(
                look.runs_dir,
                dir.join(FIRST_LOOK_DIR),
                "apart from the runs"
            );
            let own = repo.profile(&look.profile).unwrap();
            assert!(!own.publishable && own.first_look.is_none());
            assert_eq!(own.model, profile.model, "no other model is to be fetched");
            // One of its targets can judge outputs, so the first look needn't wait for PyTorch.
            let judges = registry.judges();
            assert!(look.targets.iter().any(|target| judges.contains(target)));
        }
        assert!(looks > 0, "no profile has a first look");
    }
}
