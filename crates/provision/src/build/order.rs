//! The order in which the programs of a run are built, and how long that takes: first what the
//! first look needs, then the cheapest, so that there are results soon. Pure.

use schema::registry::{Build, Need, VENV};
use std::cmp::Reverse;

/// Time for a program that nothing is known of (s).
const UNKNOWN_S: f64 = 300.0;
/// Time to find out that a program needs no building (s).
const THERE_S: f64 = 1.0;

/// A program to be built.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Job {
    pub(super) id: String,
    pub(super) how: Build,
    /// The id of the engine that the program belongs to; `None` for one of the micro suites.
    pub(super) engine: Option<String>,
    /// Whether the program was built here before.
    pub(super) is_there: bool,
    /// Expected time of the build (s), after other programs of its package.
    pub(super) expected_s: f64,
}

impl Job {
    /// Create a job. `build_s`: time of the build on two cores, by the registry (s); `cores`:
    /// number of cores of this machine.
    pub(super) fn new(
        id: &str,
        how: &Build,
        engine: Option<&str>,
        is_there: bool,
        build_s: Option<u32>,
        cores: usize,
    ) -> Self {
        // Few crates compile on more than eight cores at once.
        let speed = (cores as f64 / 2.0).clamp(0.5, 4.0);
        Self {
            id: id.to_owned(),
            how: how.clone(),
            engine: engine.map(str::to_owned),
            is_there,
            expected_s: match is_there {
                true => THERE_S,
                false => build_s.map_or(UNKNOWN_S, f64::from) / speed,
            },
        }
    }

    /// Whether the job makes a Python environment. Only one of these is made at a time.
    pub(super) fn is_environment(&self) -> bool {
        matches!(self.how, Build::Python { .. })
    }

    /// Whether the job makes the environment `name` and is still to be done.
    fn will_make(&self, name: &str) -> bool {
        let Build::Python { environment, .. } = &self.how else {
            return false;
        };
        environment == name && !self.is_there
    }

    /// The environment that brings the job's libtorch; `None` where it needs no libtorch.
    fn libtorch_from(&self) -> Option<&str> {
        let needs = self.how.needs().contains(&Need::Libtorch);
        let own = self.how.libtorch();
        needs.then(|| own.map_or(VENV, |from| from.environment.as_str()))
    }

    /// Whether it is compiled from the same crates as `other`: the first one built compiles them
    /// for both.
    fn is_kin(&self, other: &Self) -> bool {
        match (&self.how, &other.how) {
            (Build::Cargo(a), Build::Cargo(b)) => {
                (&a.package, &a.features, a.default_features)
                    == (&b.package, &b.features, b.default_features)
            }
            _ => false,
        }
    }
}

/// Sort the jobs: those in `first`, then the cheapest. Programs of the same crates stand together,
/// at the place of the most expensive of them.
pub(super) fn order(jobs: Vec<Job>, first: &[String]) -> Vec<Job> {
    let cost = |job: &Job| {
        let kin = jobs.iter().filter(|other| other.is_kin(job));
        let dearest = kin.map(|other| other.expected_s);
        dearest.fold(job.expected_s, f64::max)
    };
    let mut costs: Vec<(Job, f64)> = jobs.iter().map(|job| (job.clone(), cost(job))).collect();
    costs.sort_by(|(a, cost_a), (b, cost_b)| {
        let is_first = |job: &Job| Reverse(first.contains(&job.id));
        // A package's most expensive program comes first: the others are cheap after it.
        is_first(a)
            .cmp(&is_first(b))
            .then(cost_a.total_cmp(cost_b))
            .then(b.expected_s.total_cmp(&a.expected_s))
    });
    costs.into_iter().map(|(job, _)| job).collect()
}

