"""The texts of the suite `micro/tokenizer`, from a seed: the twin of crates/models/src/text and of
engines/simd-tokenizer/src/main.rs. The harness compares the ids of every text with those of the
Rust program, so a difference shows as a wrong output. The words are read where Rust has them.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

MASK = (1 << 64) - 1
GAMMA = 0x9E37_79B9_7F4A_7C15
WORDS = Path(__file__).resolve().parents[2] / "crates/models/src/text/words.rs"
# Ranges of characters beyond ASCII, of which words are made.
SCRIPTS = (
    (0xC0, 0x17F),
    (0x391, 0x3C9),
    (0x410, 0x44F),
    (0x627, 0x64A),
    (0x4E00, 0x4FFF),
    (0x3041, 0x3096),
    (0x1F600, 0x1F64F),
)
PRONOUNS = ["she", "he", "they", "the stranger", "everybody", "I", "we"]


def mix(z: int) -> int:
    """The output function of SplitMix64."""
    z = (z ^ (z >> 30)) * 0xBF58_476D_1CE4_E5B9 & MASK
    z = (z ^ (z >> 27)) * 0x94D0_49BB_1331_11EB & MASK
    return z ^ (z >> 31)


def bits(key: int, index: int) -> int:
    """64 random bits for an element of a stream."""
    return mix((key + (index + 1) * GAMMA) & MASK)


class Rng:
    """A sequence that depends on a seed and a purpose's name."""

    def __init__(self, seed: int, name: str) -> None:
        hashed = 0xCBF2_9CE4_8422_2325
        for byte in name.encode():
            hashed = (hashed ^ byte) * 0x100_0000_01B3 & MASK
        self._key = mix(mix((seed + GAMMA) & MASK) ^ hashed)
        self._next = 0

    def below(self, n: int) -> int:
        """A number in 0..n."""
        self._next += 1
        return bits(self._key, self._next - 1) * n >> 64

    def between(self, low: int, high: int) -> int:
        """A number in low..=high."""
        return low + self.below(high - low + 1)

    def pick(self, choices: list[str]) -> str:
        """One of `choices`."""
        return choices[self.below(len(choices))]


def texts(seed: int, count: int, chars: int, is_mixed: bool) -> list[str]:
    """`count` texts of about `chars` characters each."""
    seeds = [bits(seed, index) for index in range(count)]
    if is_mixed:
        return [mixed(seed, chars) for seed in seeds]
    words = word_lists(WORDS.read_text(encoding="utf-8"))
    return [stories(seed, chars, words)[:chars] for seed in seeds]


def word_lists(source: str) -> dict[str, list[str]]:
    """The lists of words.rs, by their names."""
    lists = re.findall(r"pub const (\w+): &\[&str\] = &\[(.*?)\];", source, re.DOTALL)
    return {name: json.loads(f"[{body.strip().rstrip(',')}]") for name, body in lists}


def mixed(seed: int, chars: int) -> str:
    """Words of many scripts with emoji among them."""
    rng = Rng(seed, "mixed text")
    text, length = [], 0
    while length < chars:
        first, last = SCRIPTS[rng.below(len(SCRIPTS))]
        letters = rng.between(1, 8)
        text += [chr(first + rng.below(last - first + 1)) for _ in range(letters)]
        text.append({0: ", ", 1: ".\n", 2: " 12 "}.get(rng.below(8), " "))
        length += letters + 2
    return "".join(text)


def stories(seed: int, chars: int, words: dict[str, list[str]]) -> str:
    """Stories of at least `chars` characters."""
    rng = Rng(seed, "story")
    text = ""
    while len(text) < chars:
        text += Story(rng, words).tell(chars - len(text))
    return text


def article(word: str) -> str:
    return "an" if word[0] in "aeiou" else "a"


def capital(text: str) -> str:
    return text[0].upper() + text[1:]


