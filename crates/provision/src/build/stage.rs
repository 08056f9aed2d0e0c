//! The build stage of a command: builds every program once, those of targets and of micro suites,
//! in the order of `order`. Python downloads run while Cargo compiles. The stage reports what is
//! being built and how long the rest will take.

use super::order::{self, Job};
use super::python::{self, Environment};
use super::{EngineFailure, Program, cargo, make};
use anyhow::{Result, bail};
use base::repo::Repo;
use base::text::few;
use harness::devices::Named;
use harness::programs::{Made, Programs};
use schema::adoption::Built;
use schema::budget::about;
use schema::registry::{Build, Registry, Target};
use std::collections::BTreeMap;
use std::thread::ScopedJoinHandle;
use std::time::Instant;
use watch::emit;
use watch::eta::{self, Work};
use watch::event::{Event, Expected, Group, Item};

/// A first look is worth its time where building the first programs took longer than `COMPILED_S`,
/// and building the rest should take longer than `LEFT_S` (s).
const COMPILED_S: f64 = 5.0;
const LEFT_S: f64 = 60.0;

/// The programs that a command needs, which are to be built.
pub struct Stage<'a> {
    repo: &'a Repo,
    registry: &'a Registry,
    jobs: Vec<Job>,
    /// Ids of the programs that a first look needs; empty where there won't be one.
    first: Vec<String>,
    programs: Programs,
}

type Outcome = Result<(Program, Option<Built>), EngineFailure>;

