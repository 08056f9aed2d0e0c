//! Reads a file of prompts: one JSON object per line, a text or a chat. Read line by line, so that
//! a file of any size is refused before it fills the memory.

use base::names::Refused;
use schema::hash::Hasher;
use schema::own_prompts::{OwnPrompts, PROMPTS_MAX};
use serde::Serialize;
use serde_json::{Map, Value};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

const LINE_BYTES_MAX: usize = 1 << 20;
/// The maximum size of a file (bytes). The most tokens that a run may hold take fewer.
const FILE_BYTES_MAX: usize = 64 << 20;
const ROLES: [&str; 3] = ["system", "user", "assistant"];

/// A file of prompts that was read.
#[derive(Clone, Debug)]
pub struct File {
    /// The file's path, for messages alone.
    pub path: String,
    /// The file's name, which is kept in records.
    pub name: String,
    /// SHA-256 of the file's bytes.
    pub sha256: String,
    pub(super) lines: Vec<Line>,
}

/// A prompt and its line in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// The line's number, from 1.
    pub(super) number: usize,
    pub(super) asked: Asked,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// Text that is encoded as it is.
    Text(String),
    /// A chat, which the model's chat template renders.
    Messages(Vec<Message>),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Message {
    pub(super) role: String,
    pub(super) content: String,
}

impl File {
    /// Read the file; refused at the first line that is no prompt.
    pub fn read(path: &Path) -> Result<Self, Refused> {
        let shown = path.display().to_string();
        let unreadable = |error: std::io::Error| {
            Refused(format!(
                "--prompts {shown}: the file can't be read: {error}"
            ))
        };
        let file = std::fs::File::open(path).map_err(unreadable)?;
        let mut reader = BufReader::new(file);
        let (mut hasher, mut bytes, mut number) = (Hasher::default(), 0, 0);
        let (mut lines, mut line) = (Vec::new(), Vec::new());
        loop {
            line.clear();
            let mut limited = reader.by_ref().take(LINE_BYTES_MAX as u64 + 1);
            let read = limited.read_until(b'\n', &mut line).map_err(unreadable)?;
            if read == 0 {
                break;
            }
            number += 1;
            bytes += read;
            hasher.update(&line);
            let at = |why: String| Refused(format!("{shown}:{number}: {why}"));
            within(read, bytes, number).map_err(at)?;
            let text = std::str::from_utf8(&line);
            let text = text
                .map_err(|_| at("it is no text in UTF-8".into()))?
                .trim();
            if !text.is_empty() {
                let asked = asked(text).map_err(at)?;
                lines.push(Line { number, asked });
            }
        }
        if lines.is_empty() {
            return Err(Refused(format!(
                "--prompts {shown}: the file has no prompt: write a JSON object a line, {{\"text\": \"…\"}} or {{\"messages\": […]}}"
            )));
        }
        let name = path.file_name().unwrap_or(path.as_os_str());
        Ok(Self {
            path: shown,
            name: base::text::without_escapes(&name.to_string_lossy()),
            sha256: hasher.hex(),
            lines,
        })
    }

    /// A placeholder for its prompts until they can be encoded, with one token each.
    pub fn unencoded(&self) -> OwnPrompts {
        OwnPrompts {
            file: self.name.clone(),
            sha256: self.sha256.clone(),
            tokens: self.lines.iter().map(|_| vec![0]).collect(),
        }
    }
}

fn within(line_bytes: usize, bytes: usize, number: usize) -> Result<(), String> {
    let mib = |bytes: usize| bytes >> 20;
    if line_bytes > LINE_BYTES_MAX {
        return Err(format!("the line has over {} MiB", mib(LINE_BYTES_MAX)));
    }
    if bytes > FILE_BYTES_MAX {
        return Err(format!(
            "the file has over {} MiB up to this line: split it",
            mib(FILE_BYTES_MAX)
        ));
    }
    match number > PROMPTS_MAX {
        true => Err(format!(
            "the file has over {PROMPTS_MAX} lines, which is what a run holds: split it"
        )),
        false => Ok(()),
    }
}

/// Parse a line as a prompt, or say what is wrong with it.
fn asked(text: &str) -> Result<Asked, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| {
        let error = error
            .to_string()
            .replace(" at line 1 column ", " at column ");
        format!("it is no JSON: {error}")
    })?;
    let object = value.as_object().ok_or("it is no JSON object")?;
    let mut named = ["text", "prompt", "messages"]
        .into_iter()
        .filter_map(|name| Some((name, object.get(name)?)));
    let (name, value) = named
        .next()
        .ok_or("it has neither `text` nor `messages`: one of them is the prompt")?;
    if let Some((other, _)) = named.next() {
        return Err(format!(
            "it has both `{name}` and `{other}`: one of them is the prompt"
        ));
    }
    if name == "messages" {
        return messages(value).map(Asked::Messages);
    }
    match value.as_str() {
        None => Err(format!("its `{name}` is no string")),
        Some("") => Err(format!(
            "its `{name}` is empty: a prompt has one token at least"
        )),
        Some(text) => Ok(Asked::Text(text.to_owned())),
    }
}

fn messages(value: &Value) -> Result<Vec<Message>, String> {
    let all = value.as_array().ok_or("its `messages` is no list")?;
    if all.is_empty() {
        return Err("its `messages` is empty: a chat has one message at least".into());
    }
    let each = (1..).zip(all).map(|(index, value)| {
        let wrong = |why: String| format!("message {index} {why}");
        let object = value.as_object();
        let object = object.ok_or_else(|| wrong("is no JSON object".into()))?;
        message(object).map_err(wrong)
    });
    each.collect()
}

