//! Judges generated outputs, pure: a greedy output, as ids or as text, against the reference's.
//! Either they are equal, or the output departs from the reference at an id that the reference
//! itself holds for as good within the tie width. Tokens after such a departure can't be judged
//! against this continuation, so they don't count as judged.

use protocol::wire::Done;
use schema::golden::GoldenPrompt;
use tokenizers::Tokenizer;

/// The output that a target generated.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Token ids.
    Ids(Vec<u32>),
    /// Text, from a target that gives no ids.
    Text(String),
}

impl Output {
    /// The output of an answer, or of its record; `text` counts only where there are no ids.
    pub fn new(ids: Vec<u32>, text: Option<String>) -> Self {
        match text {
            Some(text) if ids.is_empty() => Output::Text(text),
            _ => Output::Ids(ids),
        }
    }
}

impl From<Done> for Output {
    fn from(done: Done) -> Self {
        Self::new(done.output_ids, done.output_text)
    }
}

/// An output that the reference doesn't reject.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Agreement {
    /// The number of tokens before the output departs from the reference.
    pub judged: usize,
    /// The number of these tokens where the reference's margin exceeds the tie width.
    pub decisive: usize,
}

/// Judge an output; `golden` has as many positions as the output. `Err` says where it is wrong.
pub fn judge(
    golden: &GoldenPrompt,
    output: &Output,
    tie_width_nats: f64,
    tokenizer: &Tokenizer,
) -> Result<Agreement, String> {
    let judged = match output {
        Output::Ids(ids) => judge_ids(golden, ids, tie_width_nats)?,
        Output::Text(text) => judge_text(golden, text, tie_width_nats, tokenizer)?,
    };
    let decisive = (0..judged).filter(|&position| golden.margin(position) > tie_width_nats);
    Ok(Agreement {
        judged,
        decisive: decisive.count(),
    })
}

/// A golden cut to its first `positions` positions.
pub fn head(golden: &GoldenPrompt, positions: usize) -> GoldenPrompt {
    GoldenPrompt {
        name: golden.name.clone(),
        prompt_ids: golden.prompt_ids.clone(),
        output_ids: golden.output_ids[..positions].to_vec(),
        top_ids: golden.top_ids[..positions].to_vec(),
        top_logprobs: golden.top_logprobs[..positions].to_vec(),
    }
}

/// The number of tokens that agree.
fn judge_ids(golden: &GoldenPrompt, ids: &[u32], tie: f64) -> Result<usize, String> {
    let pairs = golden.output_ids.iter().zip(ids);
    let Some(position) = pairs.clone().position(|(a, b)| a != b) else {
        return Ok(pairs.len());
    };
    let gap = gap_nats(golden, position, ids[position]);
    if gap <= tie {
        return Ok(position);
    }
    Err(format!(
        "prompt {:?}: output token {position} is {}, the reference says {} by {gap:.2} nats{}",
        golden.name,
        ids[position],
        golden.output_ids[position],
        if golden.top_ids[position].contains(&ids[position]) {
            ""
        } else {
            " or more"
        }
    ))
}

/// By how much the reference prefers its best id to `id` (nats). For an id that isn't among the
/// likeliest, the gap to the last of them, which is a lower bound.
fn gap_nats(golden: &GoldenPrompt, position: usize, id: u32) -> f64 {
    let (ids, logprobs) = (&golden.top_ids[position], &golden.top_logprobs[position]);
    let rank = ids.iter().position(|&known| known == id);
    logprobs[0] - logprobs[rank.unwrap_or(logprobs.len() - 1)]
}

/// Judge a text as it is, or with a space before it, because some servers cut that off.
fn judge_text(
    golden: &GoldenPrompt,
    text: &str,
    tie: f64,
    tokenizer: &Tokenizer,
) -> Result<usize, String> {
    let text = fold(text);
    let as_it_is = judge_folded(golden, &text, tie, tokenizer);
    let with_blank = judge_folded(golden, &format!(" {text}"), tie, tokenizer);
    match (as_it_is, with_blank) {
        (Ok(one), Ok(other)) => Ok(one.max(other)),
        (Err(_), Ok(other)) => Ok(other),
        (one, Err(_)) => one,
    }
}

