//! The deployment guide: the engine to take for each kind of work, as far as the data allow a
//! choice. The rule is in `stats::decide`; this module decides which runs may carry a
//! recommendation, and gathers what stands in it. Where the data allow none, the page names the
//! command that would measure what is missing.

mod beyond;
mod candidates;
mod caveats;
mod decided;
mod elsewhere;
mod estimate;
mod fewer_bits;
mod larger;
mod lead;
mod narrower;
mod setup;
mod suggestions;
mod sure;
mod workload;

pub use workload::WORKLOADS;

use crate::Input;
use crate::html::slug;
use crate::view::eligible::refusal;
use crate::view::frame::Frame;
use crate::view::paths;
use crate::view::place::{self, RunLine, case_path};
use crate::view::{Shown, case_label};
use beyond::{Offer, beyond, runner_up};
use candidates::{Candidate, candidates};
use caveats::{Caveat, as_measured, limit, mended};
use decided::{
    Decided, ahead, metric_name, tied_with, unquantised, value_of, why, without_our_own,
};
use elsewhere::{Chosen, Elsewhere, elsewhere};
use estimate::{Longer, longer};
use fewer_bits::{FewerBits, fewer_bits};
use larger::{Larger, larger};
use narrower::{Narrower, narrower};
use serde::Serialize;
use setup::TokenCost;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use suggestions::{Suggestion, suggestions};
use workload::Workload;

/// Fewest candidates with a number in a case that a choice may rest on: one alone is no choice.
const CANDIDATES_MIN: u32 = 2;

/// The deployment guide.
#[derive(Serialize)]
pub struct GuidePage {
    frame: Frame,
    answer: String,
    workloads: Vec<WorkloadView>,
    runs: Vec<RunLine>,
}

/// The recommendations for one kind of work.
#[derive(Clone, Serialize)]
pub struct WorkloadView {
    anchor: &'static str,
    title: &'static str,
    about: &'static str,
    rule: String,
    recommendations: Vec<Recommendation>,
    suggestions: Vec<Suggestion>,
}

#[derive(Clone, Serialize)]
struct Recommendation {
    anchor: String,
    choice: String,
    about: String,
    place: String,
    run_path: String,
    case: String,
    case_path: String,
    why: String,
    sure: String,
    unquantised: String,
    /// The target of this project's own engine that is ahead of the choice.
    own: Decided,
    /// How the choice's engine came into the measurement, in a few words; empty where unknown.
    comes_as: &'static str,
    /// What decides, such as `end-to-end latency`.
    metric: String,
    /// The target to take of engines written in Rust, where the choice is none of them.
    in_rust: Narrower,
    /// The target to take of engines that come as a crate, where the choice's engine doesn't and
    /// `in_rust` names another.
    of_crates: Narrower,
    /// The target to take of engines that come as a crate; empty where none has a number.
    as_crate: String,
    /// The best of the targets that this run left out and other runs of the place measured beside
    /// the choice.
    elsewhere: Elsewhere,
    /// Who leads at a larger size that only another run has.
    larger: Larger,
    /// Where memory decides, what is known of weights of fewer bits.
    fewer_bits: FewerBits,
    /// How long answers of usual length would take; empty where the work has none.
    longer: Longer,
    /// What the choice's engine and the runner-up's offer beyond speed.
    beyond: Vec<Offer>,
    /// How far the choice was verified, where that is less than the run asked for.
    limit: Option<Caveat>,
    /// The defects of the choice's engine that its adapter mended, if any.
    mended: Option<Caveat>,
    /// A sentence or two saying that the choice was not measured as it is deployed; else empty.
    as_measured: String,
    candidates: Vec<Candidate>,
    costs: Vec<(String, String)>,
    commands: Vec<(String, String)>,
    settings: Vec<(String, String)>,
    watch: Vec<String>,
    /// The chosen target and its value, in a few words.
    short: String,
    /// The ratio to the next target.
    ahead: Option<String>,
    /// How sure the choice is, in a word.
    certain: &'static str,
    /// The p value and launches behind that word.
    certain_by: String,
    /// The cost of its tokens at that load, where it can be said.
    token_cost: Option<TokenCost>,
    /// When the run started, RFC 3339.
    started: String,
}

impl Recommendation {
    /// Paths of the runs whose numbers stand beside the choice, or empty.
    fn runs_beside(&self) -> [&str; 7] {
        [
            &self.elsewhere.run_path,
            &self.larger.run_path,
            &self.fewer_bits.run_path,
            &self.in_rust.run_path,
            &self.in_rust.elsewhere.run_path,
            &self.of_crates.run_path,
            &self.of_crates.elsewhere.run_path,
        ]
        .map(String::as_str)
    }
}