fn message(object: &Map<String, Value>) -> Result<Message, String> {
    let field = |name: &str| match object.get(name) {
        None => Err(format!("has no `{name}`")),
        Some(value) => match value.as_str() {
            None => Err(format!("has a `{name}` that is no string")),
            Some(text) => Ok(text.to_owned()),
        },
    };
    let (role, content) = (field("role")?, field("content")?);
    if !ROLES.contains(&role.as_str()) {
        let roles = ROLES.join(", ");
        return Err(format!("has the role {role:?}: it is one of {roles}"));
    }
    Ok(Message { role, content })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: impl AsRef<[u8]>) -> Result<File, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mine.jsonl");
        std::fs::write(&path, bytes).unwrap();
        File::read(&path).map_err(|error| {
            let said = error.to_string();
            let dir = format!("{}/", dir.path().display());
            assert!(said.contains(&dir) && !said.contains('\n'), "{said}");
            said.replace(&dir, "")
        })
    }

    #[test]
    fn a_line_is_text_or_a_chat_and_lines_without_anything_are_none() {
        let file = read(
            "{\"text\": \"Hello\"}\n\n  {\"id\": 7, \"prompt\": \"two\\nlines\"}\r\n\
             {\"messages\": [{\"role\": \"user\", \"content\": \"Hi\", \"name\": \"x\"}]}",
        )
        .unwrap();
        let text = |text: &str| Asked::Text(text.into());
        let hi = Message {
            role: "user".into(),
            content: "Hi".into(),
        };
        let expected = [
            (1, text("Hello")),
            (3, text("two\nlines")),
            (4, Asked::Messages(vec![hi])),
        ];
        let found: Vec<_> = file
            .lines
            .iter()
            .map(|l| (l.number, l.asked.clone()))
            .collect();
        assert_eq!(found, expected);
        assert_eq!(file.name, "mine.jsonl");
        assert_eq!(file.unencoded().tokens.len(), 3);
        let again = read("{\"text\": \"Hello\"}\n").unwrap();
        assert_ne!(again.sha256, file.sha256);
        assert_eq!(again.sha256.len(), 64);
    }

    #[test]
    fn what_is_no_prompt_is_refused_with_its_line() {
        let cases = [
            ("[1]", "it is no JSON object"),
            (
                r#"{"txt": "a"}"#,
                "it has neither `text` nor `messages`: one of them is the prompt",
            ),
            (
                r#"{"text": "a", "messages": []}"#,
                "it has both `text` and `messages`: one of them is the prompt",
            ),
            (r#"{"text": 1}"#, "its `text` is no string"),
            (
                r#"{"prompt": ""}"#,
                "its `prompt` is empty: a prompt has one token at least",
            ),
            (r#"{"messages": {}}"#, "its `messages` is no list"),
            (
                r#"{"messages": []}"#,
                "its `messages` is empty: a chat has one message at least",
            ),
            (r#"{"messages": [1]}"#, "message 1 is no JSON object"),
            (
                r#"{"messages": [{"content": "a"}]}"#,
                "message 1 has no `role`",
            ),
            (
                r#"{"messages": [{"role": "user"}]}"#,
                "message 1 has no `content`",
            ),
            (
                r#"{"messages": [{"role": "user", "content": [1]}]}"#,
                "message 1 has a `content` that is no string",
            ),
            (
                r#"{"messages": [{"role": "tool", "content": "a"}]}"#,
                "message 1 has the role \"tool\": it is one of system, user, assistant",
            ),
        ];
        for (text, said) in cases {
            assert_eq!(read(text).unwrap_err(), format!("mine.jsonl:1: {said}"));
        }
        let second = read("{\"text\": \"a\"}\n{\"text\":").unwrap_err();
        let said = "mine.jsonl:2: it is no JSON: EOF while parsing a value at column 8";
        assert_eq!(second, said);
        let latin = read(b"{\"text\": \"\xe9\"}").unwrap_err();
        assert_eq!(latin, "mine.jsonl:1: it is no text in UTF-8");
        for nothing in ["", "\n \n"] {
            let said = read(nothing).unwrap_err();
            assert!(said.contains("the file has no prompt"), "{said}");
        }
    }

    #[test]
    fn a_file_that_no_run_can_hold_is_refused_with_the_limit() {
        let line = format!("{{\"text\": \"{}\"}}", "a".repeat(LINE_BYTES_MAX));
        assert_eq!(
            read(line).unwrap_err(),
            "mine.jsonl:1: the line has over 1 MiB"
        );
        let many = "{\"text\": \"a\"}\n".repeat(PROMPTS_MAX);
        assert_eq!(read(&many).unwrap().lines.len(), PROMPTS_MAX);
        let said = read(many + "\n").unwrap_err();
        assert!(
            said.contains(":10001: the file has over 10000 lines"),
            "{said}"
        );
        assert!(within(1, FILE_BYTES_MAX, 1).is_ok());
        let said = within(1, FILE_BYTES_MAX + 1, 1).unwrap_err();
        assert!(said.contains("over 64 MiB"), "{said}");
    }

    #[test]
    fn a_file_that_is_not_there_is_said_so() {
        let error = File::read(Path::new("/nonexistent/mine.jsonl")).unwrap_err();
        let said = error.to_string();
        assert!(said.starts_with("--prompts /nonexistent/mine.jsonl: the file can't be read"));
    }
}
