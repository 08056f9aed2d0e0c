//! Emits the progress events of measuring. Between two requests an event is a few numbers that are
//! put into a queue.

use super::expected;
use super::pending::{Pending, Planned, State};
use schema::budget::Budget;
use schema::plan::{Case, Launch, Plan};
use schema::record::{CaseEnd, CheckRecord, End, RequestRecord, Status};
use tracing::{Span, info_span};
use watch::event::{Begin, Event, Group, Item, Mark, REQUEST_METERS, Sample};
use watch::plan::Fate;
use watch::{emit, error, plan};

/// The groups of all `planned` launches for the display, each with its state; `left` are those that
/// are still to be made.
pub fn groups(
    plan: &Plan,
    budget: Option<&Budget>,
    planned: &[Planned],
    left: &[Pending],
) -> Vec<Group> {
    let fate = |state: &State| match state {
        State::Left(_) => Fate::Left,
        State::Done => Fate::Done,
        State::Failed(reason) => Fate::Dropped(Mark::Failed, reason.clone()),
        State::Refused(reason) => Fate::Dropped(Mark::Refused, reason.clone()),
    };
    let mut groups = plan::groups(planned.iter().map(|planned| plan::Planned {
        group: planned.launch.scenario.clone(),
        item: planned.launch.target.clone(),
        fate: fate(&planned.state),
    }));
    for group in &mut groups {
        for item in &mut group.items {
            item.expected = expected::item(plan, budget, left, &group.name, &item.name);
        }
    }
    groups
}

/// Report that a launch begins; returns the log's span for it.
pub(super) fn begin(launch: &Launch) -> Span {
    let (target, block) = (&launch.target, launch.invocation + 1);
    let span = info_span!("launch", %target, scenario = %launch.scenario, block);
    emit(Event::Begin(Begin {
        group: launch.scenario.clone(),
        item: launch.target.clone(),
        detail: format!("block {block}"),
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

pub(super) fn case(case: &Case) {
    emit(Event::Part {
        name: case.id.clone(),
        samples: case.requests,
    });
}

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

/// Report that a launch isn't made, because an earlier one of the same target and scenario failed
/// or was skipped.
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

/// Report the items of a stage, each of which takes one launch.
pub(super) fn group<'a>(name: &str, items: impl Iterator<Item = &'a str>) {
    emit(Event::Group(Group {
        name: name.to_owned(),
        items: items.map(|item| Item::waiting(item, 1)).collect(),
    }));
}

/// Report that the timed outputs of a cell were judged: wrong ones are an error.
pub(super) fn checked(record: &CheckRecord) {
    if record.wrong > 0 {
        let all = record.outputs();
        error(format!(
            "{} · {}/{}: the reference rejects {} of {all} timed outputs, so its times don't count",
            record.target, record.scenario, record.case, record.wrong
        ));
    }
}