/// Make the guide over all runs.
pub fn page(input: &Input, shown: &[Shown]) -> GuidePage {
    let mut fit = eligible(shown);
    // Runs of larger models come first, because they say more of real work.
    fit.sort_by_key(|run| Reverse(place::parameters(run)));
    // A run that was not chosen for its machine, model and profile may have a measurement that the
    // chosen one lacks.
    let is_another = |known: &Shown, run: &Shown| {
        place::place(known) == place::place(run) && known.run.header.id != run.run.header.id
    };
    let mut others = place::publishable(shown);
    others.retain(|run| fit.iter().any(|known| is_another(known, run)));
    let runs = [fit.as_slice(), &others].concat();
    let workloads: Vec<WorkloadView> = WORKLOADS
        .iter()
        .map(|workload| workload_view(input, &runs, workload))
        .collect();
    let all = || workloads.iter().flat_map(|w| &w.recommendations);
    let path = |run: &Shown| paths::run_path(&run.run.header.id);
    let may_rest = |run: &Shown| {
        let path = path(run);
        let is_fit = fit.iter().any(|fit| fit.run.header.id == run.run.header.id);
        is_fit || all().any(|r| r.run_path == path)
    };
    let stands_beside = |run: &Shown| {
        let path = path(run);
        all().any(|r| r.runs_beside().contains(&path.as_str()))
    };
    others.retain(|run| may_rest(run) || stands_beside(run));
    let mut chosen = place::representative_runs(shown);
    chosen.extend(others);
    let runs = place::run_lines(shown, &chosen, |shown| match refusal(shown) {
        Some(why) => format!("no recommendation rests on it: {why}"),
        None if may_rest(shown) => "recommendations may rest on it".into(),
        None => "no recommendation rests on it; its numbers stand beside some".into(),
    });
    let answer = lead::answer(shown, fit.len() as u64, &workloads);
    GuidePage {
        frame: place::frame(input, paths::GUIDE, "Deployment guide", &answer),
        answer,
        workloads,
        runs,
    }
}

/// The runs that may carry a recommendation, in the order given.
fn eligible<'s, 'a>(shown: &'s [Shown<'a>]) -> Vec<&'s Shown<'a>> {
    let mut chosen = place::representative_runs(shown);
    chosen.retain(|run| refusal(run).is_none());
    chosen
}

impl GuidePage {
    /// What to take for each kind of work.
    pub fn workloads(&self) -> &[WorkloadView] {
        &self.workloads
    }

    /// Say which target to take in each place, a sentence per place; empty where nothing is
    /// recommended.
    pub fn lead(&self) -> String {
        lead::lead(&self.workloads)
    }

    /// Say what stands beside these choices; see [`lead::beside`].
    pub fn beside(&self) -> Vec<String> {
        lead::beside(&self.workloads)
    }

    /// The heading of a column with the costs of the choices' tokens: where no price is known for a
    /// machine, more of them are cheaper.
    pub fn cost_heading(&self) -> String {
        let all = self.workloads.iter().flat_map(|w| &w.recommendations);
        let known = all.filter_map(|r| r.token_cost.as_ref());
        let hours: BTreeSet<&str> = known.map(|cost| cost.hour).collect();
        let hours: Vec<&str> = hours.into_iter().collect();
        match hours.as_slice() {
            [hour] if !hour.is_empty() => format!("Output tokens a {hour} (more is cheaper)"),
            [] | [_] => "Cost".into(),
            _ => "Cost, or output tokens an hour (of these more is cheaper)".into(),
        }
    }

    /// The place of all recommendations; empty if there are several, or none.
    pub fn one_place(&self) -> &str {
        match lead::by_place(&self.workloads).as_slice() {
            [(place, _)] => place,
            _ => "",
        }
    }

    /// What the estimates beside some choices are; empty where there are none.
    pub fn longer_note(&self) -> &str {
        let all = self.workloads.iter().flat_map(|w| &w.recommendations);
        let mut notes = all.map(|r| r.longer.note.as_str());
        notes.find(|note| !note.is_empty()).unwrap_or_default()
    }

    /// Say for which kinds of work an engine is taken, a sentence per place; empty where for none.
    pub fn taken(&self, engine: &str) -> String {
        lead::taken(&self.workloads, engine)
    }

    /// Whether a recommendation rests on the run whose page lies at `path`.
    pub fn rests_on(&self, path: &str) -> bool {
        let mut all = self.workloads.iter().flat_map(|w| &w.recommendations);
        all.any(|r| r.run_path == path)
    }
}

