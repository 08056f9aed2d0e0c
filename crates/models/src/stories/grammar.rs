//! The plots of the stories: their order of events, and their wordings. Data only.
//!
//! A plot is a list of beats, a beat a list of wordings, of which a story has one. An empty wording
//! leaves the beat out. No story begins with a slot: a name without the space before it would be
//! another token than the same name later. A slot in braces means the same person or thing
//! throughout a story.

/// The beats of a plot in order, each with its possible wordings.
pub type Plot = &'static [&'static [&'static str]];

const OPENING: &[&str] = &[
    "Once upon a time there was a little {girl} named {hero}.",
    "There once was a {trait} {girl} named {hero}.",
    "Near the {place} lived a {girl} named {hero}.",
    "Little {hero} was a {trait} {girl}.",
];

const END: &[&str] = &[
    "From that day on {hero} and {friend} were best friends.",
    "Then {hero} and {friend} went home and ate {food}.",
    "They ate {food} and laughed until the stars came out.",
    "And {hero} and the {beast} lived happily ever after.",
];

const LOST: Plot = &[
    OPENING,
    &[
        "{She} had a {color} {thing}.",
        "{Her} {parent} gave {him} a {color} {thing}.",
        "{hero} loved {her} {color} {thing} more than anything.",
    ],
    &[
        "One {weather} day {hero} took the {thing} to the {place}.",
        "One {weather} morning {she} went to the {place} with the {thing}.",
    ],
    &[
        "But when {she} looked around, the {thing} was gone.",
        "Then a strong wind blew, and the {thing} was gone.",
        "{She} played all day, and then {she} could not find the {thing}.",
    ],
    &[
        "{hero} was very sad.",
        "{hero} sat down and began to cry.",
        "{She} did not know what to do.",
    ],
    &[
        "Just then a {nature} {beast} named {friend} came by.",
        "A {beast} named {friend} heard {him} and came closer.",
    ],
    &[
        "\"Why are you so sad?\" asked {friend}.",
        "\"What is wrong, {hero}?\" asked the {beast}.",
    ],
    &[
        "\"I lost my {color} {thing},\" said {hero}.",
        "\"My {thing} is gone,\" {she} said.",
    ],
    &[
        "\"I will help you,\" said {friend}.",
        "\"Do not cry, we will find it,\" said the {beast}.",
    ],
    &[
        "They looked {wrong}, but it was not there.",
        "First they looked {wrong}, but they found nothing.",
        "",
    ],
    &[
        "Then {friend} saw the {color} {thing} {spot}!",
        "At last they found the {thing} {spot}.",
    ],
    &[
        "{hero} was so happy that {she} hugged the {beast}.",
        "\"Thank you, {friend}!\" said {hero}.",
        "{hero} jumped for joy and thanked {friend}.",
    ],
    END,
];

const GIFT: Plot = &[
    OPENING,
    &[
        "{Her} best friend was a {beast} named {friend}.",
        "{hero} had a good friend, a {color} {beast} named {friend}.",
    ],
    &[
        "It was the birthday of {friend}, but {hero} had no gift.",
        "One {weather} day it was the birthday of the {beast}, and {she} needed a gift.",
    ],
    &[
        "So {she} went to the {place} to look for something nice.",
        "{hero} walked to the {place} and thought about it.",
    ],
    &["{She} looked {wrong}, but there was nothing.", ""],
    &[
        "There, {spot}, {she} saw an old {thing}.",
        "Then {hero} found an old {thing} {spot}.",
    ],
    &[
        "{She} washed the {thing} until it was as good as new.",
        "{She} took it home, and {her} {parent} helped {him} mend it.",
    ],
    &[
        "{hero} put the {thing} in a box and gave it to {friend}.",
        "\"This is for you,\" said {hero}.",
    ],
    &[
        "\"A {thing}! It is the best gift of all,\" said {friend}.",
        "{friend} opened the box and smiled.",
        "The {beast} danced with the {thing} all day long.",
    ],
    END,
];

const FEAR: Plot = &[
    OPENING,
    &[
        "{hero} was afraid of {fear}.",
        "There was only one thing that {hero} feared, and that was {fear}.",
    ],
    &[
        "One dark night {she} was alone at the {place}.",
        "Late one evening {hero} lost {her} way near the {place}.",
    ],
    &[
        "Then {she} heard a sound {spot}.",
        "Suddenly something moved {spot}.",
    ],
    &[
        "\"Who is there?\" asked {hero}.",
        "{hero} held {her} {thing} and did not move.",
    ],
    &[
        "\"It is only me,\" said a small voice.",
        "But it was only a {beast}.",
        "",
    ],
    &[
        "It was a {nature} {beast} named {friend}.",
        "\"My name is {friend},\" said the {beast}.",
    ],
    &[
        "\"I am afraid of {fear} too,\" said {friend}.",
        "\"You do not have to be afraid of {fear},\" said {friend}.",
    ],
    &[
        "{hero} gave the {beast} {her} {thing}, and they walked home together.",
        "So they sat close together and told stories until morning.",
    ],
    &[
        "After that {hero} was not afraid of {fear} any more.",
        "\"With you I am not afraid,\" said {hero}.",
    ],
    END,
];

/// All plots.
pub const PLOTS: &[Plot] = &[LOST, GIFT, FEAR];
