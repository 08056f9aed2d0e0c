//! Tests of the state with events and keys made by hand.

use super::*;
use crate::event::scripted::{end, launch, part};
use crate::event::{Group, Item, Sample, Severity, scripted};

fn begin(item: &str) -> Event {
    launch("s", item)
}

fn alert(text: &str) -> Event {
    scripted::alert(Severity::Error, text)
}

fn state(events: impl IntoIterator<Item = (u64, Event)>) -> State {
    let mut state = State::new("cargo xtask bench", 0);
    for (t_ns, event) in events {
        state.apply(t_ns, event);
    }
    state
}

#[test]
fn alerts_come_one_after_the_other_and_none_is_lost() {
    let mut state = state([(1, alert("a")), (2, alert("b"))]);
    assert_eq!(state.alerts.front().unwrap().text, "a");
    state.key(Key::Dismiss);
    state.apply(3, alert("c"));
    let left: Vec<_> = state.alerts.iter().map(|a| a.text.as_str()).collect();
    assert_eq!((left, state.alerts_raised), (vec!["b", "c"], 3));
    state.apply(4, Event::Over);
    assert!(!state.is_finished(), "there are two to be seen");
    state.key(Key::Dismiss);
    state.key(Key::Dismiss);
    assert!(state.is_finished());
    // Each is in the log, too.
    assert_eq!(state.log, ["error: a", "error: b", "error: c"]);
}

#[test]
fn quitting_is_asked_twice_and_then_done_once() {
    let mut state = state([(1, begin("a"))]);
    assert_eq!(state.key(Key::Quit), None);
    assert!(state.wish.quit_asked);
    assert_eq!(state.key(Key::Other), None);
    assert!(!state.wish.quit_asked, "another key goes on");
    assert_eq!(state.key(Key::Quit), None);
    assert_eq!(state.key(Key::Quit), Some(Action::Quit));
    assert_eq!(state.key(Key::Quit), None);
    state.apply(2, alert("a"));
    assert!(!state.is_finished());
    state.apply(3, Event::Over);
    assert!(state.is_finished(), "who quits has seen enough");
}

#[test]
fn one_who_leaves_a_command_that_is_over_need_not_dismiss() {
    let mut state = state([(1, alert("a")), (2, Event::Over)]);
    assert_eq!(state.key(Key::Quit), None);
    assert!(state.is_finished());
}

#[test]
fn launches_that_take_turns_have_run_for_as_long_as_their_turns() {
    let turn = |item: &str| Event::Turn { item: item.into() };
    let mut state = state([
        (0, begin("a")),
        (10, begin("b")),
        (30, turn("a")),
        (35, turn("a")),
        (70, turn("b")),
    ]);
    let running = |state: &State| {
        let running = state.running.as_ref().expect("one of them runs");
        (running.begin.item.clone(), running.took_ns(state.now_ns))
    };
    state.tick(100);
    assert_eq!(running(&state), ("b".into(), 20 + 30));
    let done = Event::ended(schema::record::Status::Ok, "");
    state.apply(100, done);
    state.apply(120, turn("a"));
    assert_eq!(running(&state), ("a".into(), 10 + 40));
    assert!(state.resting.is_empty(), "what is over takes no turn");
}

#[test]
fn only_what_runs_and_may_be_skipped_is_skipped() {
    let mut state = state([]);
    assert_eq!(state.key(Key::Skip), None);
    state.apply(1, Event::Begin(Begin::plain("s", "a")));
    assert_eq!(state.key(Key::Skip), None);
    state.apply(2, begin("a"));
    assert_eq!(state.key(Key::Skip), Some(Action::Skip));
    state.apply(3, end(Mark::Done, ""));
    assert_eq!(state.key(Key::Skip), None);
}

#[test]
fn pausing_is_a_wish_until_work_waits() {
    let mut state = state([]);
    assert_eq!(state.key(Key::Pause), Some(Action::Pause(true)));
    assert!(state.wish.pause && !state.paused);
    state.apply(1, Event::Paused(true));
    assert!(state.paused);
    assert_eq!(state.key(Key::Pause), Some(Action::Pause(false)));
    state.apply(2, Event::Over);
    assert!(!state.paused);
}

#[test]
fn a_complete_part_leaves_its_median_and_another_begins_anew() {
    let mut state = state([(0, Event::Stage(Stage::Measure))]);
    let part = || part("p10", 2);
    let sample = |t_ns, ms| {
        Event::Sample(Sample {
            t_ns,
            timed: true,
            values: [Some(ms), Some(9.0), None],
            work: 1.0,
        })
    };
    for (launch, ms) in [(1, 2.0), (2, 4.0)] {
        let t = launch * 10;
        state.apply(t, begin("a"));
        state.apply(t, part());
        assert_eq!(state.launches().0 as u64, launch - 1);
        state.apply(t + 1, sample(t + 1, ms));
        state.apply(t + 2, sample(t + 2, ms));
        state.apply(t + 3, Event::PartEnd);
    }
    let (k, mean) = state.launches();
    assert_eq!((k, mean.unwrap().mean), (2, 3.0));
    state.key(Key::Meter);
    assert_eq!(state.meter(), Some((1, "TTFT", "ms")));
    assert_eq!(state.launches().1.unwrap().mean, 9.0);
    state.key(Key::Meter);
    assert_eq!(state.launches(), (0, None), "there were none of it");
    // A launch that failed in the middle of a part leaves no median.
    state.apply(40, begin("a"));
    state.apply(40, part());
    state.apply(41, sample(41, 100.0));
    state.apply(50, begin("a"));
    state.apply(50, part());
    state.key(Key::Meter);
    assert_eq!(state.launches().0, 2);
    assert_eq!(state.running.as_ref().unwrap().live.timed, 0);
}

#[test]
fn the_log_is_bounded_and_stays_where_it_is_read() {
    let mut state = state([]);
    for i in 0..1500 {
        state.apply(i, Event::Line(format!("{i}")));
    }
    assert_eq!((state.log.len(), state.log[0].as_str()), (1000, "500"));
    state.key(Key::Back);
    let read = |state: &State| state.log[state.log.len() - 1 - state.log_back].clone();
    assert_eq!(read(&state), "1494");
    state.apply(2000, Event::Line("new\nlines".into()));
    assert_eq!(read(&state), "1494");
    state.key(Key::Follow);
    assert_eq!(read(&state), "lines");
}

#[test]
fn the_plan_follows_what_runs_until_it_is_scrolled() {
    let items = (0..50).map(|i| Item::waiting(format!("t{i:02}"), 1));
    let group = Group {
        name: "s".into(),
        items: items.collect(),
    };
    let begin = Event::Begin(Begin::plain("s", "t30"));
    let mut state = state([(0, Event::Group(group)), (1, begin)]);
    state.plan_rows = 10;
    assert_eq!(state.plan_top(), 31 - 5);
    state.key(Key::Up);
    assert_eq!(state.plan_top(), 25);
    for _ in 0..99 {
        state.key(Key::Down);
    }
    assert_eq!(state.plan_top(), 51 - 10);
    state.key(Key::Follow);
    assert_eq!(state.plan_top(), 26);
}
