//! Emits the progress events of the gate: a group for each model, an item for each target.

use schema::golden::GoldenPrompt;
use schema::record::{Status, VerifyRecord};
use schema::registry::Target;
use watch::event::{Begin, Event, Group, Item, Mark, NO_METERS};
use watch::{emit, error, warn};

fn group_name(model: &str) -> String {
    format!("parity on {model}")
}

/// Report the targets to be judged; those that `is_judged` accepts were judged before.
pub fn group<'a>(
    model: &str,
    targets: impl Iterator<Item = &'a Target>,
    is_judged: impl Fn(&Target) -> bool,
) {
    let item = |target: &'a Target| {
        let mut item = Item::waiting(&target.id, 1);
        if is_judged(target) {
            (item.done, item.mark) = (1, Mark::Done);
        }
        item
    };
    emit(Event::Group(Group {
        name: group_name(model),
        items: targets.map(item).collect(),
    }));
}

/// Report that a target's verification begins.
pub fn begin(model: &str, target: &Target) {
    emit(Event::Begin(Begin {
        group: group_name(model),
        item: target.id.clone(),
        detail: String::new(),
        meters: &NO_METERS,
        skippable: true,
    }));
}

/// Report what the target is asked now, in a few words.
pub fn part(name: &str) {
    emit(Event::Part {
        name: name.into(),
        samples: 0,
    });
}

/// Report that the target is asked about a prompt and the positions after it.
pub fn context(prompt: &GoldenPrompt) {
    part(&format!("a context of {} tokens", prompt.context_tokens()));
}

/// Report that the user skipped the target.
pub fn skipped() {
    emit(Event::End {
        mark: Mark::Skipped,
        reason: "skipped by the user".into(),
    });
}

/// Report a target's judgement. Not passing is an error where it is the target's fault, else a
/// warning; neither is reported where it `was_said` before.
pub fn end(record: &VerifyRecord, was_said: bool) {
    let fault = is_failure(record.status);
    let mark = match record.status {
        Status::Ok => Mark::Done,
        _ if fault => Mark::Failed,
        _ => Mark::Refused,
    };
    let why = format!("{}: {}", record.status.id(), record.reason);
    if mark != Mark::Done && !was_said {
        let text = format!(
            "{} does not pass the parity gate on {}, so it is not timed: {why}",
            record.target, record.model
        );
        match fault {
            true => error(text),
            false => warn(text),
        }
    }
    let reason = match mark {
        Mark::Done => String::new(),
        _ => why,
    };
    emit(Event::End { mark, reason });
}

/// Whether a status is the target's fault, rather than something that this machine lacks. Unlike in
/// the summary of a run, a target that can't be judged is one: nothing of it may be timed.
pub fn is_failure(status: Status) -> bool {
    !matches!(
        status,
        Status::Ok | Status::Unavailable | Status::Unsupported
    )
}
