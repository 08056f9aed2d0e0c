//! The check after a run, in which the reference judges every timed output.
//!
//! Each distinct (prompt, output) is teacher-forced through the reference once. Where every token
//! is the reference's own best, the output *is* the reference's greedy output; where not, each
//! token must be within the tie width of the target's precision. Otherwise the cell's times don't
//! count.
//!
//! An output that came as text is scored in the same way where it encodes to as many ids as were
//! generated, and those decode to it again: other ids of the same text can't make a wrong output
//! right. Where it doesn't, or the reference rejects those ids (which needn't be the ones that were
//! generated), it is compared with the reference's own greedy text. Where it departs from that at a
//! tie, what follows can't be judged, and the request is unchecked.

mod asker;

use super::case_prompts::CellPrompts;
use super::scenario;
use crate::engine::Program;
use crate::prompts::Prompts;
use crate::verify::output::Output;
use crate::verify::own_weights;
use crate::verify::subject::Subject;
use anyhow::{Context, Result};
use asker::{Asker, Gap, Put};
use base::files::Appender;
use base::repo::Repo;
use indicatif::{ProgressBar, ProgressStyle};
use schema::golden::ParityLimits;
use schema::key::twin_name;
use schema::launch_log::timed;
use schema::record::{CheckRecord, RequestRecord};
use schema::registry::Target;
use schema::run::Run;
use std::path::Path;
use std::time::{Duration, Instant};
use watch::Control;

const BETWEEN_LINES: Duration = Duration::from_secs(30);
/// The method of a check without a reference, in words.
const NO_REFERENCE: &str = "no reference on this machine";

/// The target that judges outputs, and what it is started with.
pub struct Judge<'a> {
    /// The judging target.
    pub target: &'a Target,
    /// The target's program.
    pub program: &'a Program,
    /// The checkout, with the model's files.
    pub repo: &'a Repo,
}

/// Tell whether a cell's judgement stands: it counts all the requests that were `timed`, and a
/// judge that is here could add nothing to it.
pub fn stands(check: &CheckRecord, timed: usize, has_judge: bool) -> bool {
    let lacked_judge = check.method.ends_with(NO_REFERENCE);
    check.outputs() == timed as u64 && !(has_judge && lacked_judge)
}

/// Judge all timed outputs of the cells of `run` whose judgement doesn't stand, and append the
/// judgements to it and to `check.jsonl`. Without a judge they are counted as unchecked.
pub fn check(
    run: &mut Run,
    run_dir: &Path,
    prompts: &Prompts,
    limits: &ParityLimits,
    judge: Option<&Judge>,
    control: &Control,
) -> Result<()> {
    let cells = open_cells(run, judge.is_some());
    if cells.is_empty() {
        return Ok(());
    }
    let mut judgements = Vec::with_capacity(cells.len());
    let mut judging = Judging {
        run,
        prompts,
        limits,
        control,
        file: Appender::open(&run_dir.join("check.jsonl"))?,
    };
    // One after the other, so that the reference has one model in memory at a time.
    for own in limits.references(cells.iter().map(|cell| cell.target)) {
        let is_of_these = |cell: &&OpenCell| limits.own_weights(cell.target) == own;
        let cells: Vec<&OpenCell> = cells.iter().filter(is_of_these).collect();
        if cells.is_empty() {
            continue;
        }
        let subject = Subject {
            model: &run.header.plan.model,
            own_weights: own,
        };
        let Some(judge) = judge else {
            judgements.extend(judging.judge(&cells, None)?);
            continue;
        };
        let model_dir = match (own_weights::model_dir(judge.repo, subject), own) {
            (Ok(model_dir), _) => model_dir,
            // Outputs judged with other weights can still be judged; these can when the run is
            // resumed.
            (Err(error), Some(weights)) => {
                base::interrupt::check()?;
                watch::warn(format!(
                    "The outputs of targets that read {weights} stay unchecked: {error:#}; `cargo xtask bench --resume {}` checks them",
                    run.header.id
                ));
                continue;
            }
            (Err(error), None) => return Err(error),
        };
        let name = match own {
            Some(weights) => format!("{} with the weights of {weights}", judge.target.id),
            None => judge.target.id.clone(),
        };
        let asker = Asker::open(run, judge, name, &model_dir, control)?;
        judgements.extend(judging.judge(&cells, Some(asker))?);
    }
    judging.file.sync()?;
    let judgements = judgements.into_iter();
    run.checks
        .extend(judgements.map(|check| (check.key(), check)));
    Ok(())
}

/// What judging needs, whichever weights the reference has.
struct Judging<'a> {
    run: &'a Run,
    prompts: &'a Prompts,
    limits: &'a ParityLimits,
    control: &'a Control,
    /// `check.jsonl`.
    file: Appender,
}