/// The index of the next job to build while `beside` is being downloaded; `None` where all jobs
/// wait for a download.
pub(super) fn next(jobs: &[Job], beside: Option<&Job>) -> Option<usize> {
    let will_be_made = |name: &str| jobs.iter().chain(beside).any(|job| job.will_make(name));
    let waits = |job: &Job| {
        beside.is_some() && job.is_environment() || job.libtorch_from().is_some_and(will_be_made)
    };
    jobs.iter().position(|job| !waits(job))
}

pub(super) fn expected_s(jobs: &[Job]) -> f64 {
    jobs.iter().map(|job| job.expected_s).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use schema::registry::{CargoBuild, Libtorch};

    fn cargo(package: &str, needs: &[Need]) -> Build {
        Build::Cargo(CargoBuild {
            needs: needs.to_vec(),
            ..CargoBuild::new(package, package)
        })
    }

    fn job(id: &str, how: Build, build_s: Option<u32>) -> Job {
        Job::new(id, &how, None, false, build_s, 2)
    }

    fn python(environment: &str) -> Build {
        Build::Python {
            script: "p.py".into(),
            requirements: "p.lock".into(),
            environment: environment.into(),
            modules: None,
        }
    }

    fn ids(jobs: &[Job]) -> Vec<&str> {
        jobs.iter().map(|job| job.id.as_str()).collect()
    }

    #[test]
    fn the_first_look_comes_first_then_the_cheapest_and_a_package_stays_together() {
        let jobs = vec![
            job("p", python("venv"), Some(150)),
            job("dear-micro", cargo("dear", &[]), Some(20)),
            job("torch", cargo("torch", &[Need::Libtorch]), Some(120)),
            job("dear", cargo("dear", &[]), Some(400)),
            job("look", cargo("look", &[]), Some(210)),
            job("unknown", cargo("unknown", &[]), None),
            job("quick", cargo("quick", &[]), Some(30)),
        ];
        let mut jobs = order(jobs, &["look".to_owned()]);
        assert_eq!(
            ids(&jobs),
            [
                "look",
                "quick",
                "torch",
                "p",
                "unknown",
                "dear",
                "dear-micro"
            ]
        );
        assert_eq!(
            expected_s(&jobs),
            150.0 + 20.0 + 120.0 + 400.0 + 210.0 + 300.0 + 30.0
        );
        jobs.drain(..2);
        assert_eq!(
            next(&jobs, None),
            Some(1),
            "what brings libtorch comes first"
        );
        let brings = jobs.remove(1);
        assert_eq!(next(&jobs, None), Some(0));
        let beside = Some(&brings);
        assert_eq!(next(&jobs, beside), Some(1), "libtorch is being downloaded");
        let other = job("p", python("venv-other"), Some(150));
        assert_eq!(next(&jobs, Some(&other)), Some(0), "it isn't torch's");
        jobs.truncate(1);
        assert_eq!(next(&jobs, beside), None);
    }

    #[test]
    fn a_program_waits_for_the_environment_that_brings_its_own_libtorch_alone() {
        let python = |environment: &str| job(environment, python(environment), Some(150));
        let how = Build::Cargo(CargoBuild {
            needs: vec![Need::Libtorch],
            libtorch: Some(Libtorch {
                requirements: "own.lock".into(),
                environment: "venv-own".into(),
            }),
            ..CargoBuild::new("own", "own")
        });
        let jobs = [job("own", how, Some(120))];
        assert_eq!(next(&jobs, None), Some(0), "its build makes it");
        assert_eq!(next(&jobs, Some(&python(VENV))), Some(0));
        assert_eq!(next(&jobs, Some(&python("venv-own"))), None);
    }

    #[test]
    fn what_is_there_takes_no_time_and_more_cores_take_less() {
        let how = cargo("a", &[]);
        let of = |is_there, cores| Job::new("a", &how, None, is_there, Some(120), cores);
        assert_eq!(of(true, 2).expected_s, 1.0);
        assert_eq!(of(false, 1).expected_s, 240.0);
        assert_eq!(of(false, 8).expected_s, 30.0);
        assert_eq!(of(false, 128).expected_s, 30.0);
    }
}
