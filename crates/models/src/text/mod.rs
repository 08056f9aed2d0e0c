//! Makes endless small stories from a seed, English-like and varied. Tokenizers are trained on
//! them, and the harness cuts prompts from them.
//!
//! The grammar has invented names, numbers, dialogue, code, lists and words in other scripts, so
//! that a vocabulary of a few thousand tokens can be learned from it and no two seeds share a
//! sentence. It does not try to make sense.

// Packed lists: one word a line would be five hundred lines.
#[rustfmt::skip]
mod words;

use crate::prng::Rng;
use words::*;

/// Stories from `seed`, at least `min_chars` characters long, ending with a whole paragraph.
///
/// Different seeds differ from the first sentence on: it names two people, a place and a year.
pub fn text(seed: u64, min_chars: usize) -> String {
    let mut rng = Rng::new(seed, "story");
    let (mut text, mut chars) = (String::new(), 0);
    while chars < min_chars {
        let story = Story::new(&mut rng).tell(min_chars - chars);
        chars += story.chars().count();
        text += &story;
    }
    text
}

/// A story being told: its people, place and thing, and the random numbers that decide the rest.
struct Story<'a> {
    rng: &'a mut Rng,
    people: Vec<String>,
    place: String,
    thing: String,
}

impl<'a> Story<'a> {
    fn new(rng: &'a mut Rng) -> Self {
        let people = (0..rng.between(2, 4)).map(|_| person(rng)).collect();
        let place = place(rng);
        let thing = format!("{} {}", rng.pick(QUALITIES), rng.pick(THINGS));
        Self {
            rng,
            people,
            place,
            thing,
        }
    }

    /// Tells an opening and paragraphs, until there are `enough` characters or the story is over.
    fn tell(mut self, enough: usize) -> String {
        let mut story = self.opening();
        let mut chars = story.chars().count();
        for _ in 0..self.rng.between(3, 7) {
            let paragraph = match self.rng.below(9) {
                0 => self.code(),
                1 => self.list(),
                2 | 3 => self.dialogue(),
                _ => self.narration(),
            };
            chars += paragraph.chars().count() + 2;
            story += "\n\n";
            story += &paragraph;
            if chars >= enough {
                break;
            }
        }
        story + "\n\n"
    }

    fn opening(&mut self) -> String {
        let (year, trade) = (self.rng.between(1600, 2099), self.rng.pick(TRADES));
        let (other_trade, deed) = (self.rng.pick(TRADES), self.rng.pick(DEEDS));
        let (hero, friend) = (&self.people[0], &self.people[1]);
        let (place, thing) = (&self.place, &self.thing);
        match self.rng.below(6) {
            0 => format!(
                "In {year}, {hero}, {} {trade} from {place}, {deed} {} {thing}.",
                article(trade),
                article(thing)
            ),
            1 => format!(
                "{hero} met {friend} in {place} in the year {year}, because of {} {thing}.",
                article(thing)
            ),
            2 => format!(
                "# The {trade} of {place}\n\n{hero} was born in {year}, and {friend} was the only {other_trade} who {deed} the {thing}."
            ),
            3 => format!(
                "“{friend},” wrote {hero} from {place} in {year}, “nobody {deed} the {thing} as you did.”"
            ),
            4 => format!(
                "{place}, {year}. The {trade} {hero} and the {other_trade} {friend} {deed} {} {thing}.",
                article(thing)
            ),
            _ => format!(
                "Nobody in {place} knew why {hero} {deed} the {thing}, not even {friend}, {} {trade} since {year}.",
                article(trade)
            ),
        }
    }

    fn narration(&mut self) -> String {
        let sentences: Vec<String> = (0..self.rng.between(3, 7))
            .map(|_| self.sentence())
            .collect();
        sentences.join(" ")
    }

