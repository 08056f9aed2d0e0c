//! What the gate tells whoever looks: a group a model, an item a target.

use schema::golden::GoldenPrompt;
use schema::record::{Status, VerifyRecord};
use schema::registry::Target;
use watch::event::{Begin, Event, Group, Item, Mark, NO_METERS};
use watch::{emit, error, warn};

fn group_name(model: &str) -> String {
    format!("parity on {model}")
}

/// There are these targets to be judged, some of which were before.
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

/// A target is asked.
pub fn begin(model: &str, target: &Target) {
    emit(Event::Begin(Begin {
        group: group_name(model),
        item: target.id.clone(),
        detail: String::new(),
        meters: &NO_METERS,
        skippable: true,
    }));
}

/// What it is asked now, in a few words.
pub fn part(name: &str) {
    emit(Event::Part {
        name: name.into(),
        samples: 0,
    });
}

/// It is asked about a prompt and what follows it.
pub fn context(prompt: &GoldenPrompt) {
    part(&format!("a context of {} tokens", prompt.context_tokens()));
}

/// The user doesn't want it asked.
pub fn skipped() {
    emit(Event::End {
        mark: Mark::Skipped,
        reason: "skipped by the user".into(),
    });
}

/// It is judged. Not passing is an error where it is the target's fault, else a
/// warning, unless it `was_said`.
pub fn end(record: &VerifyRecord, was_said: bool) {
    let fault = is_failure(record.status);
    let mark = match record.status {
        Status::Ok => Mark::Done,
        _ if fault => Mark::Failed,
        _ => Mark::Refused,
    };
    if mark != Mark::Done && !was_said {
        let text = format!(
            "{} does not pass the parity gate on {}, so it is not timed: {}: {}",
            record.target,
            record.model,
            record.status.id(),
            record.reason
        );
        match fault {
            true => error(text),
            false => warn(text),
        }
    }
    let reason = match mark {
        Mark::Done => String::new(),
        _ => format!("{}: {}", record.status.id(), record.reason),
    };
    emit(Event::End { mark, reason });
}

/// Whether a status is the target's fault, rather than this machine's lack.
pub fn is_failure(status: Status) -> bool {
    !matches!(
        status,
        Status::Ok | Status::Unavailable | Status::Unsupported
    )
}
