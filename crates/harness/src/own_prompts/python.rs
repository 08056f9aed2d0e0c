//! The parts of Python that chat templates use: methods of strings and dictionaries, JSON as Python
//! writes it, and the functions that the templates' own library adds to Jinja.

use jiff::civil::{DateTime, date};
use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State};
use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};
use std::io;

/// The time that every template is given: prompts must have the same tokens on every day.
const NOW: DateTime = date(2025, 1, 1).at(0, 0, 0, 0);

pub(super) fn add(environment: &mut Environment) {
    environment.set_unknown_method_callback(method);
    environment.add_filter("tojson", to_json);
    environment.add_function(
        "raise_exception",
        |message: String| -> Result<Value, Error> { Err(invalid(message)) },
    );
    environment.add_function("strftime_now", |format: String| {
        jiff::fmt::strtime::format(&format, NOW)
            .map_err(|error| invalid(format!("strftime_now({format:?}): {error}")))
    });
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message.into())
}

fn method(_: &mut State, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    let found = match (value.as_str(), value.kind()) {
        (Some(text), _) => of_string(text, name, args)?,
        (None, ValueKind::Map) => of_dictionary(value, name, args)?,
        _ => None,
    };
    found.ok_or_else(|| Error::from(ErrorKind::UnknownMethod))
}

/// Call a string's method; `None` where none of this name is implemented here.
fn of_string(text: &str, name: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    let string = |index: usize| -> Result<&str, Error> {
        let arg = args.get(index).and_then(Value::as_str);
        arg.ok_or_else(|| invalid(format!("{name}() wants a string as argument {}", index + 1)))
    };
    // The text, unless the call has more than the `most` arguments that are implemented.
    let takes = |most: usize| -> Result<&str, Error> {
        match args.len() <= most {
            true => Ok(text),
            false => Err(invalid(format!(
                "{name}() is implemented without argument {}",
                most + 1
            ))),
        }
    };
    // The maximum number of times; a negative number means that there is no limit.
    let times = |index: usize| -> Result<usize, Error> {
        match args.get(index) {
            None => Ok(usize::MAX),
            Some(given) => {
                let given = i64::try_from(given.clone())?;
                Ok(usize::try_from(given).unwrap_or(usize::MAX))
            }
        }
    };
    let stripped = || -> Result<_, Error> {
        let given = match args.first().is_none_or(Value::is_none) {
            true => None,
            false => Some(string(0)?),
        };
        Ok(move |c: char| given.map_or(is_space(c), |chars| chars.contains(c)))
    };
    let begins = |is: fn(&str, &str) -> bool| -> Result<Value, Error> {
        let text = takes(1)?;
        // With a tuple, one matching element is enough.
        let all: Vec<Value> = match args.first().map(Value::kind) {
            Some(ValueKind::Seq) => args[0].try_iter()?.collect(),
            _ => vec![Value::from(string(0)?)],
        };
        let mut all = all.iter().filter_map(Value::as_str);
        Ok(all.any(|part| is(text, part)).into())
    };
    Ok(Some(match name {
        "strip" => takes(1)?.trim_matches(stripped()?).into(),
        "lstrip" => takes(1)?.trim_start_matches(stripped()?).into(),
        "rstrip" => takes(1)?.trim_end_matches(stripped()?).into(),
        "removeprefix" => takes(1)?.strip_prefix(string(0)?).unwrap_or(text).into(),
        "removesuffix" => takes(1)?.strip_suffix(string(0)?).unwrap_or(text).into(),
        "startswith" => begins(|text, part| text.starts_with(part))?,
        "endswith" => begins(|text, part| text.ends_with(part))?,
        "upper" => takes(0)?.to_uppercase().into(),
        "lower" => takes(0)?.to_lowercase().into(),
        "capitalize" => capitalized(takes(0)?).into(),
        "title" => titled(takes(0)?).into(),
        "replace" => takes(3)?.replacen(string(0)?, string(1)?, times(2)?).into(),
        "count" => takes(1)?.matches(string(0)?).count().into(),
        "find" => match takes(1)?.find(string(0)?) {
            Some(bytes) => text[..bytes].chars().count().into(),
            None => Value::from(-1),
        },
        "splitlines" => lines(takes(0)?),
        "split" if args.first().is_none_or(Value::is_none) => words(takes(2)?, times(1)?),
        "split" => split(takes(2)?, string(0)?, times(1)?)?,
        "join" => {
            let parts = args.first().unwrap_or(&Value::UNDEFINED).try_iter()?;
            let parts: Vec<String> = parts.map(|part| part.to_string()).collect();
            parts.join(takes(1)?).into()
        }
        _ => return Ok(None),
    }))
}

