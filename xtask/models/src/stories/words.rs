//! The word lists of the little stories. Data only.
//!
//! No colour, animal or trait begins with a vowel, so that "a" is always right.

/// Girls' names. With [`BOYS`] one list: the number of a name says which pronouns go with it.
pub const GIRLS: &[&str] = &[
    "Mia", "Lily", "Anna", "Rose", "Ella", "Nora", "Zoe", "Ruby", "Clara", "Ivy", "Sara", "Lucy",
];
/// Boys' names.
pub const BOYS: &[&str] = &[
    "Tom", "Ben", "Max", "Leo", "Sam", "Finn", "Jack", "Oscar", "Noah", "Tim", "Hugo", "Paul",
];
/// Animals that talk.
pub const BEASTS: &[&str] = &[
    "fox", "rabbit", "bear", "cat", "dog", "bird", "mouse", "frog", "duck", "squirrel", "pony",
    "turtle",
];
/// Names of animals, none of them a child's.
pub const FRIENDS: &[&str] = &[
    "Pip", "Momo", "Bella", "Rusty", "Coco", "Daisy", "Spot", "Fluffy", "Bruno", "Tilly", "Gus",
    "Biscuit",
];
/// Colours.
pub const COLORS: &[&str] = &[
    "red", "blue", "green", "yellow", "white", "pink", "golden", "silver", "brown", "purple",
];
/// Things a child carries about.
pub const THINGS: &[&str] = &[
    "ball", "kite", "boat", "drum", "hat", "doll", "bell", "lamp", "book", "cup", "ring", "key",
    "scarf", "flute",
];
/// Places to go to.
pub const PLACES: &[&str] = &[
    "park", "beach", "forest", "garden", "market", "farm", "lake", "river", "hill", "meadow",
];
/// Where in a place something lies.
pub const SPOTS: &[&str] = &[
    "under the old bench",
    "behind a big rock",
    "in the tall grass",
    "next to the well",
    "under a pile of leaves",
    "inside a hollow tree",
    "near the wooden bridge",
    "behind the little house",
    "in a deep hole",
    "on top of the wall",
];
/// Weather.
pub const WEATHERS: &[&str] = &["sunny", "windy", "cold", "warm", "rainy", "foggy", "bright"];
/// Who gives presents.
pub const PARENTS: &[&str] = &["mother", "father", "grandmother", "grandfather", "sister", "brother"];
/// What stories end with.
pub const FOODS: &[&str] = &[
    "warm soup", "sweet cake", "fresh bread", "apple pie", "hot cocoa", "honey cookies",
    "ripe berries", "cheese and nuts",
];
/// What one can be afraid of.
pub const FEARS: &[&str] = &[
    "the dark", "the thunder", "the deep water", "loud sounds", "the big waves", "tall trees",
];
/// What one is like.
pub const TRAITS: &[&str] = &["kind", "brave", "clever", "shy", "funny", "gentle", "curious", "lazy"];
