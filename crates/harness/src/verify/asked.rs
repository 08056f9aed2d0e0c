//! What the reference was asked for a golden.

use schema::golden::Golden;
use schema::train::Written;
/// What the reference was asked.
pub struct Asked {
    /// The goldens.
    pub golden: Golden,
    /// What the model writes, where it was trained on stories.
    pub stories: Vec<Written>,
}
