//! Chooses the A/A pairs: which targets run twice in every block, and at which places of it. Pure.
//!
//! The choice depends on the pilot's paces, so the plan can't name the targets; the places of their
//! launches come from the plan's seed alone. The fastest target's cells are short, and their noise
//! comes from clocks and schedulers; cells of a target of median pace are as long as most, and
//! their noise comes from what happens on the machine meanwhile. The slowest is not chosen: its
//! pairs showed nothing more, and took a sixth of a run's time. Of the targets of median pace, the
//! one that loads fastest is chosen, because a twin's loading measures nothing.
//!
//! A twin's time is shared out like any other (see `budget.rs`): a twin is one more target in the
//! sharing, and drops the cells that its original drops. A twin of the baseline isn't exempt as the
//! baseline is, so it may have fewer cells.

use base::random::SplitMix64;
use schema::budget::Pilot;
use schema::key::{Twin, TwinRole, twin_name};
use schema::plan::{Launch, Plan};

/// Constant that separates the twins' random numbers from the plan's, which have the same seed.
const STREAM: u64 = 0x7477_696e_735f_6161;

/// Choose two targets: the fastest, and the one that loads fastest among the third of the targets
/// around the median pace (of an even number, around the slower of the middle two). Pace is the
/// geometric mean of a target's rounds, each shape counting alike. One twin where there is one
/// target, none where no pilot succeeded. Their cost is filled in once the time is shared out.
pub fn choose(pilots: &[Pilot]) -> Vec<Twin> {
    let mut paces: Vec<(&Pilot, f64)> = pilots
        .iter()
        .filter(|pilot| pilot.failure.is_empty() && !pilot.rounds.is_empty())
        .map(|pilot| (pilot, pace(pilot)))
        .collect();
    paces.sort_by(|a, b| a.1.total_cmp(&b.1));
    let (middle, reach) = (paces.len() / 2, paces.len() / 6);
    let around = paces.get(middle - reach..=middle + reach);
    let around = around.unwrap_or_default().iter().enumerate();
    let quickest = around.min_by(|(a, (one, _)), (b, (other, _))| {
        let by_load = one.load_s.total_cmp(&other.load_s);
        by_load.then(a.abs_diff(reach).cmp(&b.abs_diff(reach)))
    });
    let second = quickest.filter(|_| paces.len() > 1); // of one target, there is no second
    let twin = |role, (pilot, _): &(&Pilot, f64)| Twin {
        target: pilot.target.clone(),
        role,
        cost_s: 0.0,
    };
    let fastest = paces.first().map(|first| twin(TwinRole::Fastest, first));
    let median = second.map(|(_, second)| twin(TwinRole::Median, second));
    fastest.into_iter().chain(median).collect()
}

/// Mean logarithm of a pilot's rounds (ln s).
fn pace(pilot: &Pilot) -> f64 {
    let logs = pilot.rounds.iter().map(|round| round.round_s.ln());
    logs.sum::<f64>() / pilot.rounds.len() as f64
}

/// The pilots of the twins, from which their times are estimated: their originals' pilots under the
/// twins' names.
pub fn pilots(pilots: &[Pilot], twins: &[Twin]) -> Vec<Pilot> {
    let of = |twin: &Twin| pilots.iter().find(|pilot| pilot.target == twin.target);
    twins
        .iter()
        .filter_map(|twin| {
            Some(Pilot {
                target: twin_name(&twin.target),
                ..of(twin)?.clone()
            })
        })
        .collect()
}

/// The plan's launches with those of the twins inserted: in each round over the targets (a block, a
/// scenario, the same cases) every twin gets a place drawn from all places, so that all orders of
/// the round are equally likely.
pub fn launches(plan: &Plan, twins: &[Twin]) -> Vec<Launch> {
    let mut random = SplitMix64(plan.seed ^ STREAM);
    let mut all = Vec::new();
    for round in plan.launches.chunk_by(same_round) {
        let mut order = round.to_vec();
        for twin in twins {
            let place = random.below(order.len() + 1);
            let of = round.iter().find(|launch| launch.target == twin.target);
            if let Some(launch) = of {
                let mut launch = launch.clone();
                launch.target = twin_name(&twin.target);
                order.insert(place, launch);
            }
        }
        all.extend(order);
    }
    all
}

fn same_round(a: &Launch, b: &Launch) -> bool {
    (a.invocation, &a.scenario, &a.cases) == (b.invocation, &b.scenario, &b.cases)
}