impl Judging<'_> {
    /// Judge the outputs of `cells`, and append the judgements to the file. Without a reference,
    /// they are counted as unchecked.
    fn judge(&mut self, cells: &[&OpenCell], mut asker: Option<Asker>) -> Result<Vec<CheckRecord>> {
        let mut judgements = Vec::with_capacity(cells.len());
        let total: usize = cells.iter().map(|cell| cell.requests.len()).sum();
        let put = match &mut asker {
            Some(asker) => put_all(asker, self.run, self.prompts, cells)?,
            None => cells.iter().map(|_| Vec::new()).collect(),
        };
        if let Some(asker) = &asker {
            let distinct = asker.distinct();
            eprintln!(
                "Checking {total} timed outputs, {distinct} of them distinct, with {}",
                asker.name
            );
        }
        let mut progress = Progress::new(asker.as_ref().map_or(0, Asker::distinct));
        let mut of_case = ("", "");
        for (cell, put) in cells.iter().zip(&put) {
            base::interrupt::check()?;
            // Most outputs of a case are answered with its first cell, so a case is one piece of work.
            if of_case != (cell.scenario, cell.case) {
                of_case = (cell.scenario, cell.case);
                self.control.next_piece(Duration::ZERO)?;
            }
            let limit = &self.limits.precision[&cell.target.precision];
            let mut record = begun(cell, asker.as_ref(), limit.tie_width_nats);
            watch::begin(
                format!("outputs of {}", cell.scenario),
                format!("{} {}", cell.name, cell.case),
            );
            match &mut asker {
                Some(asker) => {
                    for output in put {
                        base::interrupt::check()?;
                        let gap = asker.gap(output, limit.tie_width_nats);
                        let gap = gap.with_context(|| {
                            format!(
                                "{} stopped judging at {} {}/{}",
                                asker.name, cell.name, cell.scenario, cell.case
                            )
                        })?;
                        count(&mut record, gap);
                        progress.show(asker.answered(), cell);
                    }
                }
                // Keep what an earlier judge found: an output that it rejected must not become
                // unchecked.
                None => {
                    let all = cell.requests.len() as u64;
                    record.unchecked += all.saturating_sub(record.outputs());
                }
            }
            super::told::checked(&record);
            watch::end("");
            self.file.append(&record)?;
            judgements.push(record);
        }
        progress.bar.finish_and_clear();
        if let Some(asker) = asker {
            asker.close();
        }
        Ok(judgements)
    }
}

/// Begin the record of a cell, to which its outputs are still to be added. Without a reference,
/// continue the cell's earlier record.
fn begun(cell: &OpenCell, asker: Option<&Asker>, tie_width_nats: f64) -> CheckRecord {
    if let (None, Some(earlier)) = (asker, cell.earlier) {
        let method = match earlier.method.ends_with(NO_REFERENCE) {
            true => earlier.method.clone(),
            false => format!("{}; of the others {NO_REFERENCE}", earlier.method),
        };
        return CheckRecord {
            method,
            ..earlier.clone()
        };
    }
    let method = match asker {
        Some(asker) if cell.gives_text() => format!(
            "each distinct text scored by {0}, or held against {0}'s own",
            asker.name
        ),
        Some(asker) => format!("each distinct output scored by {}", asker.name),
        None => NO_REFERENCE.into(),
    };
    CheckRecord {
        target: cell.name.clone(),
        scenario: cell.scenario.to_owned(),
        case: cell.case.to_owned(),
        tie_width_nats,
        method,
        ..CheckRecord::default()
    }
}

/// Displays how many outputs are judged: a bar, or a line at times where stderr is no terminal.
struct Progress {
    bar: ProgressBar,
    said: Instant,
}

impl Progress {
    fn new(distinct: usize) -> Self {
        let style = ProgressStyle::with_template("{bar:24} {pos}/{len} outputs judged {wide_msg}")
            .expect("the template is valid");
        Self {
            bar: match base::say::is_quiet() {
                true => ProgressBar::hidden(),
                false => ProgressBar::new(distinct as u64).with_style(style),
            },
            said: Instant::now(),
        }
    }

    fn show(&mut self, answered: usize, cell: &OpenCell) {
        self.bar.set_position(answered as u64);
        let place = format!("{} {}", cell.scenario, cell.case);
        if self.bar.is_hidden() && self.said.elapsed() >= BETWEEN_LINES {
            self.said = Instant::now();
            let distinct = self.bar.length().unwrap_or_default();
            eprintln!("[{answered}/{distinct}] outputs judged, {place}");
        }
        self.bar.set_message(place);
    }
}

