//! Lists the differences between the environments of two runs: the plan, the code, its locks, the
//! model's files, the programs, the machine. Pure, and in words; `compare`, `merge` and `reproduce`
//! decide by a difference's kind what follows from it.

use ceilings::Ceilings;
use schema::launch_log::LaunchLog;
use schema::pins::Pins;
use schema::plan::Plan;
use schema::provenance::Provenance;
use schema::run::Run;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The value of an item that a run doesn't have.
const ABSENT: &str = "absent";

/// Names of the facts that identify a machine: the hardware, and the limits set on it. The other
/// facts (kernel, compilers, free memory…) can matter too, but don't make it another machine.
const MACHINE: [&str; 16] = [
    "arch",
    "cpu_model",
    "cpus",
    "cpu_cores",
    "cpu_flags",
    "cpu_limit",
    "last_level_cache_bytes",
    "governor",
    "driver",
    "gpus",
    "gpu",
    "gpu_memory_bytes",
    "gpu_power_limit_mw",
    "gpu_sm_clock_mhz_max",
    "gpu_memory_clock_mhz_max",
    "gpu_mig",
];

/// One item in which two environments differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The kind of the item.
    pub kind: Kind,
    /// The item's name, e.g. `kernel` or `lockfile Cargo.lock`.
    pub item: String,
    /// Its value in the first run.
    pub before: String,
    /// Its value in the second run.
    pub after: String,
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Items and values come from records, which others may have written.
        let said = format!("{}: {} → {}", self.item, self.before, self.after);
        f.write_str(&base::text::without_escapes(&said).replace('\n', " "))
    }
}

/// The kind of item in which two environments differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The plan: what was to be measured.
    Plan,
    /// The model's files.
    Model,
    /// The prompts, which are cut from the model's files by the seed.
    Prompts,
    /// The revision of this repository.
    Revision,
    /// Whether the checkout differed from its revision.
    Dirty,
    /// A lockfile.
    Lockfile,
    /// The version and build that an engine reports of itself.
    Engine,
    /// The libtorch that programs are linked with.
    Libtorch,
    /// Other tools around the programs: the flake's shell, Python, CUDA toolkit.
    Tools,
    /// The bytes of a target's program.
    Program,
    /// The machine that the run was measured on.
    Machine,
    /// Any other fact.
    Other,
}

/// All that differs between two runs, in the order of [`Kind`].
pub fn runs(a: &Run, b: &Run) -> Vec<Difference> {
    let mut all = plans(&a.header.plan, &b.header.plan);
    all.extend(provenances(&a.header.provenance, &b.header.provenance));
    all.extend(engines(&a.launches, &b.launches));
    all.sort_by_key(|difference| difference.kind);
    all
}

/// The differences between two plans in a few numbers; `compare` lists those between cells.
fn plans(a: &Plan, b: &Plan) -> Vec<Difference> {
    let items = |plan: &Plan| {
        let numbers = [
            ("profile", plan.profile.clone()),
            ("model", plan.model.clone()),
            ("seed", plan.seed.to_string()),
            ("prompt_seed", plan.seed_of_prompts().to_string()),
            ("threads", plan.threads.to_string()),
            ("invocations", plan.invocations.to_string()),
            ("warmup_requests", plan.warmup_requests.to_string()),
            ("matters_percent", plan.matters_percent.to_string()),
        ];
        let named = numbers.map(|(name, value)| (name.to_owned(), value));
        let own = plan.prompts.iter();
        let own = own.map(|prompts| ("prompts of the user's".to_owned(), prompts.name()));
        let requests = plan.scenarios.iter().flat_map(|scenario| {
            scenario.cases.iter().map(|case| {
                (
                    format!("length of {}/{}", scenario.id, case.id),
                    format!("{} requests, {} s", case.requests, case.duration_s),
                )
            })
        });
        named.into_iter().chain(own).chain(requests).collect()
    };
    let (a, b): (BTreeMap<String, String>, BTreeMap<String, String>) = (items(a), items(b));
    // A case that only one plan has is a cell without a counterpart, not a length.
    let both = |item: &str| a.contains_key(item) && b.contains_key(item);
    let differences = maps(Kind::Plan, "", &a, &b);
    differences.into_iter().filter(|d| both(&d.item)).collect()
}