    fn sentence(&mut self) -> String {
        let who = self.someone();
        let other = self.someone();
        let rng = &mut *self.rng;
        let (deed, thing) = (rng.pick(DEEDS), rng.pick(THINGS));
        let (quality, second) = (rng.pick(QUALITIES), rng.pick(QUALITIES));
        let (time, spot, manner) = (rng.pick(TIMES), rng.pick(SPOTS), rng.pick(MANNERS));
        let (idea, trade) = (rng.pick(IDEAS), rng.pick(TRADES));
        let number = rng.between(2, 999);
        match rng.below(16) {
            0 => format!(
                "{}, {who} {manner} {deed} the {quality} {thing}.",
                capital(time)
            ),
            1 => format!(
                "{who} {deed} {} {quality} {thing} {spot}.",
                article(quality)
            ),
            2 => format!(
                "It was {} {quality} {thing}, and {who} didn't like it.",
                article(quality)
            ),
            3 => format!(
                "{} {time}, the {trade} {deed} {number} {thing}s.",
                capital(spot)
            ),
            4 => format!(
                "There is no {idea} without {}, thought {who}; {other} only {deed} the {thing}.",
                rng.pick(IDEAS)
            ),
            5 => format!(
                "The {second} {trade} paid ${number}.{:02} for the {thing} and {manner} went home.",
                rng.below(100)
            ),
            6 => format!(
                "At {}:{:02} the {quality} {thing} arrived {spot}.",
                rng.between(1, 23),
                rng.below(60)
            ),
            7 => format!(
                "{who} and {other} walked {number} miles to {}, where the {thing}s are {quality}.",
                place(rng)
            ),
            8 => format!("Was the {thing} {quality} or {second}? {who} {deed} it {manner}."),
            9 => format!(
                "{who}'s {thing} weighed {}.{} kg, which was {quality} for {} {trade}.",
                rng.below(90),
                rng.below(10),
                article(trade)
            ),
            10 => format!("They're {second}, we've {deed} them, and {who} won't wait {spot}!"),
            11 => format!(
                "{who} read about {} and {idea} in the {quality} {thing} {time}.",
                rng.pick(FOREIGN)
            ),
            12 => format!(
                "If {other} {deed} the {thing}, then {who} would be {quality}, {second} and {}.",
                rng.pick(QUALITIES)
            ),
            13 => format!(
                "No. {number} was {quality}: a question of {idea}, as {} said.",
                person(rng)
            ),
            14 => format!(
                "{}, {} {trade} of {}, {deed} the {thing} because {other} had not.",
                person(rng),
                article(trade),
                rng.between(18, 97)
            ),
            _ => format!(
                "{manner_capital} the {thing} became {quality} ({number} years of {idea} had passed).",
                manner_capital = capital(manner)
            ),
        }
    }

    fn dialogue(&mut self) -> String {
        let lines: Vec<String> = (0..self.rng.between(2, 5))
            .map(|_| {
                let (who, other) = (self.someone(), self.someone());
                let rng = &mut *self.rng;
                let (deed, thing, said) = (rng.pick(DEEDS), rng.pick(THINGS), rng.pick(SAID));
                let (quality, manner) = (rng.pick(QUALITIES), rng.pick(MANNERS));
                match rng.below(5) {
                    0 => format!("\"Who {deed} my {thing}?\" {said} {who} {manner}."),
                    1 => format!(
                        "\"It's only {} {quality} {thing}, {other},\" {said} {who}.",
                        article(quality)
                    ),
                    2 => format!(
                        "\"I'll give you {} for it,\" {who} {said}. \"Not more!\"",
                        rng.between(3, 5000)
                    ),
                    3 => format!(
                        "\"You'd better ask {}; they {deed} {}.\"",
                        person(rng),
                        rng.pick(IDEAS)
                    ),
                    _ => format!(
                        "\"{}!\" {said} {who} {manner}, and {other} {deed} the {thing}.",
                        capital(rng.pick(QUALITIES))
                    ),
                }
            })
            .collect();
        lines.join("\n")
    }