/// Put all outputs of `cells` to the reference, case by case and then prompt by prompt: it is asked
/// in this order, so that it can compute a prompt once for all its outputs. An interrupted check
/// loses no more than a case and the questions in flight.
fn put_all(
    asker: &mut Asker,
    run: &Run,
    prompts: &Prompts,
    cells: &[&OpenCell],
) -> Result<Vec<Vec<Put>>> {
    let mut all = Vec::with_capacity(cells.len());
    for of_case in cells.chunk_by(|a, b| (a.scenario, a.case) == (b.scenario, b.case)) {
        base::interrupt::check()?;
        let first = of_case[0];
        let planned = scenario(&run.header.plan, first.scenario);
        let case = planned.case(first.case);
        let case = case.context("a record names a case that isn't planned")?;
        let cut = CellPrompts::new(&run.header.plan, prompts, planned, case)?;
        let requests = of_case.iter().map(|cell| &cell.requests);
        let requests = requests.enumerate();
        let mut requests: Vec<_> = requests
            .flat_map(|(cell, requests)| requests.iter().map(move |request| (cell, request)))
            .collect();
        requests.sort_by_key(|(_, request)| request.prompt);
        let mut puts: Vec<Vec<Put>> = of_case.iter().map(|_| Vec::new()).collect();
        for (cell, request) in requests {
            let prompt = cut.get(request.prompt).with_context(|| {
                format!(
                    "{} {}/{}: a record has prompt {}, which the plan has not",
                    of_case[cell].name, first.scenario, first.case, request.prompt
                )
            })?;
            let output = Output::new(request.output_ids.clone(), request.output_text.clone());
            puts[cell].push(asker.put(prompt, output, request.token_ns.len()));
        }
        all.append(&mut puts);
    }
    Ok(all)
}

/// Count one output by its gap; `None` is an unchecked output.
fn count(record: &mut CheckRecord, gap: Option<Gap>) {
    let Some(gap) = gap else {
        record.unchecked += 1;
        return;
    };
    record.gap_nats_max = record.gap_nats_max.max(gap);
    if gap == 0.0 {
        record.equal += 1;
    } else if gap <= record.tie_width_nats {
        record.rescored += 1;
    } else {
        record.wrong += 1;
    }
}

struct OpenCell<'a> {
    /// The target's id, or its twin's name.
    name: String,
    target: &'a Target,
    scenario: &'a str,
    case: &'a str,
    requests: Vec<&'a RequestRecord>,
    /// The judgement that doesn't stand any more.
    earlier: Option<&'a CheckRecord>,
}

impl OpenCell<'_> {
    fn gives_text(&self) -> bool {
        let mut requests = self.requests.iter();
        requests.any(|request| request.output_text.is_some())
    }
}

/// The cells that have timed requests and no judgement that stands, in plan order.
fn open_cells(run: &Run, has_judge: bool) -> Vec<OpenCell<'_>> {
    let plan = &run.header.plan;
    let mut cells = Vec::new();
    for planned in &plan.scenarios {
        for case in &planned.cases {
            for target in &plan.targets {
                let both = [
                    (target.id.clone(), &run.launches),
                    (twin_name(&target.id), &run.twins),
                ];
                for (name, logs) in both {
                    let cell = planned.cell_key(case, &name);
                    let requests: Vec<_> = timed(logs, &cell).collect();
                    let earlier = run.checks.get(&cell);
                    let is_judged = earlier.is_some_and(|c| stands(c, requests.len(), has_judge));
                    if is_judged || requests.is_empty() {
                        continue;
                    }
                    cells.push(OpenCell {
                        name,
                        target,
                        scenario: &planned.id,
                        case: &case.id,
                        requests,
                        earlier,
                    });
                }
            }
        }
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;
    use fixtures::target;

    fn record(equal: u64, wrong: u64, unchecked: u64, method: &str) -> CheckRecord {
        CheckRecord {
            target: "t".into(),
            scenario: "s".into(),
            case: "p10".into(),
            equal,
            wrong,
            unchecked,
            tie_width_nats: 0.1,
            method: method.into(),
            ..CheckRecord::default()
        }
    }

    #[test]
    fn a_judgement_stands_until_more_is_timed_or_a_judge_is_here() {
        let judged = record(19, 1, 0, "scored by r");
        assert!(stands(&judged, 20, true) && stands(&judged, 20, false));
        assert!(!stands(&judged, 40, true) && !stands(&judged, 40, false));
        // A judge that couldn't judge a text to its end can't do so later either.
        assert!(stands(&record(0, 0, 20, "scored by r"), 20, true));
        let unjudged = record(0, 0, 20, NO_REFERENCE);
        assert!(stands(&unjudged, 20, false) && !stands(&unjudged, 20, true));
    }

    #[test]
    fn what_a_judge_found_is_kept_where_there_is_none_any_more() {
        let target = target("t");
        let cell = |earlier| OpenCell {
            name: "t".into(),
            target: &target,
            scenario: "s",
            case: "p10",
            requests: vec![],
            earlier: Some(earlier),
        };
        let earlier = record(19, 1, 0, "scored by r");
        let kept = begun(&cell(&earlier), None, 0.1);
        assert_eq!((kept.equal, kept.wrong), (19, 1));
        assert!(stands(&kept, 20, false) && !stands(&kept, 20, true));
        assert_eq!(begun(&cell(&kept), None, 0.1).method, kept.method);
    }
}