/// Split at the first `most` separators.
fn split(text: &str, separator: &str, most: usize) -> Result<Value, Error> {
    if separator.is_empty() {
        return Err(invalid("split() wants a separator that is not empty"));
    }
    let parts = text.splitn(most.saturating_add(1), separator);
    Ok(parts.map(Value::from).collect())
}

/// Split at the first `most` runs of white space, except for what the text begins and ends with.
fn words(text: &str, most: usize) -> Value {
    let mut words = Vec::new();
    let mut rest = text.trim_start_matches(is_space);
    while !rest.is_empty() {
        let end = match words.len() < most {
            true => rest.find(is_space).unwrap_or(rest.len()),
            false => rest.len(),
        };
        let (word, others) = rest.split_at(end);
        words.push(word);
        rest = others.trim_start_matches(is_space);
    }
    words.into_iter().map(Value::from).collect()
}

/// Split into lines, which end at more characters than those of Rust's `lines`.
fn lines(text: &str) -> Value {
    let ends = |c: char| {
        matches!(
            c,
            '\n'..='\r' | '\x1c'..='\x1e' | '\u{85}' | '\u{2028}' | '\u{2029}'
        )
    };
    let text = text.replace("\r\n", "\n");
    text.split_terminator(ends).map(Value::from).collect()
}

/// Python counts these separators as white space, Unicode doesn't.
fn is_space(c: char) -> bool {
    c.is_whitespace() || matches!(c, '\x1c'..='\x1f')
}

fn capitalized(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().into_iter().flat_map(char::to_uppercase);
    first.chain(chars.flat_map(char::to_lowercase)).collect()
}

/// Upper-case every letter that doesn't follow a letter, and lower-case the others.
fn titled(text: &str) -> String {
    let mut title = String::with_capacity(text.len());
    let mut within = false;
    for c in text.chars() {
        match within {
            true => title.extend(c.to_lowercase()),
            false => title.extend(c.to_uppercase()),
        }
        within = c.is_alphabetic();
    }
    title
}

/// Call a dictionary's method; `None` where none of this name is implemented here.
fn of_dictionary(value: &Value, name: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    let item = |key: Value| -> Result<Value, Error> {
        let item = value.get_item(&key)?;
        Ok(vec![key, item].into())
    };
    Ok(Some(match (name, args) {
        ("keys", []) => value.try_iter()?.collect(),
        ("values", []) => {
            let values = value.try_iter()?.map(|key| value.get_item(&key));
            values.collect::<Result<Vec<_>, _>>()?.into()
        }
        ("items", []) => {
            let items = value.try_iter()?.map(item);
            items.collect::<Result<Vec<_>, _>>()?.into()
        }
        ("get", [key]) | ("get", [key, _]) => {
            let found = value.get_item(key)?;
            match found.is_undefined() {
                true => args.get(1).cloned().unwrap_or_else(|| Value::from(())),
                false => found,
            }
        }
        _ => return Ok(None),
    }))
}

/// Write JSON as Python's `json.dumps` does without escaping: a space after `,` and `:`.
fn to_json(value: Value, options: Kwargs) -> Result<String, Error> {
    let indent: Option<usize> = options.get("indent")?;
    let written = match indent {
        None => written(&value, Spaced),
        Some(width) => {
            let indent = " ".repeat(width.min(16));
            written(&value, PrettyFormatter::with_indent(indent.as_bytes()))
        }
    };
    written.map_err(|error| invalid(format!("tojson: {error}")))
}