/// The differences between the provenances of two runs: where and with what they were made.
pub fn provenances(a: &Provenance, b: &Provenance) -> Vec<Difference> {
    let one = |item: &str, value: Option<&str>| -> BTreeMap<String, String> {
        let value = value.map(|value| (item.to_owned(), value.to_owned()));
        value.into_iter().collect()
    };
    let revision = |of: &Provenance| one("git revision", of.git_revision.as_deref());
    let state = |dirty| if dirty { "changed" } else { "clean" };
    let checkout = |of: &Provenance| one("checkout", of.git_dirty.map(state));
    let mut all = maps(Kind::Revision, "", &revision(a), &revision(b));
    all.extend(maps(Kind::Dirty, "", &checkout(a), &checkout(b)));
    for (kind, prefix, a, b) in [
        (Kind::Lockfile, "lockfile ", &a.lockfiles, &b.lockfiles),
        (Kind::Model, "", &a.model_files, &b.model_files),
        (Kind::Program, "program of ", &a.binaries, &b.binaries),
    ] {
        let mut hashes = maps(kind, prefix, a, b);
        hashes.iter_mut().for_each(shorten);
        all.append(&mut hashes);
    }
    all.extend(pins(&a.pins, &b.pins));
    all.extend(facts(&a.facts, &b.facts));
    all
}

fn pins(a: &Pins, b: &Pins) -> Vec<Difference> {
    let items = |pins: &Pins| -> BTreeMap<String, String> {
        let items = pins.items().into_iter();
        items
            .filter_map(|(item, value)| Some((item.to_owned(), value?)))
            .collect()
    };
    let mut all = maps(Kind::Tools, "", &items(a), &items(b));
    for difference in &mut all {
        if difference.item == Pins::LIBTORCH {
            difference.kind = Kind::Libtorch;
        }
    }
    all
}

fn facts(a: &BTreeMap<String, String>, b: &BTreeMap<String, String>) -> Vec<Difference> {
    let mut all = maps(Kind::Other, "", a, b);
    all.retain(|difference| !Ceilings::is_rate(&difference.item));
    for difference in &mut all {
        match difference.item.as_str() {
            "prompts_sha256" => {
                difference.kind = Kind::Prompts;
                shorten(difference);
            }
            "cpu_flags" => {
                difference.kind = Kind::Machine;
                only_the_differing_words(difference);
            }
            item if MACHINE.contains(&item) => difference.kind = Kind::Machine,
            _ => {}
        }
    }
    all
}

/// The differences between the version and build that engines report, and between the limits of
/// their libraries, over the targets that both runs launched.
fn engines(a: &[LaunchLog], b: &[LaunchLog]) -> Vec<Difference> {
    let said = |logs: &[LaunchLog]| -> BTreeMap<String, BTreeMap<String, String>> {
        let mut said: BTreeMap<String, BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
        for log in logs {
            let Some(ready) = &log.ready else { continue };
            let of = said.entry(log.launch.target.clone()).or_default();
            let version = ("version".to_owned(), ready.version.clone());
            let limit = log.launch.isa_limit.iter();
            let limit = limit.map(|limit| (limit.variable.clone(), limit.value.clone()));
            let build = ready.build.clone().into_iter().chain(limit);
            for (key, value) in std::iter::once(version).chain(build) {
                of.entry(key).or_default().insert(value);
            }
        }
        let joined = |of: BTreeMap<String, BTreeSet<String>>| {
            let of = of.into_iter();
            of.map(|(item, values)| (item, Vec::from_iter(values).join(" and ")))
                .collect()
        };
        said.into_iter()
            .map(|(target, of)| (target, joined(of)))
            .collect()
    };
    let (a, b) = (said(a), said(b));
    let both = a
        .iter()
        .filter_map(|(target, before)| Some((target, before, b.get(target)?)));
    both.flat_map(|(target, before, after)| {
        maps(Kind::Engine, &format!("{target} "), before, after)
    })
    .collect()
}