impl<'a> Stage<'a> {
    /// Prepare the programs of `targets` and of micro suites; those of `first` come first. Targets
    /// that have no device to run on here are left out, unless they are `named`.
    pub fn new<'t>(
        repo: &'a Repo,
        registry: &'a Registry,
        targets: impl IntoIterator<Item = &'t Target>,
        micro: &[schema::micro::Program],
        first: &[Target],
        named: &Named,
    ) -> Result<Self> {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        let mut programs = Programs::default();
        let mut jobs: Vec<Job> = Vec::new();
        let mut add = |id: &str, how: &Build, engine: Option<&str>, build_s: Option<u32>| {
            if !jobs.iter().any(|job| job.id == *id) {
                let is_there = is_there(repo, id, how);
                jobs.push(Job::new(id, how, engine, is_there, build_s, cores));
            }
        };
        for target in targets {
            if let Some(failure) = named.lacking(registry, &target.backend, &target.id) {
                programs.lacking.insert(target.id.clone(), failure);
                continue;
            }
            let Some(engine) = registry.engine(&target.engine) else {
                bail!("no engine {:?} in engines/engines.toml", target.engine)
            };
            let id = engine.program_id(&target.backend);
            let build_s = registry.build_s.get(&id).copied();
            let how = engine.build_for(&target.backend);
            add(&id, how, Some(&engine.id), build_s);
            programs.of.insert(target.id.clone(), id);
        }
        for program in micro {
            add(&program.id, &program.build, None, program.build_s);
        }
        let first: Vec<String> = first
            .iter()
            .filter_map(|target| registry.program_id(target))
            .filter(|id| jobs.iter().any(|job| job.id == *id))
            .collect();
        Ok(Self {
            repo,
            registry,
            jobs: order::order(jobs, &first),
            first,
            programs,
        })
    }

    /// The targets that have no device to run on here, and why.
    pub fn without_device(&self) -> impl Iterator<Item = (&str, &EngineFailure)> {
        let lacking = self.programs.lacking.iter();
        lacking.map(|(id, failure)| (id.as_str(), failure))
    }

    /// A line for each program that can't be had here, as far as that is known before anything is
    /// compiled or downloaded.
    pub fn missing(&self) -> impl Iterator<Item = String> {
        let why = move |job: &Job| Some(format!("{}: {}", job.id, missing(self.repo, &job.how)?));
        self.jobs.iter().filter_map(why)
    }

    /// The ids of the programs that were built here before.
    pub fn built_before(&self) -> Vec<&str> {
        let is_there = |job: &&Job| job.is_there && missing(self.repo, &job.how).is_none();
        let there = self.jobs.iter().filter(is_there);
        there.map(|job| job.id.as_str()).collect()
    }

    /// A few lines on what is to be built; empty where everything was built before. At most
    /// `names_max` programs are named.
    pub fn announcement(&self, names_max: usize) -> String {
        let left = self.jobs.iter().filter(|job| !job.is_there);
        let (downloads, builds): (Vec<&Job>, Vec<&Job>) =
            left.partition(|job| job.is_environment());
        let mut lines = String::new();
        if !builds.is_empty() {
            let names: Vec<&str> = builds.iter().map(|job| job.id.as_str()).collect();
            let all_s: f64 = builds.iter().map(|job| job.expected_s).sum();
            lines.push_str(&format!(
                "To be built, about {}: {}\n",
                about(all_s),
                few(&names, names_max, ", ")
            ));
        }
        let mut ids: Vec<&str> = downloads.iter().map(|job| job.id.as_str()).collect();
        ids.sort_unstable();
        let who = match ids.split_last() {
            None => return lines,
            Some((only, [])) => format!("{only} needs"),
            Some((last, others)) => format!("{} and {last} need", others.join(", ")),
        };
        lines.push_str(&format!(
            "To be downloaded meanwhile, some GB: what {who}\n"
        ));
        lines
    }

    /// Build the programs. `soon` is called at most once, where that is worth its time: when the
    /// first programs are built and nothing is being downloaded, with the ids of those that are
    /// left.
    pub fn run(mut self, mut soon: impl FnMut(&[String]) -> Result<()>) -> Result<Programs> {
        let mut progress = Progress::begin(&self.jobs);
        let (repo, registry) = (self.repo, self.registry);
        let download = |job: &Job| job.is_environment() && !job.is_there;
        let mut look_is_due = !self.first.is_empty();
        let mut first_took_s = 0.0;
        std::thread::scope(|scope| {
            let mut beside: Option<(Job, ScopedJoinHandle<Outcome>)> = None;
            while !self.jobs.is_empty() || beside.is_some() {
                base::interrupt::check()?;
                let is_over = |(job, thread): &(Job, ScopedJoinHandle<Outcome>)| {
                    thread.is_finished() || order::next(&self.jobs, Some(job)).is_none()
                };
                if let Some((job, thread)) = beside.take_if(|beside| is_over(beside)) {
                    watch::begin(Progress::GROUP, job.id.as_str());
                    let outcome = thread.join();
                    let outcome = outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                    base::interrupt::check()?;
                    self.done(&job, outcome);
                    progress.took(&job.id, 0.0);
                    continue;
                }
                let first_stand = !self.jobs.iter().any(|job| self.first.contains(&job.id));
                if look_is_due && first_stand && beside.is_none() {
                    look_is_due = false;
                    if first_took_s > COMPILED_S && order::expected_s(&self.jobs) > LEFT_S {
                        let left = self.jobs.iter().filter(|job| !job.is_there);
                        soon(&left.map(|job| job.id.clone()).collect::<Vec<_>>())?;
                        watch::stage(watch::event::Stage::Build);
                    }
                }
                // One download at a time, each while Cargo compiles.
                // The longest one first, because other programs wait for it.
                let jobs = self.jobs.iter().enumerate();
                let downloads = jobs.filter(|(_, job)| download(job));
                let longest = downloads.max_by(|a, b| a.1.expected_s.total_cmp(&b.1.expected_s));
                if let (None, Some((at, _))) = (&beside, longest) {
                    let job = self.jobs.remove(at);
                    let alone = order::next(&self.jobs, Some(&job)).is_none();
                    let (id, how) = (job.id.clone(), job.how.clone());
                    let work = move || match alone {
                        true => make(repo, registry, &id, &how),
                        // The main thread shows what it compiles meanwhile.
                        false => python::beside(|| make(repo, registry, &id, &how)),
                    };
                    beside = Some((job, scope.spawn(work)));
                }
                let running = beside.as_ref().map(|(job, _)| job);
                let Some(at) = order::next(&self.jobs, running) else {
                    continue;
                };
                let job = self.jobs.remove(at);
                progress.say(&job);
                watch::begin(Progress::GROUP, job.id.as_str());
                let began = Instant::now();
                let outcome = make(repo, registry, &job.id, &job.how);
                // An interrupt ends Cargo and pip too, which is no failure of the program.
                base::interrupt::check()?;
                if self.first.contains(&job.id) {
                    first_took_s += began.elapsed().as_secs_f64();
                }
                self.done(&job, outcome);
                progress.took(&job.id, began.elapsed().as_secs_f64());
            }
            Ok(self.programs)
        })
    }

    fn done(&mut self, job: &Job, outcome: Outcome) {
        let failure = outcome.as_ref().err().map(ToString::to_string);
        if let Some(failure) = &failure {
            watch::warn(format!("{}: {failure}", job.id));
        }
        watch::end(&failure.unwrap_or_default());
        match &job.engine {
            Some(engine) => {
                let made = outcome.map(|(program, built)| Made {
                    program,
                    engine: engine.clone(),
                    how: job.how.clone(),
                    built,
                });
                self.programs.made.insert(job.id.clone(), made);
            }
            None => {
                let program = outcome.map(|(program, _)| program);
                self.programs.micro.insert(&job.id, program);
            }
        }
    }
}

/// Whether a program was built here before. Cargo finds out later whether it is up to date.
fn is_there(repo: &Repo, id: &str, how: &Build) -> bool {
    match how {
        Build::Cargo(how) => cargo::kept_path(repo, id, &how.bin).exists(),
        Build::Prebuilt { .. } => true,
        Build::Python {
            requirements,
            environment,
            ..
        } => Environment::new(repo, environment, requirements).stands(),
    }
}

/// Whether a target's program was built here before and has all that it needs.
pub fn is_built(repo: &Repo, registry: &Registry, target: &Target) -> bool {
    let (Some(engine), Some(id)) = (registry.engine(&target.engine), registry.program_id(target))
    else {
        return false;
    };
    let how = engine.build_for(&target.backend);
    is_there(repo, &id, how) && missing(repo, how).is_none()
}

