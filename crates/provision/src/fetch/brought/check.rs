//! Checks the small files of a model that the user brings: what they say, and whether they fit
//! together. It reads no weights.

use base::names::Refused;
use models::checkpoint::{Shape, Vocabulary};
use serde_json::Value;
use std::collections::BTreeSet;

/// Files that are taken along where a model's source has them: they say how its prompts are
/// written.
pub(super) const OPTIONAL: [&str; 2] = ["tokenizer_config.json", "chat_template.jinja"];

/// The refusal of a model because of an error about its files.
pub(super) fn unusable(error: anyhow::Error) -> Refused {
    Refused(format!("{error:#}"))
}

/// Read the shape in config.json, and check that the tokenizer fits its embedding.
pub(super) fn shape(config: &[u8], tokenizer: &[u8]) -> Result<Shape, Refused> {
    let text = std::str::from_utf8(config)
        .map_err(|_| Refused("config.json is no text in UTF-8".into()))?;
    let shape = Shape::read(text).map_err(unusable)?;
    let vocabulary = Vocabulary::read(tokenizer).map_err(unusable)?;
    let (tokens, rows) = (vocabulary.len(), shape.spec.vocab_size);
    if tokens > rows || tokens == 0 {
        return Err(Refused(format!(
            "tokenizer.json has {tokens} tokens and the embedding {rows} rows: they are not of one model"
        )));
    }
    if let Err(error) = tokenizers::Tokenizer::from_bytes(tokenizer) {
        let error = error.to_string();
        let line = error.lines().next().unwrap_or_default();
        return Err(Refused(format!("tokenizer.json can't be used: {line}")));
    }
    Ok(shape)
}

/// The file names of the shards that an index names, each once.
pub(super) fn shards(index: &[u8]) -> Result<BTreeSet<String>, Refused> {
    let json: Value = serde_json::from_slice(index).unwrap_or_default();
    let map = json["weight_map"].as_object().filter(|map| !map.is_empty());
    let map = map.ok_or_else(|| {
        Refused("model.safetensors.index.json is no index: it has no `weight_map`".into())
    })?;
    let is_plain = |name: &&str| {
        !name.starts_with('.')
            && name.ends_with(".safetensors")
            && name
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
    };
    let names = map.iter().map(|(tensor, name)| {
        let plain = name.as_str().filter(is_plain).map(str::to_owned);
        plain.ok_or_else(|| {
            Refused(format!(
                "model.safetensors.index.json puts {tensor} into {name}, which is no plain name of a safetensors file"
            ))
        })
    });
    names.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use models::ModelSpec;
    use models::config::config_json;
    use models::tokenizer::{tokenizer_json, vocabulary};

    #[test]
    fn a_tokenizer_that_is_not_the_model_s_is_refused() {
        let spec = ModelSpec::tiny_stories();
        let tokenizer = tokenizer_json(&vocabulary(&spec).unwrap());
        let config = config_json(&spec);
        let ask = |config: &str, tokenizer: &str| shape(config.as_bytes(), tokenizer.as_bytes());
        assert_eq!(ask(&config, &tokenizer).unwrap().parameters(), 1_378_048);
        let smaller = config.replace("\"vocab_size\": 768", "\"vocab_size\": 700");
        let error = ask(&smaller, &tokenizer).unwrap_err().to_string();
        assert_eq!(
            error,
            "tokenizer.json has 768 tokens and the embedding 700 rows: they are not of one model"
        );
        for (config, tokenizer) in [(&*config, "{}"), ("{}", &*tokenizer)] {
            let error = ask(config, tokenizer).unwrap_err().to_string();
            assert!(!error.contains('\n'), "{error}");
        }
        let broken = tokenizer.replace("\"ByteLevel\"", "\"Nothing\"");
        let error = ask(&config, &broken).unwrap_err().to_string();
        assert!(error.contains("tokenizer.json can't be used"), "{error}");
    }

    #[test]
    fn an_index_names_plain_files() {
        let index = br#"{"weight_map": {"a": "m-1.safetensors", "b": "m-2.safetensors", "c": "m-1.safetensors"}}"#;
        assert_eq!(shards(index).unwrap().len(), 2);
        for index in ["", "{}", r#"{"weight_map": {}}"#] {
            let error = shards(index.as_bytes()).unwrap_err().to_string();
            assert!(error.contains("no `weight_map`"), "{error}");
        }
        for name in [
            "../x.safetensors",
            "/x.safetensors",
            "x.bin",
            ".x.safetensors",
        ] {
            let index = format!(r#"{{"weight_map": {{"a": "{name}"}}}}"#);
            let error = shards(index.as_bytes()).unwrap_err().to_string();
            assert!(error.contains("no plain name"), "{error}");
        }
    }
}