fn maps(
    kind: Kind,
    prefix: &str,
    a: &BTreeMap<String, String>,
    b: &BTreeMap<String, String>,
) -> Vec<Difference> {
    let keys: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    let value = |map: &BTreeMap<String, String>, key: &String| {
        map.get(key).cloned().unwrap_or_else(|| ABSENT.into())
    };
    keys.into_iter()
        .filter(|key| a.get(*key) != b.get(*key))
        .map(|key| Difference {
            kind,
            item: format!("{prefix}{key}"),
            before: value(a, key),
            after: value(b, key),
        })
        .collect()
}

/// Cut hashes to their first 12 characters, which are enough to tell them apart.
fn shorten(difference: &mut Difference) {
    for text in [&mut difference.before, &mut difference.after] {
        if let Some(short) = text.get(..12) {
            *text = short.to_owned();
        }
    }
}

/// Shorten a difference of two long lists to the words that only one of them has.
fn only_the_differing_words(difference: &mut Difference) {
    let texts = [&difference.before, &difference.after];
    let [before, after] = texts.map(|text| text.split_whitespace().collect::<BTreeSet<_>>());
    let only = |these: &BTreeSet<&str>, those: &BTreeSet<&str>| match these - those {
        only if only.is_empty() => "none of its own".to_owned(),
        only => Vec::from_iter(only).join(" "),
    };
    (difference.before, difference.after) = (only(&before, &after), only(&after, &before));
}

#[cfg(test)]
mod tests {
    use super::*;
    use schema::pins::Pin;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        let owned = |(k, v): &(&str, &str)| ((*k).to_owned(), (*v).to_owned());
        pairs.iter().map(owned).collect()
    }

    fn pin(version: &str) -> Option<Pin> {
        Some(Pin {
            version: Some(version.into()),
            from: "a.lock".into(),
            sha256: None,
        })
    }

    #[test]
    fn every_difference_is_an_item_of_its_kind() {
        let a = Provenance {
            git_revision: Some("abc".into()),
            git_dirty: Some(false),
            lockfiles: map(&[("Cargo.lock", "0123456789abcdef")]),
            facts: map(&[("kernel", "6.1"), ("cpu_flags", "avx sse"), ("cpus", "2")]),
            pins: Pins {
                libtorch: pin("2.9.0"),
                cuda_toolkit: pin("12.8.93"),
                ..Pins::default()
            },
            ..Provenance::default()
        };
        let b = Provenance {
            git_dirty: Some(true),
            lockfiles: map(&[("Cargo.lock", "fedcba9876543210")]),
            facts: map(&[
                ("kernel", "6.2"),
                ("cpu_flags", "sse avx avx512f"),
                ("cpus", "2"),
                ("flops_f32_per_s", "530000000000"),
            ]),
            pins: Pins {
                nix_shell: Some("cpu".into()),
                libtorch: pin("2.8.0"),
                cuda_toolkit: pin("12.8.93"),
                ..Pins::default()
            },
            ..Provenance::default()
        };
        let found: Vec<(Kind, String)> = provenances(&a, &b)
            .into_iter()
            .map(|d| (d.kind, d.to_string()))
            .collect();
        let expected = [
            (Kind::Revision, "git revision: abc → absent"),
            (Kind::Dirty, "checkout: clean → changed"),
            (
                Kind::Lockfile,
                "lockfile Cargo.lock: 0123456789ab → fedcba987654",
            ),
            (
                Kind::Libtorch,
                "libtorch: 2.9.0 from a.lock → 2.8.0 from a.lock",
            ),
            (Kind::Tools, "nix shell: absent → cpu"),
            (Kind::Machine, "cpu_flags: none of its own → avx512f"),
            (Kind::Other, "kernel: 6.1 → 6.2"),
        ];
        assert_eq!(found, expected.map(|(kind, text)| (kind, text.to_owned())));
        assert_eq!(provenances(&a, &a), []);
    }
}
