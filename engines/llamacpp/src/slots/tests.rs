//! Tests of the slots with a scripted decoder, which counts upwards from the tokens it is fed, and
//! records every step.

use super::*;
use protocol::wire::{Event, FailureKind, Generate};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Receiver, channel};

const VOCABULARY: u32 = 100;

/// A token that was fed: slot, position, token, whether its logits are wanted.
type Fed = (usize, usize, u32, bool);

#[derive(Default)]
struct Script {
    tokens_max: usize,
    composed: Vec<Fed>,
    steps: Vec<Vec<Fed>>,
    /// Number of positions that each slot holds.
    held: BTreeMap<usize, usize>,
    logits: Vec<f32>,
    /// The numbers of the steps that fail.
    failing: BTreeSet<usize>,
    /// Whether `keep` refuses to discard only a part of a slot.
    forgets_whole: bool,
}

impl Decoder for Script {
    fn tokens_max(&self) -> usize {
        self.tokens_max
    }

    fn feed(&mut self, slot: usize, position: usize, token: u32, wanted: bool) {
        let held = self.held.entry(slot).or_default();
        assert_eq!(*held, position, "slot {slot} was not fed in order");
        *held += 1;
        self.composed.push((slot, position, token, wanted));
        assert!(self.composed.len() <= self.tokens_max);
    }

    fn step(&mut self) -> Result<(), EngineError> {
        assert!(!self.composed.is_empty(), "an empty step");
        self.steps.push(std::mem::take(&mut self.composed));
        if self.failing.contains(&(self.steps.len() - 1)) {
            return Err(EngineError::new(FailureKind::Oom, "no room"));
        }
        Ok(())
    }

    fn logits(&mut self, index: usize) -> Result<&[f32], EngineError> {
        let (_, _, token, wanted) = self.steps[self.steps.len() - 1][index];
        assert!(wanted, "logits that nobody asked for");
        self.logits = vec![0.0; VOCABULARY as usize];
        self.logits[(token + 1) as usize] = 1.0;
        Ok(&self.logits)
    }

    fn forget(&mut self, slot: usize) {
        self.held.remove(&slot);
    }

    fn keep(&mut self, slot: usize, positions: usize) -> bool {
        if !self.forgets_whole {
            self.held.insert(slot, positions);
        }
        !self.forgets_whole
    }
}

fn slots(count: usize, tokens_max: usize) -> Slots<Script> {
    let script = Script {
        tokens_max,
        ..Script::default()
    };
    Slots::new(script, count, false)
}

/// Slots that keep what was fed.
fn keeping(count: usize) -> Slots<Script> {
    Slots {
        keeps: true,
        ..slots(count, 8)
    }
}

/// Slot, position and token.
type Place = (usize, usize, u32);

/// Return everything that was fed since step `from`.
fn fed(slots: &Slots<Script>, from: usize) -> Vec<Place> {
    let fed = slots.decoder.steps[from..].iter().flatten();
    fed.map(|&(slot, position, token, _)| (slot, position, token))
        .collect()
}

fn finish(slots: &mut Slots<Script>) {
    while !slots.idle() {
        slots.step();
    }
}

fn generate(slots: &mut Slots<Script>, prompt: &[u32], new_tokens: u32) -> Receiver<Event> {
    let (reply, answer) = channel();
    let generate = Generate {
        id: 7,
        prompt_ids: prompt.to_vec(),
        new_tokens,
        together: 1,
    };
    let job = Job::new(generate, 0, move |event| reply.send(event).unwrap());
    slots.admit(Work::Generate(job));
    answer
}

/// Run one sequence to its end, whatever it answers; return what was fed.
fn fed_for(slots: &mut Slots<Script>, prompt: &[u32], new_tokens: u32) -> Vec<Place> {
    let from = slots.decoder.steps.len();
    let _answer = generate(slots, prompt, new_tokens);
    finish(slots);
    fed(slots, from)
}

fn run(slots: &mut Slots<Script>) {
    finish(slots);
    assert!(slots.decoder.held.is_empty(), "something was not forgotten");
}

fn done(answer: &Receiver<Event>) -> Done {
    match answer.try_recv().expect("it is answered") {
        Event::Done(done) => done,
        other => panic!("{other:?}"),
    }
}

