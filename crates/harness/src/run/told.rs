//! Emits the progress events of measuring. Between two requests an event is a few numbers that are
//! put into a queue.

use super::pending::Pending;
use super::{expected, refusal, scenario};
use schema::budget::Budget;
use schema::key::original;
use schema::launch_log::LaunchLog;
use schema::plan::{Case, Launch, Plan};
use schema::record::{CaseEnd, CheckRecord, End, RequestRecord, Status, VerifyRecord};
use std::collections::BTreeMap;
use tracing::{Span, info_span};
use watch::event::{Begin, Event, Group, Item, Mark, REQUEST_METERS, Sample};
use watch::plan::{Fate, Planned};
use watch::{emit, error, plan};

/// The groups of all `planned` launches for the display, each with its state: `pending` ones are
/// still to be made; for the others that weren't made, the reason is given.
pub fn groups(
    planned: &[Launch],
    pending: &[Pending],
    logs: &[LaunchLog],
    plan: &Plan,
    verify: &BTreeMap<String, VerifyRecord>,
    budget: Option<&Budget>,
) -> Vec<Group> {
    let fate = |launch: &Launch| {
        if pending.iter().any(|p| is_of(&p.launch, launch)) {
            return Fate::Left;
        }
        let failed = logs.iter().find_map(|log| {
            let end = log.end.as_ref()?;
            let same = log.launch.target == launch.target && log.launch.scenario == launch.scenario;
            let failed = !matches!(end.status, Status::Ok | Status::NotRun);
            (same && failed).then(|| format!("{}: {}", end.status.id(), end.reason))
        });
        if let Some(reason) = failed {
            return Fate::Dropped(Mark::Failed, reason);
        }
        let done = logs.iter().any(|log| {
            let of = &log.launch;
            (&of.target, &of.scenario, of.invocation)
                == (&launch.target, &launch.scenario, launch.invocation)
                && launch
                    .cases
                    .iter()
                    .any(|case| log.case_ends.iter().any(|end| end.case == *case))
        });
        if done {
            return Fate::Done;
        }
        let scenario = scenario(plan, &launch.scenario);
        let case = scenario.cases.iter().find(|c| launch.cases.contains(&c.id));
        let case = case.expect("the plan names its cases");
        let over = || {
            budget?
                .refusal(&scenario.cell_key(case, &launch.target))
                .map(|_| "over_budget".to_owned())
        };
        let reason = refusal(verify, original(&launch.target), case).or_else(over);
        let reason = reason.unwrap_or_else(|| "its capacity is not known".into());
        Fate::Dropped(Mark::Refused, reason)
    };
    let mut groups = plan::groups(planned.iter().map(|launch| Planned {
        group: launch.scenario.clone(),
        item: launch.target.clone(),
        fate: fate(launch),
    }));
    for group in &mut groups {
        for item in &mut group.items {
            item.expected = expected::item(plan, budget, pending, &group.name, &item.name);
        }
    }
    groups
}

/// Whether the launches are one and the same, or `a` has some cases of `b`: scenarios with a launch
/// per case have several launches of one invocation.
fn is_of(a: &Launch, b: &Launch) -> bool {
    (&a.target, &a.scenario, a.invocation) == (&b.target, &b.scenario, b.invocation)
        && a.cases.iter().any(|case| b.cases.contains(case))
}

/// Report that a launch begins; returns the log's span for it.
pub(super) fn begin(launch: &Launch) -> Span {
    let (target, block) = (&launch.target, launch.invocation + 1);
    let span = info_span!("launch", %target, scenario = %launch.scenario, block);
    emit(Event::Begin(Begin {
        group: launch.scenario.clone(),
        item: launch.target.clone(),
        detail: format!("block {}", launch.invocation + 1),
        meters: &REQUEST_METERS,
        skippable: true,
    }));
    span
}

/// Report that it is this launch's turn, where launches take turns.
pub(super) fn turn(launch: &Launch) {
    emit(Event::Turn {
        item: launch.target.clone(),
    });
}

/// The log's span for a case of the launch that is entered.
pub(super) fn span(case: &Case) -> Span {
    info_span!("case", id = %case.id)
}

/// Report that a case of the launch begins.
pub(super) fn case(case: &Case) {
    emit(Event::Part {
        name: case.id.clone(),
        samples: case.requests,
    });
}

/// Report that a request was answered.
pub(super) fn request(request: &RequestRecord) {
    let ms = |from: u64, to: u64| to.saturating_sub(from) as f64 / 1e6;
    let (first, last) = (request.token_ns.first(), request.token_ns.last());
    let gaps = request.token_ns.len().saturating_sub(1);
    let tpot = first.zip(last).filter(|_| gaps > 0);
    emit(Event::Sample(Sample {
        t_ns: request.answered_ns,
        timed: !request.warmup,
        values: [
            tpot.map(|(first, last)| ms(*first, *last) / gaps as f64),
            first.map(|first| ms(request.scheduled_ns, *first)),
            last.map(|last| ms(request.scheduled_ns, *last)),
        ],
        work: request.token_ns.len() as f64,
    }));
}

/// Report that a case ended and is complete.
pub(super) fn case_end(end: &CaseEnd) {
    let took_ms = end.end_ns.saturating_sub(end.start_ns) / 1_000_000;
    let peak_rss_bytes = end.peak_rss_bytes;
    tracing::debug!(took_ms, start_ns = end.start_ns, peak_rss_bytes, "over");
    emit(Event::PartEnd);
}

/// Report that a launch ended. A failure is an error; a skip or an interrupt is none.
pub(super) fn end(launch: &Launch, end: &End) {
    tracing::info!(status = end.status.id(), reason = end.reason, "over");
    let event = Event::ended(end.status, &end.reason);
    if let Event::End { mark, reason } = &event
        && *mark == Mark::Failed
    {
        error(format!("{} · {}: {reason}", launch.target, launch.scenario));
    }
    emit(event);
}

/// Report that a launch isn't made, because an earlier one of its cells failed or was skipped.
pub(super) fn dropped(launch: &Launch, status: Status) {
    emit(Event::Drop {
        group: launch.scenario.clone(),
        item: launch.target.clone(),
        mark: match status {
            Status::NotRun => Mark::Skipped,
            _ => Mark::Failed,
        },
    });
}

/// Report the items of a stage, each of which is done at once.
pub(super) fn group<'a>(name: &str, items: impl Iterator<Item = &'a str>) {
    emit(Event::Group(Group {
        name: name.to_owned(),
        items: items.map(|item| Item::waiting(item, 1)).collect(),
    }));
}

/// Report that the timed outputs of a cell were judged: wrong ones are an error.
pub(super) fn checked(record: &CheckRecord) {
    if record.wrong > 0 {
        let all = record.equal + record.rescored + record.wrong + record.unchecked;
        error(format!(
            "{} · {}/{}: the reference rejects {} of {all} timed outputs, so its times don't count",
            record.target, record.scenario, record.case, record.wrong
        ));
    }
}