/// Judge a text after [`fold`]. A text tells less than ids: where another token begins with the
/// same characters, the texts differ only some characters after the ids do. So the token at which
/// the texts differ and each earlier one is tried, the latest first: the output passes if it goes
/// on with another id that ties with the reference's at that position.
fn judge_folded(
    golden: &GoldenPrompt,
    text: &str,
    tie: f64,
    tokenizer: &Tokenizer,
) -> Result<usize, String> {
    let decode = |ids: &[u32]| {
        let text = tokenizer.decode(ids, true);
        text.map(|text| fold(&text))
            .map_err(|error| format!("the golden can't be decoded: {error}"))
    };
    let ids = &golden.output_ids;
    let whole = decode(ids)?;
    let whole = whole.trim_end_matches(LOST);
    let text = text.trim_end_matches(LOST);
    if text == whole {
        return Ok(ids.len());
    }
    let same = common(whole, text);
    let mut ends = Vec::with_capacity(ids.len());
    for end in 1..=ids.len() {
        ends.push(common(whole, decode(&ids[..end])?.trim_end_matches(LOST)));
    }
    let seen = ends
        .iter()
        .position(|&end| end > same)
        .unwrap_or(ids.len() - 1);
    for position in (0..=seen).rev() {
        let start = if position == 0 { 0 } else { ends[position - 1] };
        let rest = &text[start..];
        for (&id, logprob) in golden.top_ids[position]
            .iter()
            .zip(&golden.top_logprobs[position])
        {
            let gap = golden.top_logprobs[position][0] - logprob;
            if gap > tie {
                break;
            }
            if id == ids[position] {
                continue;
            }
            let mut other = ids[..position].to_vec();
            other.push(id);
            let other = decode(&other)?;
            // A token without text of its own is a special token, after which anything may come.
            let piece = other.get(start..).unwrap_or_default();
            let closed = piece.trim_end_matches(LOST);
            let Some(after) = rest.strip_prefix(closed) else {
                continue;
            };
            // The piece ends in an incomplete character, which the next bytes complete.
            let is_whole = closed.len() == piece.len();
            if is_whole || after.chars().next().is_none_or(|next| !next.is_ascii()) {
                return Ok(position);
            }
        }
    }
    let start = if seen == 0 { 0 } else { ends[seen - 1] };
    Err(format!(
        "prompt {:?}: after {seen} tokens the output goes on {:?}, the reference {:?} (margin {:.2} nats)",
        golden.name,
        excerpt(&text[start..]),
        excerpt(&whole[start..]),
        golden.margin(seen)
    ))
}

/// The character that decoders write for bytes that are no character.
const LOST: char = char::REPLACEMENT_CHARACTER;

/// Replace several such characters in a row by one, because their number depends on the decoder.
fn fold(text: &str) -> String {
    let mut chars: Vec<char> = text.chars().collect();
    chars.dedup_by(|one, before| *one == LOST && *before == LOST);
    chars.into_iter().collect()
}

/// The length of the common beginning of two texts (bytes), in whole characters.
fn common(a: &str, b: &str) -> usize {
    let pairs = a.chars().zip(b.chars());
    pairs
        .take_while(|(a, b)| a == b)
        .map(|(a, _)| a.len_utf8())
        .sum()
}

