//! Makes short stories from a seeded grammar, without end; `tiny-stories` is trained on them.
//!
//! Unlike [`text`](crate::text), which is varied and makes no sense, they use few words and are
//! consistent: the hero, the animal that helps and the lost thing stay the same from the first
//! sentence to the last, so one can see whether a model has learned it. [`follows`] finds out
//! whether a text could be one of these stories.

mod follow;
mod grammar;
#[rustfmt::skip]
mod words;

pub use follow::follows;

use crate::prng::{self, Rng};
use grammar::PLOTS;
use words::*;

/// Separator of two stories in a long text: the tokens that end one and begin the next.
pub const BETWEEN: &str = "</s><s>";

/// The kind of a slot. The words for the hero depend on each other: see [`HERO_FORMS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slot {
    /// The child's name.
    Hero,
    /// A word that depends on whether the child is a girl or a boy, by its index in [`HERO_FORMS`].
    Form(usize),
    /// A list of which one entry is chosen for the whole story, by its index in [`CHOICES`].
    Choice(usize),
}

/// Slots whose word depends on the hero, each with the word for a girl and for a boy.
const HERO_FORMS: [(&str, [&str; 2]); 6] = [
    ("girl", ["girl", "boy"]),
    ("She", ["She", "He"]),
    ("she", ["she", "he"]),
    ("Her", ["Her", "His"]),
    ("her", ["her", "his"]),
    ("him", ["her", "him"]),
];

/// Slots with a list of words each.
const CHOICES: [(&str, &[&str]); 13] = [
    ("beast", BEASTS),
    ("friend", FRIENDS),
    ("color", COLORS),
    ("thing", THINGS),
    ("place", PLACES),
    ("spot", SPOTS),
    ("wrong", SPOTS),
    ("weather", WEATHERS),
    ("parent", PARENTS),
    ("food", FOODS),
    ("fear", FEARS),
    ("trait", TRAITS),
    ("nature", TRAITS),
];
/// Indices of the two choices that must differ: where the lost thing is, and where it isn't.
const SPOT: usize = 5;
const WRONG: usize = 6;

fn slot(name: &str) -> Slot {
    if name == "hero" {
        return Slot::Hero;
    }
    if let Some(form) = HERO_FORMS.iter().position(|(known, _)| *known == name) {
        return Slot::Form(form);
    }
    let choice = CHOICES.iter().position(|(known, _)| *known == name);
    Slot::Choice(choice.unwrap_or_else(|| panic!("the grammar has no slot {{{name}}}")))
}

fn form(number: usize, boy: bool) -> &'static str {
    HERO_FORMS[number].1[usize::from(boy)]
}

fn hero(number: usize) -> (&'static str, bool) {
    match GIRLS.get(number) {
        Some(name) => (name, false),
        None => (BOYS[number - GIRLS.len()], true),
    }
}

const HEROES: usize = GIRLS.len() + BOYS.len();

/// Splits a wording into literal text (`Err`) and slots (`Ok`), in turn.
fn pieces(wording: &str) -> impl Iterator<Item = Result<Slot, &str>> {
    let parts = wording.split(['{', '}']).enumerate();
    parts.map(|(i, part)| match i % 2 {
        0 => Err(part),
        _ => Ok(slot(part)),
    })
}

/// Story number `index` of the endless collection `seed`: a function of the two, 70 to 130 words.
pub fn story(seed: u64, index: u64) -> String {
    let mut rng = Rng::new(
        prng::bits(prng::stream_key(seed, "stories"), index),
        "story",
    );
    let (name, boy) = hero(rng.below(HEROES));
    let mut chosen = CHOICES.map(|(_, list)| rng.below(list.len()));
    if chosen[WRONG] == chosen[SPOT] {
        chosen[WRONG] = (chosen[SPOT] + 1) % SPOTS.len();
    }
    let plot = PLOTS[rng.below(PLOTS.len())];
    let mut story = String::new();
    for beat in plot {
        let wording = beat[rng.below(beat.len())];
        if wording.is_empty() {
            continue;
        }
        if !story.is_empty() {
            story.push(' ');
        }
        for piece in pieces(wording) {
            story += match piece {
                Err(literal) => literal,
                Ok(Slot::Hero) => name,
                Ok(Slot::Form(number)) => form(number, boy),
                Ok(Slot::Choice(number)) => CHOICES[number].1[chosen[number]],
            };
        }
    }
    story
}

/// Stories of the collection `seed`, [`BETWEEN`] them, at least `min_chars` characters in all.
pub fn text(seed: u64, min_chars: usize) -> String {
    let mut text = String::new();
    for index in 0.. {
        text += &story(seed, index);
        if text.len() >= min_chars {
            break;
        }
        text += BETWEEN;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn a_story_is_a_function_of_seed_and_number() {
        assert_eq!(story(1, 7), story(1, 7));
        assert_ne!(story(1, 7), story(2, 7));
        let stories: HashSet<String> = (0..5_000).map(|i| story(1, i)).collect();
        assert_eq!(stories.len(), 5_000, "no two alike");
    }

    #[test]
    fn stories_have_a_page_and_no_slot_left_open() {
        for i in 0..2_000 {
            let story = story(3, i);
            let words = story.split(' ').count();
            assert!((70..=130).contains(&words), "{words} words: {story}");
            assert!(!story.contains(['{', '}', '<', '\n']), "{story}");
            assert!(
                !story.contains("  ") && story.ends_with(['.', '!', '"']),
                "{story}"
            );
        }
    }

    #[test]
    fn one_of_them_reads_so() {
        // A change here makes tiny-stories another model: train it again.
        assert_eq!(story(1, 0), include_str!("first.txt").trim_end());
    }

    #[test]
    fn a_long_text_is_stories_with_their_ends_marked() {
        let text = text(4, 5_000);
        assert!(text.len() >= 5_000);
        for part in text.split(BETWEEN) {
            assert!(follows(part), "{part}");
        }
    }
}