class Story:
    """A story that is being told. Values are drawn in the same order as in the Rust code, so the
    order of the statements matters."""

    def __init__(self, rng: Rng, words: dict[str, list[str]]) -> None:
        self._rng = rng
        self._words = words
        self._people = [self.person() for _ in range(rng.between(2, 4))]
        self._place = self.place()
        self._thing = f"{self.pick('QUALITIES')} {self.pick('THINGS')}"

    def pick(self, name: str) -> str:
        return self._rng.pick(self._words[name])

    def picks(self, *names: str) -> list[str]:
        return [self.pick(name) for name in names]

    def person(self) -> str:
        start, middle, end, family, last = self.picks(
            "NAME_START", "NAME_MIDDLE", "NAME_END", "NAME_START", "FAMILY_END"
        )
        return f"{start}{middle}{end} {family}{last}"

    def place(self) -> str:
        return "".join(self.picks("NAME_START", "NAME_MIDDLE", "PLACE_END"))

    def someone(self) -> str:
        if self._rng.below(4) == 0:
            return self._rng.pick(PRONOUNS)
        return self._rng.pick(self._people).split(" ")[0]

    def tell(self, enough: int) -> str:
        story = self.opening()
        for _ in range(self._rng.between(3, 7)):
            kind = self._rng.below(9)
            made = {0: self.code, 1: self.listing, 2: self.dialogue, 3: self.dialogue}
            story += "\n\n" + made.get(kind, self.narration)()
            if len(story) >= enough:
                break
        return story + "\n\n"

    def opening(self) -> str:
        year = self._rng.between(1600, 2099)
        trade, other_trade, deed = self.picks("TRADES", "TRADES", "DEEDS")
        hero, friend = self._people[:2]
        place, thing = self._place, self._thing
        a_trade, a_thing = f"{article(trade)} {trade}", f"{article(thing)} {thing}"
        return [
            f"In {year}, {hero}, {a_trade} from {place}, {deed} {a_thing}.",
            f"{hero} met {friend} in {place} in the year {year}, because of {a_thing}.",
            f"# The {trade} of {place}\n\n{hero} was born in {year}, and {friend} was the only "
            f"{other_trade} who {deed} the {thing}.",
            f"“{friend},” wrote {hero} from {place} in {year}, “nobody {deed} the {thing} as you "
            "did.”",
            f"{place}, {year}. The {trade} {hero} and the {other_trade} {friend} {deed} {a_thing}.",
            f"Nobody in {place} knew why {hero} {deed} the {thing}, not even {friend}, {a_trade} "
            f"since {year}.",
        ][self._rng.below(6)]

    def narration(self) -> str:
        return " ".join([self.sentence() for _ in range(self._rng.between(3, 7))])

    def sentence(self) -> str:
        rng = self._rng
        who, other = self.someone(), self.someone()
        deed, thing, quality, second = self.picks("DEEDS", "THINGS", "QUALITIES", "QUALITIES")
        time, spot, manner = self.picks("TIMES", "SPOTS", "MANNERS")
        idea, trade = self.picks("IDEAS", "TRADES")
        number = rng.between(2, 999)
        a_quality, a_trade = f"{article(quality)} {quality}", f"{article(trade)} {trade}"
        # Only the sentence that is chosen draws the values that it needs beyond these.
        told = [
            lambda: f"{capital(time)}, {who} {manner} {deed} the {quality} {thing}.",
            lambda: f"{who} {deed} {a_quality} {thing} {spot}.",
            lambda: f"It was {a_quality} {thing}, and {who} didn't like it.",
            lambda: f"{capital(spot)} {time}, the {trade} {deed} {number} {thing}s.",
            lambda: (
                f"There is no {idea} without {self.pick('IDEAS')}, thought {who}; {other} only "
                f"{deed} the {thing}."
            ),
            lambda: (
                f"The {second} {trade} paid ${number}.{rng.below(100):02} for the {thing} and "
                f"{manner} went home."
            ),
            lambda: (
                f"At {rng.between(1, 23)}:{rng.below(60):02} the {quality} {thing} arrived {spot}."
            ),
            lambda: (
                f"{who} and {other} walked {number} miles to {self.place()}, where the {thing}s "
                f"are {quality}."
            ),
            lambda: f"Was the {thing} {quality} or {second}? {who} {deed} it {manner}.",
            lambda: (
                f"{who}'s {thing} weighed {rng.below(90)}.{rng.below(10)} kg, which was {quality} "
                f"for {a_trade}."
            ),
            lambda: f"They're {second}, we've {deed} them, and {who} won't wait {spot}!",
            lambda: (
                f"{who} read about {self.pick('FOREIGN')} and {idea} in the {quality} {thing} "
                f"{time}."
            ),
            lambda: (
                f"If {other} {deed} the {thing}, then {who} would be {quality}, {second} and "
                f"{self.pick('QUALITIES')}."
            ),
            lambda: f"No. {number} was {quality}: a question of {idea}, as {self.person()} said.",
            lambda: (
                f"{self.person()}, {a_trade} of {rng.between(18, 97)}, {deed} the {thing} because "
                f"{other} had not."
            ),
            lambda: (
                f"{capital(manner)} the {thing} became {quality} ({number} years of {idea} had "
                "passed)."
            ),
        ]
        return told[rng.below(16)]()

    def dialogue(self) -> str:
        return "\n".join([self.line() for _ in range(self._rng.between(2, 5))])

    def line(self) -> str:
        who, other = self.someone(), self.someone()
        deed, thing, said = self.picks("DEEDS", "THINGS", "SAID")
        quality, manner = self.picks("QUALITIES", "MANNERS")
        told = [
            lambda: f'"Who {deed} my {thing}?" {said} {who} {manner}.',
            lambda: f'"It\'s only {article(quality)} {quality} {thing}, {other}," {said} {who}.',
            lambda: (
                f'"I\'ll give you {self._rng.between(3, 5000)} for it," {who} {said}. "Not more!"'
            ),
            lambda: f'"You\'d better ask {self.person()}; they {deed} {self.pick("IDEAS")}."',
            lambda: (
                f'"{capital(self.pick("QUALITIES"))}!" {said} {who} {manner}, and {other} {deed} '
                f"the {thing}."
            ),
        ]
        return told[self._rng.below(5)]()

    def listing(self) -> str:
        text = f"## What {self.someone()} {self.pick('DEEDS')}\n"
        for number in range(1, self._rng.between(3, 5) + 1):
            quality, thing = self.picks("QUALITIES", "THINGS")
            price = self._rng.between(1, 400)
            kind = self._rng.below(3)
            if kind == 0:
                text += f"\n{number}. {capital(article(quality))} **{quality}** {thing} "
                text += f"({price} kr)"
            elif kind == 1:
                text += f"\n- [ ] `{thing}`: {price} × {self.pick('FOREIGN')}"
            else:
                text += f"\n* {quality}, {self.pick('IDEAS')}, {price}%"
        return text

    def code(self) -> str:
        rng = self._rng
        a, b, c = self.picks("IDENTIFIERS", "IDENTIFIERS", "THINGS")
        n, m = rng.between(0, 255), rng.between(1, 65_536)
        kind = rng.below(4)
        if kind == 0:
            return (
                f"```rust\nfn {c}({b}: &[u8]) -> Option<usize> {{\n"
                f"    let {c} = {b}.iter().position(|x| *x == {n})?;\n    Some({c} + {m})\n}}\n```"
            )
        if kind == 1:
            return (
                f"```python\ndef {c}(self, {b}):\n    for i in range({m}):\n"
                f"        if {a}[i] != {n}:\n            return {b} + 1\n"
                f'    raise ValueError("{c}")\n```'
            )
        if kind == 2:
            return f'{{"{c}": {{"{b}": {n}, "{a}": [{m}, null, true]}}, "id": "{m:x}-{n:02x}"}}'
        return f"$ {c} --{b}={m} ./{a}/{c}.txt | sort -n | head -{n}  # {self.pick('IDEAS')}"