/// The reason why a target's program can't be had here, as far as that can be seen without making
/// it.
pub fn why_missing(repo: &Repo, registry: &Registry, target: &Target) -> Option<String> {
    let engine = registry.engine(&target.engine)?;
    missing(repo, engine.build_for(&target.backend))
}

/// The same of a program that is built in this way.
fn missing(repo: &Repo, how: &Build) -> Option<String> {
    match how {
        Build::Cargo(_) => None,
        Build::Prebuilt { path, .. } => {
            let file = repo.root.join(path);
            (!file.is_file()).then(|| format!("{} is not there", file.display()))
        }
        Build::Python {
            requirements,
            environment,
            ..
        } => Environment::new(repo, environment, requirements).missing(),
    }
}

struct Progress {
    /// What is known of the work on each program that is to be built, by its id.
    all: BTreeMap<String, Work>,
}

impl Progress {
    /// The name of the programs' group in progress events.
    const GROUP: &str = "programs";

    /// Emit the progress events that say what there is to do.
    fn begin(jobs: &[Job]) -> Self {
        let item = |job: &Job| Item {
            expected: Some(Expected {
                launch_s: job.expected_s,
                ..Expected::default()
            }),
            ..Item::waiting(&job.id, 1)
        };
        emit(Event::Group(Group {
            name: Self::GROUP.into(),
            items: jobs.iter().map(item).collect(),
        }));
        let work = |job: &Job| Work {
            // A download runs beside the compilation and adds no time.
            expected_s: (!job.is_environment()).then_some(job.expected_s),
            left: u32::from(!job.is_environment()),
            ..Work::default()
        };
        let left = jobs.iter().filter(|job| !job.is_there);
        Self {
            all: left.map(|job| (job.id.clone(), work(job))).collect(),
        }
    }

    /// Print that a program is being built, unless it was built before or is a download.
    fn say(&self, job: &Job) {
        if job.is_environment() || job.is_there {
            return;
        }
        let over = self.all.values().filter(|work| work.done > 0).count();
        let all: Vec<Work> = self.all.values().copied().collect();
        let left = match eta::left_s(&all, eta::PROGRAMS_PRIOR_S) {
            Some(left_s) => format!("; all programs in about {}", about(left_s)),
            None => String::new(),
        };
        eprintln!(
            "Building {} ({} of {}), about {}{left}",
            job.id,
            over + 1,
            self.all.len(),
            about(job.expected_s)
        );
    }

    /// Note that a program is made, and the time that it took (s); 0 for a download.
    fn took(&mut self, id: &str, took_s: f64) {
        if let Some(work) = self.all.get_mut(id) {
            (work.left, work.done, work.took_s) = (0, 1, took_s);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::registry_of;
    use super::*;

    #[test]
    fn what_is_to_be_built_is_said_and_what_is_there_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let (one, two) = (["cpu.f32"], ["cpu.f32", "cpu.q8_0"]);
        let p = "build = { kind = 'python', script = 'p.py', requirements = 'p.lock' }";
        let dear = "build = { kind = 'cargo', package = 'd', bin = 'd' }";
        let look = "build = { kind = 'cargo', package = 'l', bin = 'l' }";
        let engines = [
            ("p", &one[..], p),
            ("dear", &one[..], dear),
            ("look", &two[..], look),
        ];
        let mut registry = registry_of(&engines);
        registry.build_s = [("look".into(), 210), ("dear".into(), 840)].into();
        let repo = Repo::under(dir.path());
        let micro: schema::micro::Program = toml::from_str(
            r#"id = "look-micro"
build_s = 30
build = { kind = "cargo", package = "l", bin = "l-micro" }"#,
        )
        .unwrap();
        let targets = registry.targets();
        let look = [targets[2].clone(), targets[3].clone()];
        let stage = || {
            let micro = std::slice::from_ref(&micro);
            Stage::new(&repo, &registry, &targets, micro, &look, &Named::default()).unwrap()
        };
        let said = stage().announcement(6);
        let lines: Vec<&str> = said.lines().collect();
        assert!(lines[0].starts_with("To be built, about "), "{said}");
        assert!(lines[0].ends_with(": look, look-micro, dear"), "{said}");
        assert!(lines[1].contains("what p needs"), "{said}");

        for (id, bin) in [("look", "l"), ("look-micro", "l-micro"), ("dear", "d")] {
            let programs = repo.build_dir.join("programs");
            crate::write(programs.join(id).join(bin), "");
        }
        let stage = stage();
        let said = stage.announcement(6);
        assert!(said.starts_with("To be downloaded"), "{said}");
        assert_eq!(stage.built_before(), ["look", "dear", "look-micro"]);
    }

    #[test]
    fn a_prebuilt_program_that_is_not_there_is_seen_before_it_is_needed() {
        let repo = Repo::at("/nowhere".into());
        let how = Build::Prebuilt {
            path: "bin/x".into(),
            needs: vec![],
            libtorch: None,
        };
        let why = missing(&repo, &how);
        assert_eq!(why.as_deref(), Some("/nowhere/bin/x is not there"));
    }
}