fn written(value: &Value, formatter: impl Formatter) -> serde_json::Result<String> {
    let mut bytes = Vec::new();
    value.serialize(&mut Serializer::with_formatter(&mut bytes, formatter))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

struct Spaced;

impl Formatter for Spaced {
    fn begin_array_value<W: ?Sized + io::Write>(
        &mut self,
        to: &mut W,
        first: bool,
    ) -> io::Result<()> {
        to.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_key<W: ?Sized + io::Write>(
        &mut self,
        to: &mut W,
        first: bool,
    ) -> io::Result<()> {
        to.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, to: &mut W) -> io::Result<()> {
        to.write_all(b": ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use minijinja::context;

    fn said(expression: &str) -> String {
        let mut environment = Environment::new();
        add(&mut environment);
        let view = context! { s => " Ab,cd ", d => context! { k => 1 }, words => ["x", "y"] };
        let rendered = environment.render_str(&format!("{{{{ {expression} }}}}"), view);
        rendered.unwrap_or_else(|error| error.detail().unwrap_or("unknown").to_owned())
    }

    #[test]
    fn strings_have_the_methods_that_templates_call() {
        for (expression, expected) in [
            ("s.strip()", "Ab,cd"),
            ("s.lstrip()", "Ab,cd "),
            ("s.rstrip()", " Ab,cd"),
            ("s.strip(' d')", "Ab,c"),
            ("s.strip(none)", "Ab,cd"),
            ("'\\x1ca\\xa0'.strip()", "a"),
            ("s.split(',')[1]", "cd "),
            ("s.split()|length", "1"),
            ("'a-b-c'.split('-', 1)[1]", "b-c"),
            ("'a-b-c'.split('-')[-1]", "c"),
            ("'a-b-c'.split('-', -1)|length", "3"),
            ("' a  b c '.split(none, 1)|join('|')", "a|b c "),
            ("' a  b c '.split(none, -1)|join('|')", "a|b|c"),
            ("' a '.split(none, 0)|join('|')", "a "),
            ("' '.split(none, 0)|length", "0"),
            ("s.strip().startswith('Ab')", "True"),
            ("s.endswith('x')", "False"),
            ("'ab'.startswith(('x', 'a'))", "True"),
            ("'aBc'.upper() + 'aBc'.lower()", "ABCabc"),
            ("'they\\'re here'.title()", "They'Re Here"),
            ("'aBC'.capitalize()", "Abc"),
            ("'a.b'.replace('.', '-')", "a-b"),
            ("'a.b.c'.replace('.', '-', 1)", "a-b.c"),
            ("'a.b.c'.replace('.', '-', -1)", "a-b-c"),
            ("'ab'.replace('', '-', 2)", "-a-b"),
            ("'äxx'.find('x')", "1"),
            ("'a'.find('x')", "-1"),
            ("'abab'.count('ab')", "2"),
            ("'-'.join(words)", "x-y"),
            ("'a\\nb'.splitlines()|length", "2"),
            ("'a\\n\\nb\\r\\n'.splitlines()|join('|')", "a||b"),
            (
                "'a\\rb\\x0bc\\x0cd\\x1ce\\x1ef\\x85g\\u2028h\\u2029i'.splitlines()|length",
                "9",
            ),
            ("''.splitlines()|length", "0"),
            ("'abc'.removeprefix('a').removesuffix('c')", "b"),
            ("s.strip(1)", "strip() wants a string as argument 1"),
            ("s.find('A', 2)", "find() is implemented without argument 2"),
            (
                "s.splitlines(true)",
                "splitlines() is implemented without argument 1",
            ),
            (
                "s.startswith(' ', 1)",
                "startswith() is implemented without argument 2",
            ),
            (
                "'a'.split('')",
                "split() wants a separator that is not empty",
            ),
        ] {
            assert_eq!(said(expression), expected, "{expression}");
        }
    }

    #[test]
    fn dictionaries_have_theirs() {
        for (expression, expected) in [
            ("d.get('k')", "1"),
            ("d.get('x', 'none')", "none"),
            ("d.get('x') is none", "True"),
            ("d.keys()|first", "k"),
            ("d.values()|first", "1"),
            ("d.items()|first|last", "1"),
        ] {
            assert_eq!(said(expression), expected, "{expression}");
        }
    }

    #[test]
    fn json_is_written_as_python_does() {
        assert_eq!(said("words|tojson"), r#"["x", "y"]"#);
        assert_eq!(
            said("{'a': 1, 'b': '<é>'}|tojson"),
            r#"{"a": 1, "b": "<é>"}"#
        );
        assert_eq!(
            said("{'a': [1]}|tojson(indent=2)"),
            "{\n  \"a\": [\n    1\n  ]\n}"
        );
    }

    #[test]
    fn it_is_always_the_same_day() {
        assert_eq!(said("strftime_now('%d %b %Y')"), "01 Jan 2025");
        assert_eq!(said("strftime_now('%Y-%m-%d')"), "2025-01-01");
        assert!(said("strftime_now('%')").starts_with("strftime_now(\"%\")"));
    }
}