    fn list(&mut self) -> String {
        let mut list = format!("## What {} {}\n", self.someone(), self.rng.pick(DEEDS));
        for number in 1..=self.rng.between(3, 5) {
            let (quality, thing) = (self.rng.pick(QUALITIES), self.rng.pick(THINGS));
            let price = self.rng.between(1, 400);
            list += &match self.rng.below(3) {
                0 => format!(
                    "\n{number}. {} **{quality}** {thing} ({price} kr)",
                    capital(article(quality))
                ),
                1 => format!("\n- [ ] `{thing}`: {price} × {}", self.rng.pick(FOREIGN)),
                _ => format!("\n* {quality}, {}, {price}%", self.rng.pick(IDEAS)),
            };
        }
        list
    }

    fn code(&mut self) -> String {
        let rng = &mut *self.rng;
        let (a, b, c) = (
            rng.pick(IDENTIFIERS),
            rng.pick(IDENTIFIERS),
            rng.pick(THINGS),
        );
        let (n, m) = (rng.between(0, 255), rng.between(1, 65_536));
        match rng.below(4) {
            0 => format!(
                "```rust\nfn {c}({b}: &[u8]) -> Option<usize> {{\n    let {c} = {b}.iter().position(|x| *x == {n})?;\n    Some({c} + {m})\n}}\n```"
            ),
            1 => format!(
                "```python\ndef {c}(self, {b}):\n    for i in range({m}):\n        if {a}[i] != {n}:\n            return {b} + 1\n    raise ValueError(\"{c}\")\n```"
            ),
            2 => format!(
                "{{\"{c}\": {{\"{b}\": {n}, \"{a}\": [{m}, null, true]}}, \"id\": \"{m:x}-{n:02x}\"}}"
            ),
            _ => format!(
                "$ {c} --{b}={m} ./{a}/{c}.txt | sort -n | head -{n}  # {}",
                rng.pick(IDEAS)
            ),
        }
    }

    /// The first name of one of the people, or a pronoun.
    fn someone(&mut self) -> String {
        if self.rng.one_in(4) {
            return self
                .rng
                .pick(&["she", "he", "they", "the stranger", "everybody", "I", "we"])
                .to_owned();
        }
        let name = &self.people[self.rng.below(self.people.len())];
        let first = name.split(' ').next().unwrap_or(name);
        first.to_owned()
    }
}

fn person(rng: &mut Rng) -> String {
    let first = [
        rng.pick(NAME_START),
        rng.pick(NAME_MIDDLE),
        rng.pick(NAME_END),
    ]
    .concat();
    format!("{first} {}{}", rng.pick(NAME_START), rng.pick(FAMILY_END))
}

fn place(rng: &mut Rng) -> String {
    [
        rng.pick(NAME_START),
        rng.pick(NAME_MIDDLE),
        rng.pick(PLACE_END),
    ]
    .concat()
}

fn article(word: &str) -> &'static str {
    if word.starts_with(['a', 'e', 'i', 'o', 'u']) {
        "an"
    } else {
        "a"
    }
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(chars).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn first_sentences_differ_by_seed() {
        let starts: HashSet<String> = (0..2_000)
            .map(|seed| text(seed, 1).chars().take(60).collect())
            .collect();
        assert_eq!(starts.len(), 2_000);
    }

    #[test]
    fn a_seed_gives_the_same_text_and_enough_of_it() {
        assert_eq!(text(5, 900), text(5, 900));
        for chars in [1, 100, 10_000] {
            assert!(text(5, chars).chars().count() >= chars);
        }
    }

    #[test]
    fn there_is_variety() {
        let text = text(1, 200_000);
        let words: HashSet<&str> = text.split_whitespace().collect();
        assert!(words.len() > 5_000, "{} words", words.len());
        assert!(text.contains("```") && text.contains("東京") && text.contains('"'));
    }
}
