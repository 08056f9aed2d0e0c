//! Checks whether a text follows the grammar. It knows all wordings and remembers what is told
//! about whom.
//!
//! It judges form and consistency only, not style: a story that it accepts is one that
//! [`story`](super::story) could have told.

use super::grammar::PLOTS;
use super::{CHOICES, HEROES, SPOT, Slot, WRONG, form, hero, pieces};

/// The facts that the sentences so far have told; `None` for those that aren't told yet.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Known {
    boy: Option<bool>,
    hero: Option<usize>,
    chosen: [Option<usize>; CHOICES.len()],
}

/// Whether `text` is exactly one story that follows the grammar, from its first word to its last.
pub fn follows(text: &str) -> bool {
    PLOTS.iter().any(|plot| {
        // The possible positions in the text after the beats so far, each with what is known there.
        let mut states = vec![(0, Known::default())];
        for beat in *plot {
            let mut next = Vec::new();
            for &(at, known) in &states {
                for wording in *beat {
                    if wording.is_empty() {
                        next.push((at, known));
                        continue;
                    }
                    let start = match (at, text[at..].strip_prefix(' ')) {
                        (0, _) => 0,
                        (_, Some(_)) => at + 1,
                        _ => continue,
                    };
                    read(wording, text, start, known, &mut next);
                }
            }
            next.dedup();
            states = next;
        }
        states.iter().any(|(at, _)| *at == text.len())
    })
}

/// Finds all ways to read `wording` in `text` at `start`; each is where it ends and what is known
/// then.
fn read(wording: &str, text: &str, start: usize, known: Known, out: &mut Vec<(usize, Known)>) {
    let mut states = vec![(start, known)];
    for piece in pieces(wording) {
        let mut next = Vec::new();
        for (at, known) in states {
            let mut take = |word: &str, known: Known| {
                if text[at..].starts_with(word) {
                    next.push((at + word.len(), known));
                }
            };
            match piece {
                Err(literal) => take(literal, known),
                Ok(Slot::Hero) => {
                    for number in 0..HEROES {
                        let (name, boy) = hero(number);
                        let same = known.hero.is_none_or(|hero| hero == number);
                        if same && known.boy.is_none_or(|known| known == boy) {
                            let (hero, boy) = (Some(number), Some(boy));
                            take(name, Known { hero, boy, ..known });
                        }
                    }
                }
                Ok(Slot::Form(number)) => {
                    for is_boy in [false, true] {
                        if known.boy.is_none_or(|known| known == is_boy) {
                            let boy = Some(is_boy);
                            take(form(number, is_boy), Known { boy, ..known });
                        }
                    }
                }
                Ok(Slot::Choice(slot)) => {
                    for (number, word) in CHOICES[slot].1.iter().enumerate() {
                        let mut known = known;
                        if known.chosen[slot].is_some_and(|chosen| chosen != number) {
                            continue;
                        }
                        known.chosen[slot] = Some(number);
                        let [spot, wrong] = [SPOT, WRONG].map(|slot| known.chosen[slot]);
                        if spot.is_none() || spot != wrong {
                            take(word, known);
                        }
                    }
                }
            }
        }
        states = next;
    }
    out.extend(states);
}

#[cfg(test)]
mod tests {
    use super::super::story;
    use super::*;

    #[test]
    fn every_story_follows_the_grammar() {
        for i in 0..1_000 {
            let story = story(9, i);
            assert!(follows(&story), "{story}");
        }
    }

    #[test]
    fn what_is_forgotten_midway_is_seen() {
        let told = (0..).map(|i| story(5, i));
        let about_mia = told
            .into_iter()
            .find(|s| s.matches("Mia").count() > 2)
            .unwrap();
        let last = about_mia.rfind("Mia").unwrap();
        let other_hero = format!("{}Zoe{}", &about_mia[..last], &about_mia[last + 3..]);
        assert!(!follows(&other_hero), "{other_hero}");
    }

    #[test]
    fn half_a_story_or_more_than_one_is_not_whole() {
        let story = story(2, 2);
        let half = &story[..=story.rfind(". ").unwrap()];
        assert!(!follows(half), "{half}");
        assert!(!follows(&format!("{story} {story}")));
        assert!(!follows("A lighthouse keeper weighed 3 kg."));
    }
}