#[test]
fn one_sequence_is_a_prefill_and_then_a_token_a_step() {
    let mut slots = slots(1, 8);
    let answer = generate(&mut slots, &[10, 20, 30], 3);
    run(&mut slots);
    let expected: [&[Fed]; 3] = [
        &[(0, 0, 10, false), (0, 1, 20, false), (0, 2, 30, true)],
        &[(0, 3, 31, true)],
        &[(0, 4, 32, true)],
    ];
    assert_eq!(slots.decoder.steps, expected);
    let done = done(&answer);
    assert_eq!(done.output_ids, [31, 32, 33]);
    assert_eq!((done.id, done.batch, done.token_ns.len()), (7, 1, 3));
    assert!(done.started_ns > 0 && done.started_ns <= done.token_ns[0]);
    assert!(done.token_ns.is_sorted());
}

#[test]
fn a_sequence_joins_what_is_running_and_leaves_it() {
    let mut slots = slots(2, 8);
    let first = generate(&mut slots, &[10], 5);
    slots.step();
    slots.step();
    let second = generate(&mut slots, &[50, 60], 2);
    slots.step();
    let joined = &slots.decoder.steps[2];
    assert_eq!(
        *joined,
        [(0, 2, 12, true), (1, 0, 50, false), (1, 1, 60, true)],
        "the running one first"
    );
    slots.step();
    let left = done(&second);
    assert_eq!((left.output_ids, left.batch), (vec![61, 62], 2));
    assert!(first.try_recv().is_err());
    run(&mut slots);
    assert_eq!(slots.decoder.steps[4], [(0, 4, 14, true)]);
    let first = done(&first);
    assert_eq!(
        (first.output_ids, first.batch),
        (vec![11, 12, 13, 14, 15], 2)
    );
}

#[test]
fn a_long_prompt_takes_what_room_the_running_ones_leave() {
    let mut slots = slots(2, 4);
    let first = generate(&mut slots, &[10], 6);
    slots.step();
    let long = generate(&mut slots, &[40, 41, 42, 43, 44, 45, 46], 1);
    slots.step();
    slots.step();
    slots.step();
    let lengths: Vec<usize> = slots.decoder.steps.iter().map(Vec::len).collect();
    assert_eq!(lengths, [1, 4, 4, 2]);
    let wanted = |step: usize| slots.decoder.steps[step].iter().filter(|fed| fed.3).count();
    assert_eq!(
        [wanted(1), wanted(2), wanted(3)],
        [1, 1, 2],
        "the last only"
    );
    assert_eq!(done(&long).output_ids, [47]);
    run(&mut slots);
    assert_eq!(done(&first).output_ids, [11, 12, 13, 14, 15, 16]);
}

#[test]
fn prompts_share_a_step_until_it_is_full_oldest_first() {
    let mut slots = slots(3, 5);
    let answers: Vec<_> = [[10, 11], [20, 21], [30, 31]]
        .iter()
        .map(|prompt| generate(&mut slots, prompt, 2))
        .collect();
    run(&mut slots);
    let steps = &slots.decoder.steps;
    let fed: Vec<usize> = steps[0].iter().map(|fed| fed.0).collect();
    assert_eq!(fed, [0, 0, 1, 1, 2]);
    let fed: Vec<(usize, usize)> = steps[1].iter().map(|fed| (fed.0, fed.1)).collect();
    assert_eq!(fed, [(0, 2), (1, 2), (2, 1)]);
    for (answer, first) in answers.iter().zip([12, 22, 32]) {
        let done = done(answer);
        assert_eq!((done.output_ids, done.batch), (vec![first, first + 1], 3));
    }
}

#[test]
fn what_finds_no_slot_waits_and_gets_a_clean_one() {
    let mut slots = slots(1, 8);
    let first = generate(&mut slots, &[10], 2);
    let second = generate(&mut slots, &[20], 1);
    run(&mut slots);
    let expected: [&[Fed]; 3] = [
        &[(0, 0, 10, true)],
        &[(0, 1, 11, true)],
        &[(0, 0, 20, true)],
    ];
    assert_eq!(slots.decoder.steps, expected);
    let (first, second) = (done(&first), done(&second));
    assert_eq!((first.batch, second.batch), (1, 1));
    assert!(second.started_ns >= first.token_ns[1]);
}