fn excerpt(text: &str) -> String {
    text.chars().take(12).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A byte-level tokenizer, so that parts of characters are tokens, as in real ones.
    fn tokenizer() -> Tokenizer {
        let pieces = [
            "<s>", " the", " then", " cat", "Ã", "©", " a", "n", " is", " it", "ð",
        ];
        let vocab: serde_json::Map<String, serde_json::Value> = (0_u32..)
            .zip(pieces)
            .map(|(id, piece)| (piece.replace(' ', "Ġ"), id.into()))
            .collect();
        let json = serde_json::json!({
            "version": "1.0",
            "added_tokens": [{ "id": 0, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true }],
            "decoder": { "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true },
            "model": { "type": "BPE", "vocab": vocab, "merges": [] },
        });
        json.to_string().parse().expect("it is a tokenizer")
    }

    /// A golden of each position's likeliest ids and how far they are behind the best (nats).
    fn golden(positions: &[&[(u32, f64)]]) -> GoldenPrompt {
        let ids = |row: &&[(u32, f64)]| row.iter().map(|(id, _)| *id).collect();
        GoldenPrompt {
            name: "p".into(),
            prompt_ids: vec![0],
            output_ids: positions.iter().map(|row| row[0].0).collect(),
            top_ids: positions.iter().map(ids).collect(),
            top_logprobs: positions
                .iter()
                .map(|row| row.iter().map(|(_, behind)| -0.5 - behind).collect())
                .collect(),
        }
    }

    fn judged(golden: &GoldenPrompt, output: &Output) -> Result<usize, String> {
        judge(golden, output, 0.3, &tokenizer()).map(|agreement| agreement.judged)
    }

    fn text(golden: &GoldenPrompt, text: &str) -> Result<usize, String> {
        judged(golden, &Output::Text(text.to_owned()))
    }

    #[test]
    fn ids_may_leave_the_reference_only_for_one_that_is_as_good() {
        let golden = golden(&[
            &[(7, 0.0), (8, 1.0)],
            &[(7, 0.0), (8, 0.1), (9, 1.0)],
            &[(7, 0.0), (8, 1.0)],
        ]);
        let ids = |ids: &[u32]| judged(&golden, &Output::Ids(ids.to_vec()));
        assert_eq!(ids(&[7, 7, 7]), Ok(3));
        assert_eq!(ids(&[7, 8, 9]), Ok(1));
        assert!(ids(&[8, 7, 7]).unwrap_err().contains("output token 0"));
        // The reference has a tie there, but with another id.
        assert!(ids(&[7, 9, 7]).unwrap_err().contains("by 1.00 nats"));
        assert!(ids(&[7, 3, 7]).unwrap_err().contains("1.00 nats or more"));
        let found = judge(&golden, &Output::Ids(vec![7, 8, 9]), 0.3, &tokenizer()).unwrap();
        assert_eq!(found.decisive, 1);
        assert_eq!((gap_nats(&golden, 1, 8) * 10.0).round(), 1.0);
    }

    #[test]
    fn text_is_judged_like_the_ids_behind_it() {
        let golden = golden(&[
            &[(1, 0.0), (9, 1.0)],
            &[(3, 0.0), (8, 0.1), (6, 1.0)],
            &[(9, 0.0), (8, 1.0)],
        ]);
        assert_eq!(text(&golden, " the cat it"), Ok(3));
        assert_eq!(text(&golden, " the is a then"), Ok(1));
        assert!(text(&golden, " it cat it").is_err());
        assert!(text(&golden, " the a it").is_err());
        let wrong = text(&golden, " the cat is").unwrap_err();
        assert!(wrong.contains("after 2 tokens"), "{wrong}");
        // Shorter than its number of tokens: something is missing.
        assert!(text(&golden, " the cat").is_err());
        assert_eq!(
            text(&golden, "the cat it"),
            Ok(3),
            "a server may cut the first blank"
        );
    }

    #[test]
    fn a_token_that_begins_like_another_is_found_where_it_is() {
        // " the" + "n" differs from " then" only in what comes after.
        let tie = golden(&[&[(1, 0.0), (2, 0.1)], &[(3, 0.0), (8, 1.0)]]);
        assert_eq!(text(&tie, " then is"), Ok(0));
        let decisive = golden(&[&[(1, 0.0), (2, 1.0)], &[(3, 0.0), (8, 0.1)]]);
        assert!(text(&decisive, " then is").is_err());
    }

    #[test]
    fn what_is_no_character_is_compared_as_far_as_it_shows() {
        // é is two bytes, each a token; then comes a byte that is no character by itself.
        let golden = golden(&[
            &[(4, 0.0), (6, 1.0)],
            &[(5, 0.0), (6, 1.0)],
            &[(10, 0.0), (1, 1.0)],
            &[(3, 0.0), (8, 0.1)],
        ]);
        assert_eq!(text(&golden, "é\u{fffd} cat"), Ok(4));
        assert_eq!(text(&golden, "é\u{fffd}\u{fffd} cat"), Ok(4));
        assert_eq!(text(&golden, "é\u{fffd} is"), Ok(3));
        assert!(text(&golden, "é the cat").is_err());
        let begun = self::golden(&[&[(6, 0.0), (4, 0.1)], &[(3, 0.0), (8, 1.0)]]);
        assert_eq!(text(&begun, "é it"), Ok(0));
        assert!(text(&begun, " it").is_err());
        let special = self::golden(&[&[(6, 0.0), (0, 0.1)], &[(3, 0.0), (8, 1.0)]]);
        assert_eq!(text(&special, " it"), Ok(0));
    }

    #[test]
    fn a_head_is_what_shorter_outputs_are_held_against() {
        let whole = golden(&[&[(1, 0.0), (9, 1.0)], &[(3, 0.0), (8, 1.0)]]);
        assert_eq!(text(&head(&whole, 1), " the"), Ok(1));
    }
}
