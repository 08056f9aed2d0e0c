//! Tests of what is repeated of a run, and of where it is read from.

use super::*;
use base::files::write_json;
use fixtures::{plan, target};
use runs::publish::pack;
use schema::budget::Pilot;
use schema::key::{CaseKey, Twin, TwinRole};

/// A plan of the targets `t` and `u`, in which `s` is measured for the scenario `later` too.
fn shared() -> Plan {
    let mut plan = plan();
    plan.targets = vec![target("t"), target("u")];
    let mut later = plan.scenarios[0].clone();
    later.id = "later".into();
    for case in &mut later.cases {
        case.measured_by = Some(CaseKey::new("s", &case.id));
    }
    let mut other = plan.scenarios[0].clone();
    other.id = "other".into();
    plan.scenarios.extend([later, other]);
    let mut more = plan.launches.clone();
    more.iter_mut().for_each(|l| l.target = "u".into());
    more.push(schema::plan::Launch {
        scenario: "other".into(),
        ..more[0].clone()
    });
    plan.launches.extend(more);
    plan
}

fn header(plan: Plan) -> RunHeader {
    RunHeader {
        format: FORMAT,
        id: "20260101-000000-x-1a2b".into(),
        started: "2026-01-01T00:00:00Z".into(),
        plan_sha256: plan_sha256(&plan).unwrap(),
        plan,
        ..RunHeader::default()
    }
}

/// Write a run without records; return its directory.
fn write(dir: &Path, header: &RunHeader, budget: Option<&Budget>) -> PathBuf {
    let run_dir = dir.join(&header.id);
    std::fs::create_dir_all(&run_dir).unwrap();
    write_json(&run_dir.join(HEADER), header).unwrap();
    if let Some(budget) = budget {
        write_json(&run_dir.join("budget.json"), budget).unwrap();
    }
    run_dir
}

#[test]
fn a_part_of_a_run_can_be_loaded() {
    let pilot = |target: &str| Pilot {
        target: target.into(),
        ..Pilot::default()
    };
    let over = |target: &str, scenario: &str| fixtures::over(target, scenario, "p10", "");
    let twin = |target: &str| Twin {
        target: target.into(),
        role: TwinRole::Fastest,
        cost_s: 1.0,
    };
    let budget = Budget {
        pilots: vec![pilot("t"), pilot("u")],
        over: vec![over("t", "s"), over("u@twin", "s"), over("t", "other")],
        twins: vec![twin("t"), twin("u")],
        ..Budget::default()
    };
    let names = |list: &[&str]| -> Vec<String> { list.iter().map(|s| s.to_string()).collect() };
    let part = narrowed(shared(), &names(&["t"]), &names(&["later"])).unwrap();
    let scenarios: Vec<&str> = part.scenarios.iter().map(|s| s.id.as_str()).collect();
    assert_eq!(scenarios, ["s", "later"]);
    assert_eq!(part.launches, plan().launches);
    let budget = of_plan(budget, &part);
    assert_eq!(budget.pilots, [pilot("t")]);
    assert_eq!(budget.over, [over("t", "s")]);
    assert_eq!(budget.twins, [twin("t")]);
    let dir = tempfile::tempdir().unwrap();
    Run::load(&write(dir.path(), &header(part), Some(&budget))).unwrap();
}

#[test]
fn a_published_run_is_the_same_original_as_its_directory() {
    let dir = tempfile::tempdir().unwrap();
    let results = Results::at(dir.path());
    let header = header(shared());
    let run_dir = write(dir.path(), &header, None);
    let (_, origin) = original(&results, "latest").unwrap();
    let json = run_dir.join(HEADER).display().to_string();
    assert_eq!(original(&results, &json).unwrap().1, origin);
    let packed = pack(&RunFiles::open(&run_dir).unwrap()).unwrap();
    let file = dir.path().join(format!("{}{SUFFIX}", header.id));
    std::fs::write(&file, packed).unwrap();
    std::fs::remove_dir_all(&run_dir).unwrap();
    for name in [header.id.clone(), file.display().to_string()] {
        let (run, again) = original(&results, &name).unwrap();
        assert_eq!((&run.header, &again), (&header, &origin));
    }
}
