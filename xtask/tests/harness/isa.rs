//! Tests of a library that dies of an illegal instruction: its program is started once more,
//! limited to fewer instructions by the registry's ladder, and every record says to which.

use crate::checkout::{Checkout, logs, text};
use crate::merge::{refused, shard};
use crate::micro::{measures, variant};
use schema::record::{IsaLimit, Status};

/// A ladder for the fake's programs, by a `need` that only asks where libraries are. Every 64-bit
/// x86 has SSE2, and none has what the first level excludes.
const LADDER: &str = r#"
[[isa_ladder]]
library = "fake"
variable = "FAKE_MAX_ISA"
need = "libtorch"
level = [{ value = "high", without = ["none"] }, { value = "low", without = ["sse2"] }]
"#;

/// The variable by which that need is satisfied.
const LIBTORCH: (&str, &str) = ("LIBTORCH", "/nowhere");

fn checkout(variants: &[&str]) -> Checkout {
    let checkout = Checkout::with(variants);
    checkout.registry(|text| {
        let (head, engines) = text.split_once("[[engine]]").expect("there is an engine");
        let needs = engines.replacen(" }\n", ", needs = [\"libtorch\"] }\n", 1);
        format!("{head}{LADDER}[[engine]]{needs}")
    });
    checkout
}

fn low(why: &str) -> IsaLimit {
    IsaLimit {
        variable: "FAKE_MAX_ISA".into(),
        value: "low".into(),
        why: why.into(),
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn it_is_started_once_more_and_every_record_says_so() {
    let checkout = checkout(&["sigill", "sigill_always"]);
    let (_, run) = checkout.bench_ends(&[LIBTORCH], 3);
    let once = low("it died of an illegal instruction without a limit");

    let judged = &run.verify["fake+sigill.cpu.f32"];
    assert_eq!(judged.status, Status::Ok, "{}", judged.reason);
    assert_eq!(judged.isa_limit.as_ref(), Some(&once));
    let launches = |target: &str| logs(&run, |launch| launch.target == target);
    let again = launches("fake+sigill.cpu.f32");
    assert_eq!(again.len(), 4);
    for log in &again {
        assert_eq!(log.launch.isa_limit.as_ref(), Some(&once));
        let end = log.end.as_ref().expect("it ended");
        assert_eq!(end.status, Status::Ok, "{}", end.reason);
    }

    let lost = &run.verify["fake+sigill_always.cpu.f32"];
    assert_eq!(lost.status, Status::Crashed);
    assert!(lost.reason.contains("illegal instruction"), "{lost:?}");
    assert!(lost.reason.contains("with FAKE_MAX_ISA=low"), "{lost:?}");
    assert!(launches("fake+sigill_always.cpu.f32").is_empty());

    assert_eq!(run.verify["fake.cpu.f32"].isa_limit, None);
    let mut unlimited = launches("fake.cpu.f32").into_iter();
    assert!(unlimited.all(|log| log.launch.isa_limit.is_none()));

    // A resumed run knows which limit was set.
    let dir = checkout.path("runs").join(&run.header.id);
    let gone = dir.join(&again[3].file);
    std::fs::remove_file(&gone).expect("the record is there");
    let resumed = ["bench", "--resume", "latest"];
    let output = checkout.xtask(&resumed, &[LIBTORCH]);
    let run = checkout.latest().expect("the run is there");
    let again = run.launches.iter().find(|log| dir.join(&log.file) == gone);
    let again = again.unwrap_or_else(|| panic!("it wasn't launched: {}", text(&output)));
    assert_eq!(again.launch.isa_limit.as_ref(), Some(&once));
}

#[test]
fn what_the_user_set_is_kept_and_recorded() {
    let checkout = checkout(&["sigill_always"]);
    let given = ("FAKE_MAX_ISA", "mine");
    let (_, run) = checkout.bench(&[LIBTORCH, given]);
    let mine = Some(IsaLimit {
        value: "mine".into(),
        ..low("set by the user")
    });
    assert_eq!(run.verify["fake.cpu.f32"].isa_limit, mine);
    assert!(run.launches.iter().all(|log| log.launch.isa_limit == mine));
    let lost = &run.verify["fake+sigill_always.cpu.f32"];
    assert_eq!((lost.status, &lost.isa_limit), (Status::Crashed, &mine));
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_micro_program_is_started_once_more_too() {
    let checkout = checkout(&[]);
    let variants = ["ok", "sigill"].map(|id| variant("fake-micro", id, id));
    measures(&checkout, ", needs = [\"libtorch\"]", "", &variants);
    let ask = ["bench", "--profile", "test", "--scenarios", "micro/*"];
    let (_, run) = checkout.records(&ask, &[LIBTORCH], 0);
    let of_sigill = |log: &&schema::micro::MicroLog| log.launch.variant == "sigill";
    let (first, later): (Vec<_>, Vec<_>) = run
        .micro
        .iter()
        .filter(of_sigill)
        .partition(|log| log.launch.isa_limit.is_none());
    assert_eq!((first.len(), first[0].cases.len()), (1, 0));
    let end = first[0].end.as_ref().expect("it ended");
    assert!(end.reason.contains("illegal instruction"), "{}", end.reason);
    assert_eq!(later.len(), run.header.plan.invocations as usize);
    let once = low("it died of an illegal instruction without a limit");
    for log in later {
        assert_eq!((log.cases.len(), log.failed.len()), (3, 0));
        assert_eq!(log.launch.isa_limit.as_ref(), Some(&once));
    }
}

#[test]
fn parts_that_were_kept_to_different_levels_are_not_pooled() {
    let mut kept = shard("r-two", "2/2");
    for log in &mut kept.run.launches {
        log.launch.isa_limit = Some(low("it describes no tiles"));
    }
    refused(
        &[shard("r-one", "1/2"), kept],
        &["r-one and r-two", "x.cpu.f32 FAKE_MAX_ISA: absent → low"],
    );
}
