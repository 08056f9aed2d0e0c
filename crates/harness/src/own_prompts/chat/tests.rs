//! Tests with templates written for them, which use the features that real ones of the families
//! use; none is a copy of a real one.

use super::*;

/// Like Llama 3's: headers, a date, the system message taken from the front, text trimmed.
const HEADERS: &str = r#"
{{- bos_token }}
{%- if not date_string is defined %}
    {%- if strftime_now is defined %}
        {%- set date_string = strftime_now("%d %b %Y") %}
    {%- else %}
        {%- set date_string = "never" %}
    {%- endif %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|header|>system\n\n" + "Today: " + date_string + "\n" + system_message + "<|end|>" }}
{%- if tools is not none %}{{ raise_exception("no tools here") }}{%- endif %}
{%- for message in messages %}
    {{- '<|header|>' + message['role'] + '\n\n' + message['content'] | trim + '<|end|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|header|>assistant\n\n' }}
{%- endif %}
"#;

/// Like Mistral's: turns that alternate, or an exception; a namespace; the system message goes into
/// the last user message.
const ALTERNATING: &str = r#"{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{%- set ns = namespace() %}
{%- set ns.index = 0 %}
{%- for message in loop_messages %}
    {%- if (message["role"] == "user") != (ns.index % 2 == 0) %}
        {{- raise_exception("Roles must alternate: user, assistant, user, …") }}
    {%- endif %}
    {%- set ns.index = ns.index + 1 %}
{%- endfor %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message["role"] == "user" %}
        {%- if loop.last and system_message is defined %}
            {{- "[INST] " + system_message + "\n\n" + message["content"] + "[/INST]" }}
        {%- else %}
            {{- "[INST] " + message["content"] + "[/INST]" }}
        {%- endif %}
    {%- elif message["role"] == "assistant" %}
        {{- " " + message["content"] + eos_token }}
    {%- endif %}
{%- endfor %}
"#;

/// Like Qwen3's: the messages from last to first, thoughts cut out by split and strip.
const THOUGHTS: &str = r#"{%- set ns = namespace(last=-1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.last < 0 and message.role == "user" and message.content is string and not(message.content.startswith('<tool>') and message.content.endswith('</tool>')) %}
        {%- set ns.last = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- set content = message.content %}
    {%- if message.role == "assistant" %}
        {%- if '</think>' in content %}
            {%- set content = content.split('</think>')[-1].lstrip('\n') %}
        {%- endif %}
        {{- '<|im_start|>assistant\n' + content.strip('\n') + '<|im_end|>\n' }}
    {%- elif (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\n' + content + '<|im_end|>' + '\n' }}
    {%- elif loop.first %}
        {{- '<|im_start|>system\n' + content + '<|im_end|>\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\n\n</think>\n\n' }}
    {%- endif %}
{%- endif %}"#;

/// Like those of SmolLM2, Phi-3 and TinyLlama: tags on lines of their own, which trimming removes.
const LINES: &str = "{% for message in messages %}
{% if loop.first and messages[0]['role'] != 'system' %}
{{ '<|system|>\\nBe brief.' + eos_token }}
{% endif %}
{% if message['role'] == 'user' %}
{{ '<|user|>\\n' + message['content'] + eos_token }}
{% elif message['role'] in ['system', 'assistant'] %}
{{ '<|' ~ message['role'] ~ '|>\\n' ~ message['content'] ~ eos_token }}
{% endif %}
{% if loop.last and add_generation_prompt %}
{{ '<|assistant|>' }}
{% endif %}
{% endfor %}";

fn message((role, content): &(&str, &str)) -> Message {
    Message {
        role: (*role).into(),
        content: (*content).into(),
    }
}

fn chat(source: &str) -> Chat {
    let tokens = vec![("bos_token", "<s>".into()), ("eos_token", "</s>".into())];
    Chat::new(FILE, source.to_owned(), tokens).unwrap()
}

fn rendered(source: &str, messages: &[(&str, &str)]) -> Result<String, String> {
    let messages: Vec<Message> = messages.iter().map(message).collect();
    chat(source).render(&messages)
}

#[test]
fn headers_dates_and_trimmed_text_are_rendered() {
    let text = rendered(
        HEADERS,
        &[("system", " Be kind. "), ("user", " <Hi> & bye\n")],
    );
    assert_eq!(
        text.unwrap(),
        "<s><|header|>system\n\nToday: 01 Jan 2025\nBe kind.<|end|>\
         <|header|>user\n\n<Hi> & bye<|end|><|header|>assistant\n\n"
    );
}

#[test]
fn a_template_may_refuse_and_is_quoted_with_its_line() {
    let turns = [
        ("system", "Short."),
        ("user", "a"),
        ("assistant", "b"),
        ("user", "c"),
    ];
    assert_eq!(
        rendered(ALTERNATING, &turns).unwrap(),
        "<s>[INST] a[/INST] b</s>[INST] Short.\n\nc[/INST]"
    );
    let why = rendered(ALTERNATING, &[("user", "a"), ("user", "b")]).unwrap_err();
    assert_eq!(
        why,
        "the model's chat template refuses it (chat_template.jinja, line 11: Roles must alternate: user, assistant, user, …)"
    );
}

#[test]
fn namespaces_slices_and_methods_of_strings_work() {
    let turns = [
        ("system", "S"),
        ("user", "a"),
        ("assistant", "<think>hm</think>\n\nb\n"),
        ("user", "c"),
    ];
    assert_eq!(
        rendered(THOUGHTS, &turns).unwrap(),
        "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\na<|im_end|>\n\
         <|im_start|>assistant\nb<|im_end|>\n<|im_start|>user\nc<|im_end|>\n<|im_start|>assistant\n"
    );
}

#[test]
fn lines_that_hold_only_blocks_leave_nothing() {
    assert_eq!(
        rendered(LINES, &[("user", "a")]).unwrap(),
        "<|system|>\nBe brief.</s>\n<|user|>\na</s>\n<|assistant|>\n"
    );
    let both = [("system", "S"), ("user", "a")];
    let text = rendered(LINES, &both).unwrap();
    assert!(text.starts_with("<|system|>\nS</s>\n<|user|>"));
}

#[test]
fn a_call_of_something_unknown_says_where() {
    let why = rendered("line\n{{ messages.frobnicate() }}", &[("user", "a")]).unwrap_err();
    assert!(why.contains("chat_template.jinja, line 2: "), "{why}");
    assert!(!why.contains('\n'), "{why}");
}

/// A temporary directory of a model with these files.
fn model(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(dir.path().join(name), text).unwrap();
    }
    dir
}

fn found(files: &[(&str, &str)]) -> Result<String, String> {
    let dir = model(files);
    Chat::load(dir.path(), "mine")?.render(&[message(&("user", "a"))])
}

#[test]
fn a_template_is_a_file_or_stands_in_the_configuration() {
    let file = ("chat_template.jinja", "{{ bos_token }}file");
    let config = |template: &str| {
        format!(
            r#"{{"bos_token": {{"content": "<b>"}}, "eos_token": "<e>", "chat_template": {template}}}"#
        )
    };
    let one = config(r#""{{ bos_token }}one{{ eos_token }}{{ unk_token }}""#);
    assert_eq!(found(&[(CONFIG, &one)]).unwrap(), "<b>one<e>");
    assert_eq!(found(&[(CONFIG, &one), file]).unwrap(), "<b>file");
    assert_eq!(found(&[file]).unwrap(), "file", "it knows no tokens");
    let named =
        config(r#"[{"name": "tool_use", "template": "t"}, {"name": "default", "template": "d"}]"#);
    assert_eq!(found(&[(CONFIG, &named)]).unwrap(), "d");
}

#[test]
fn a_model_without_a_template_that_can_be_used_is_refused() {
    let no_default = r#"{"chat_template": [{"name": "rag", "template": "t"}]}"#;
    let why = found(&[(CONFIG, no_default)]).unwrap_err();
    assert!(
        why.contains("mine: ") && why.contains("\"rag\" and no default"),
        "{why}"
    );
    for none in [&[][..], &[(CONFIG, r#"{"bos_token": "<s>"}"#)]] {
        let why = found(none).unwrap_err();
        assert!(why.starts_with("mine has no chat template"), "{why}");
        assert!(why.contains("as text, not as messages"), "{why}");
    }
    let why = found(&[(FILE, "a\n{% if %}")]).unwrap_err();
    assert!(
        why.starts_with("mine: its chat template can't be used (chat_template.jinja, line 2: "),
        "{why}"
    );
    let why = found(&[(CONFIG, "{")]).unwrap_err();
    assert!(
        why.contains("mine: its tokenizer_config.json is no JSON"),
        "{why}"
    );
}