#[test]
fn forced_tokens_take_the_same_steps() {
    let mut slots = slots(1, 2);
    let (reply, logits) = channel();
    slots.admit(Work::Force(Forced {
        prompt: vec![10, 20, 30],
        forced: vec![70, 80],
        reply,
    }));
    run(&mut slots);
    let expected: [&[Fed]; 4] = [
        &[(0, 0, 10, false), (0, 1, 20, false)],
        &[(0, 2, 30, true)],
        &[(0, 3, 70, true)],
        &[(0, 4, 80, true)],
    ];
    assert_eq!(slots.decoder.steps, expected);
    let rows = logits.try_recv().unwrap().unwrap();
    let chosen: Vec<u32> = rows.iter().map(|row| argmax(row)).collect();
    assert_eq!(chosen, [31, 71, 81]);
}

#[test]
fn a_failed_step_fails_who_was_in_it_and_no_one_else() {
    let mut slots = slots(2, 2);
    slots.decoder.failing.insert(0);
    let long = generate(&mut slots, &[10, 11, 12], 1);
    let second = generate(&mut slots, &[20], 1);
    run(&mut slots);
    match long.try_recv().unwrap() {
        Event::Error(failure) => assert_eq!(failure.kind, FailureKind::Oom),
        other => panic!("{other:?}"),
    }
    assert_eq!(done(&second).output_ids, [21]);
    let again = generate(&mut slots, &[30], 1);
    run(&mut slots);
    assert_eq!(done(&again).output_ids, [31]);
}

#[test]
fn a_prompt_goes_on_from_what_a_slot_holds() {
    let mut slots = keeping(1);
    fed_for(&mut slots, &[10, 20, 30], 3);
    // The tokens 10 20 30 31 32 were fed; 33 was only chosen.
    assert_eq!(slots.held, [[10, 20, 30, 31, 32]]);
    let from = slots.decoder.steps.len();
    let second = generate(&mut slots, &[10, 20, 50, 60], 1);
    finish(&mut slots);
    assert_eq!(fed(&slots, from), [(0, 2, 50), (0, 3, 60)]);
    let done = done(&second);
    assert_eq!(done.output_ids, [61]);
    assert!(done.started_ns > 0 && done.started_ns <= done.token_ns[0]);
    // The same prompt again: its last token is fed, because its logits are wanted.
    let again = fed_for(&mut slots, &[10, 20, 50, 60], 2);
    assert_eq!(again, [(0, 3, 60), (0, 4, 61)]);
    assert_eq!(slots.held, [[10, 20, 50, 60, 61]]);
}

#[test]
fn a_prompt_goes_where_most_of_it_is_held() {
    let mut slots = keeping(2);
    let _first = generate(&mut slots, &[10, 20, 30], 1);
    let _second = generate(&mut slots, &[40, 50, 60], 1);
    finish(&mut slots);
    assert_eq!(fed_for(&mut slots, &[40, 50, 70], 1), [(1, 2, 70)]);
    assert_eq!(slots.held, [[10, 20, 30], [40, 50, 70]]);
}

#[test]
fn what_is_forced_takes_nothing_over_and_leaves_nothing() {
    let mut slots = keeping(1);
    fed_for(&mut slots, &[10, 20, 30], 1);
    let from = slots.decoder.steps.len();
    let (reply, _logits) = channel();
    slots.admit(Work::Force(Forced {
        prompt: vec![10, 20],
        forced: vec![],
        reply,
    }));
    finish(&mut slots);
    assert_eq!(fed(&slots, from), [(0, 0, 10), (0, 1, 20)]);
    assert!(slots.held[0].is_empty() && slots.decoder.held.is_empty());
}

#[test]
fn a_slot_that_cannot_be_cut_short_is_begun_anew() {
    let mut slots = keeping(1);
    slots.decoder.forgets_whole = true;
    fed_for(&mut slots, &[10, 20, 30], 1);
    let anew = fed_for(&mut slots, &[10, 40], 1);
    assert_eq!(anew, [(0, 0, 10), (0, 1, 40)]);
}

#[test]
fn a_failed_step_leaves_nothing_to_go_on_from() {
    let mut slots = keeping(1);
    slots.decoder.failing.insert(0);
    fed_for(&mut slots, &[10, 20], 1);
    let anew = fed_for(&mut slots, &[10, 20], 1);
    assert_eq!(anew, [(0, 0, 10), (0, 1, 20)]);
}

#[test]
fn nothing_to_do_is_no_step() {
    let mut slots = slots(1, 2);
    assert!(slots.idle());
    slots.step();
    assert!(slots.decoder.steps.is_empty());
}