#[cfg(test)]
mod tests {
    use super::*;
    use schema::budget::Round;
    use schema::key::is_twin;

    fn pilot(target: &str, rounds_s: &[f64]) -> Pilot {
        let round = |&round_s: &f64| Round {
            prompt_tokens: 1,
            new_tokens: 1,
            concurrency: 1,
            mixed: false,
            round_s,
        };
        Pilot {
            target: target.into(),
            load_s: 1.0,
            rounds: rounds_s.iter().map(round).collect(),
            ..Pilot::default()
        }
    }

    fn names(twins: &[Twin]) -> Vec<(&str, TwinRole)> {
        twins.iter().map(|t| (t.target.as_str(), t.role)).collect()
    }

    #[test]
    fn of_those_of_middling_pace_the_quickest_to_load_runs_twice() {
        let mut all: Vec<Pilot> = (1..=7)
            .map(|pace| pilot(&format!("p{pace}"), &[f64::from(pace)]))
            .collect();
        let second = |all: &[Pilot]| names(&choose(all))[1].0.to_owned();
        assert_eq!(second(&all), "p4", "all load alike");
        all[4].load_s = 0.1;
        all[5].load_s = 0.01;
        assert_eq!(
            second(&all),
            "p5",
            "p6 is not of the third around the median"
        );
    }

    #[test]
    fn the_fastest_and_the_median_run_twice() {
        let mut crashed = pilot("crashed", &[9.0, 9.0]);
        crashed.failure = "crashed".into();
        let all = [
            pilot("middle", &[1.0, 4.0]),
            pilot("slow", &[2.0, 8.0]),
            pilot("quick", &[0.1, 3.0]),
            crashed,
            pilot("silent", &[]),
        ];
        assert_eq!(
            names(&choose(&all)),
            [("quick", TwinRole::Fastest), ("middle", TwinRole::Median)]
        );
        assert_eq!(
            names(&choose(&all[..2])),
            [("middle", TwinRole::Fastest), ("slow", TwinRole::Median)]
        );
        assert_eq!(names(&choose(&all[..1])), [("middle", TwinRole::Fastest)]);
        assert!(choose(&all[3..]).is_empty());
        let twins = pilots(&all, &choose(&all));
        assert_eq!(twins[0].target, "quick@twin");
        assert_eq!(twins[1].rounds, all[0].rounds);
    }

    fn plan(seed: u64, invocations: u32) -> Plan {
        let launch = |invocation, target: &str, scenario: &str| Launch {
            invocation,
            target: target.into(),
            scenario: scenario.into(),
            cases: vec!["p1".into()],
        };
        let launches = (0..invocations)
            .flat_map(|i| ["s", "m"].map(|s| (i, s)))
            .flat_map(|(i, s)| ["a", "b", "c"].map(|t| launch(i, t, s)))
            .collect();
        Plan {
            seed,
            launches,
            ..Plan::default()
        }
    }

    fn twins() -> Vec<Twin> {
        choose(&[pilot("a", &[1.0]), pilot("b", &[2.0]), pilot("c", &[3.0])])
    }

    #[test]
    fn twins_stand_among_the_others_and_change_nothing_else() {
        let plan = plan(1, 3);
        let all = launches(&plan, &twins());
        let without: Vec<Launch> = all
            .iter()
            .filter(|launch| !is_twin(&launch.target))
            .cloned()
            .collect();
        assert_eq!(without, plan.launches);
        for round in all.chunk_by(same_round) {
            let mut names: Vec<&str> = round.iter().map(|l| l.target.as_str()).collect();
            names.sort();
            assert_eq!(names, ["a", "a@twin", "b", "b@twin", "c"]);
        }
        assert_eq!(all, launches(&plan, &twins()), "by the seed alone");
        assert_eq!(launches(&plan, &[]), plan.launches);
    }

    #[test]
    fn every_place_of_a_round_is_as_likely() {
        // 2000 rounds of 4: a fair draw puts 500 ± 19 into each place; ± 100 is 5 σ.
        let one = &twins()[..1];
        let mut seen = [0; 4];
        for round in launches(&plan(7, 1000), one).chunk_by(same_round) {
            seen[round.iter().position(|l| is_twin(&l.target)).unwrap()] += 1;
        }
        assert!(seen.iter().all(|n| (400..600).contains(n)), "{seen:?}");
    }
}