/// Make one recommendation for each machine, model and profile: from the first of `runs` that
/// allows one.
fn workload_view(input: &Input, runs: &[&Shown], workload: &Workload) -> WorkloadView {
    let mut recommendations: Vec<Recommendation> = Vec::new();
    let mut covered: BTreeSet<&str> = BTreeSet::new();
    for shown in runs {
        let place = place::place(shown);
        if recommendations.iter().any(|r| r.place == place) {
            continue;
        }
        let Some(found) = recommend(shown, workload, runs) else {
            continue;
        };
        recommendations.push(found);
        covered.extend(shown.targets().iter().map(|t| t.backend.as_str()));
    }
    let names: Vec<String> = workload
        .metrics
        .iter()
        .map(|id| id.describe().title.to_lowercase())
        .collect();
    WorkloadView {
        anchor: workload.id,
        title: workload.title,
        about: workload.about,
        rule: format!(
            "Decided by {} of the scenario {}, at the {} size for which at least half of the targets have a number, because {}.",
            names.join(" or "),
            workload.scenario,
            if workload.largest {
                "largest"
            } else {
                "smallest"
            },
            workload.because
        ),
        suggestions: suggestions(input, workload.scenario, &covered),
        recommendations,
    }
}

fn recommend(shown: &Shown, workload: &Workload, runs: &[&Shown]) -> Option<Recommendation> {
    let asked = workload.asked(shown)?;
    let (decision, own) = without_our_own(shown, &asked)?;
    if decision.measured < CANDIDATES_MIN {
        return None;
    }
    let target = shown.target(&decision.choice)?;
    let cell = asked.cell(&decision.choice)?;
    let label = case_label(asked.scenario, asked.case);
    let title = shown.title(asked.scenario);
    let engine = shown.input.registry.engine(&target.engine);
    let choice = decision.choice.as_str();
    let chosen = Chosen::new(shown, &asked, workload, choice, runs);
    let in_rust = narrower(&chosen, |run, target| run.is_in_rust(target));
    let mut of_crates = narrower(&chosen, |run, target| run.is_crate(target));
    let as_crate = match shown.is_crate(choice) {
        true => choice.to_owned(),
        false => of_crates.name.clone(),
    };
    if !in_rust.choice.is_empty() && of_crates.choice == in_rust.choice {
        of_crates = Narrower::none("the one in Rust");
    }
    let left_out = elsewhere(&chosen, |_, _| true);
    let (certain, certain_by) = sure::certainty_word(&asked, &decision, chosen.is_beaten());
    let beside = [
        runner_up(shown, &asked, choice),
        in_rust.here(),
        of_crates.here(),
    ];
    let there = [&left_out, &in_rust.elsewhere, &of_crates.elsewhere];
    let there = there.map(|left_out| left_out.estimate.as_str());
    let longer = longer(workload, &asked, choice, &beside, &there);
    Some(Recommendation {
        anchor: format!("{}-{}", workload.id, slug(&shown.run.header.id)),
        choice: decision.choice.clone(),
        about: engine.map(|e| e.about.clone()).unwrap_or_default(),
        place: place::place(shown),
        run_path: paths::run_path(&shown.run.header.id),
        case: format!("{title}, {label}, {} output tokens", asked.case.new_tokens),
        case_path: case_path(shown, &asked.scenario.case_key(asked.case)),
        why: why(&asked, &decision),
        sure: sure::certainty_sentences(shown, &asked, &decision),
        certain,
        certain_by,
        token_cost: setup::token_cost(shown, target, cell),
        unquantised: unquantised(shown, &asked, &target.precision),
        own,
        comes_as: shown.comes_as(&target.id).unwrap_or_default(),
        metric: metric_name(&asked),
        in_rust,
        of_crates,
        as_crate,
        elsewhere: left_out,
        larger: larger(&chosen, &target.backend),
        fewer_bits: fewer_bits(&chosen),
        longer,
        beyond: beyond(shown, &asked, &decision.choice),
        limit: limit(shown, &target.id),
        mended: mended(shown, &target.id),
        as_measured: as_measured(shown, target),
        candidates: candidates(shown, &asked, workload, &decision),
        costs: setup::costs(shown, &target.id, cell),
        commands: setup::commands(shown, target),
        settings: setup::settings(shown, target, asked.case),
        watch: setup::watch(shown, target, cell, asked.metric),
        ahead: ahead(&decision),
        started: shown.run.header.started.clone(),
        short: format!(
            "{}{}{}",
            value_of(&asked, &decision.choice),
            match shown.is_ours(&decision.choice) {
                true => ", this project’s own engine",
                false => "",
            },
            tied_with(&decision)
        ),
    })
}
