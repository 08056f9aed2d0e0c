//! The texts that are encoded, from a seed: stories as the tokenizer was trained on,
//! or words of many scripts with emoji among them. No two texts of a case are alike.

use models::prng::Rng;

/// Ranges of characters that words are made of beyond ASCII.
const SCRIPTS: [(u32, u32); 7] = [
    (0xc0, 0x17f),      // Latin with accents
    (0x391, 0x3c9),     // Greek
    (0x410, 0x44f),     // Cyrillic
    (0x627, 0x64a),     // Arabic
    (0x4e00, 0x4fff),   // CJK
    (0x3041, 0x3096),   // Hiragana
    (0x1f600, 0x1f64f), // emoji
];

/// `count` texts of about `chars` characters each.
pub fn texts(seed: u64, count: usize, chars: usize, is_mixed: bool) -> Vec<String> {
    (0..count as u64)
        .map(|index| {
            let seed = models::prng::bits(seed, index);
            match is_mixed {
                true => mixed(seed, chars),
                false => models::text::text(seed, chars)
                    .chars()
                    .take(chars)
                    .collect(),
            }
        })
        .collect()
}

fn mixed(seed: u64, chars: usize) -> String {
    let mut rng = Rng::new(seed, "mixed text");
    let mut text = String::new();
    let mut length = 0;
    while length < chars {
        let (first, last) = SCRIPTS[rng.below(SCRIPTS.len())];
        let letters = rng.between(1, 8);
        for _ in 0..letters {
            let code = first + rng.below((last - first + 1) as usize) as u32;
            text.push(char::from_u32(code).unwrap_or('?'));
        }
        text.push_str(match rng.below(8) {
            0 => ", ",
            1 => ".\n",
            2 => " 12 ",
            _ => " ",
        });
        length += letters + 2;
    }
    text
}
