//! The word lists of the little stories. Data only.
//!
//! Few of each, so that a small vocabulary has a token for every word. No colour, animal or trait
//! begins with a vowel, so that "a" is always right.

/// Girls' names. They form one list with [`BOYS`]: the index of a name says which pronouns go with
/// it.
pub const GIRLS: &[&str] = &["Mia", "Lily", "Anna", "Rose", "Zoe", "Lucy"];
/// Boys' names.
pub const BOYS: &[&str] = &["Tom", "Ben", "Max", "Leo", "Sam", "Jack"];
/// Animals that talk.
pub const BEASTS: &[&str] = &["fox", "rabbit", "bear", "cat", "dog", "bird", "mouse", "frog"];
/// Names of animals, none of them a child's.
pub const FRIENDS: &[&str] = &["Pip", "Momo", "Bella", "Rusty", "Coco", "Daisy", "Spot", "Bruno"];
/// Colours.
pub const COLORS: &[&str] = &["red", "blue", "green", "yellow", "white", "golden"];
/// Things a child carries about.
pub const THINGS: &[&str] = &["ball", "kite", "boat", "drum", "hat", "doll", "bell", "lamp"];
/// Places to go to.
pub const PLACES: &[&str] = &["park", "beach", "forest", "garden", "farm", "lake"];
/// Spots in a place where something can lie.
pub const SPOTS: &[&str] = &[
    "under the old bench",
    "behind a big rock",
    "in the tall grass",
    "next to the well",
    "inside a hollow tree",
    "near the wooden bridge",
];
/// Weather.
pub const WEATHERS: &[&str] = &["sunny", "windy", "cold", "warm"];
/// Relatives who give presents.
pub const PARENTS: &[&str] = &["mother", "father", "sister", "brother"];
/// Food that stories end with.
pub const FOODS: &[&str] = &[
    "warm soup", "sweet cake", "fresh bread", "apple pie", "hot cocoa", "honey cookies",
];
/// Things that one can be afraid of.
pub const FEARS: &[&str] = &["the dark", "the thunder", "the deep water", "loud sounds"];
/// Traits of a person's character.
pub const TRAITS: &[&str] = &["kind", "brave", "clever", "shy", "funny", "gentle"];
