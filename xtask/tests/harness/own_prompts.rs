//! Tests of the user's prompts: from a file to a site, in a second run without the file, and
//! refusals. The engine is `fake`, which is its own reference: a prompt that isn't recorded
//! correctly is a wrong output.

use crate::checkout::{Checkout, NO_PYTHON, PROFILE, says, text, words};
use crate::own_model::write_model;
use schema::run::Run;
use std::collections::BTreeMap;

const SIZES: &str =
    "\n[scenarios.own_prompts]\nnew_tokens = 6\nconcurrency = [1, 4]\nrequests = 5\n";
const MINE: &str = "{\"text\": \"One.\"}\n\n{\"prompt\": \"Two words, and a few more of them.\"}\n{\"text\": \"Three\"}\n";
const CHAT: &str = r#"{"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": " Hi "}]}"#;
const TEMPLATE: &str = "{{ bos_token }}{% for m in messages %}\n{{ m['role'] + ': ' + m['content'].strip() }}\n{% endfor %}\n{% if add_generation_prompt %}assistant:{% endif %}";

/// Make a checkout with sizes for prompts, and with prompts in a directory whose name is private.
fn checkout() -> Checkout {
    let checkout = Checkout::with(&[]);
    checkout.profile(&format!("{PROFILE}{SIZES}"));
    checkout.write("private/mine.jsonl", MINE);
    checkout
}

/// Count how often each prompt index was timed, by case and block.
fn timed(run: &Run) -> BTreeMap<(String, u32), Vec<u64>> {
    let mut all: BTreeMap<_, Vec<u64>> = BTreeMap::new();
    for log in &run.launches {
        for request in log.requests.iter().filter(|request| !request.warmup) {
            let of = (request.case.clone(), log.launch.invocation);
            all.entry(of).or_default().push(request.prompt);
        }
    }
    all
}

fn all_have_twelve_requests(checkout: &Checkout, run: &Run) {
    let cells = checkout.all_ok(run, 12);
    assert!(cells.iter().all(|cell| cell.requests == 12));
}

#[test]
fn a_file_is_measured_and_shown_and_is_not_needed_again() {
    let checkout = checkout();
    let asked = words("bench-all --profile test --prompts private/mine.jsonl");
    let (said, run) = checkout.records(&asked, &[], 0);
    says(&said, &["prompts come again"]);

    let plan = &run.header.plan;
    let ids: Vec<&str> = plan.scenarios.iter().map(|s| s.id.as_str()).collect();
    assert_eq!(ids, ["own_prompts"], "nothing else was asked for");
    let prompts = plan.prompts.as_ref().expect("the plan holds them");
    let lengths = prompts.lengths();
    assert_eq!(prompts.file, "mine.jsonl");
    assert_eq!(prompts.tokens.len(), 3);
    let bos = prompts.tokens[0][0];
    let mut all = prompts.tokens.iter();
    assert!(all.all(|ids| ids[0] == bos && ids.len() > 1));
    assert!(lengths.shortest < lengths.longest, "{lengths:?}");
    // Where the file lay is nobody's business.
    let record = checkout.read(&format!("runs/{}/run.json", run.header.id));
    assert!(!record.contains("private"), "{record}");

    // Requests are whole passes over the file: 5 became 6, the same number of each prompt.
    let timed = timed(&run);
    assert_eq!(timed.len(), 4, "two cases in two blocks: {timed:?}");
    let mut counts = timed.values().map(Vec::len);
    assert!(counts.all(|count| count == 6), "{timed:?}");
    all_have_twelve_requests(&checkout, &run);
    let checks = run.checks.values();
    let judged: Vec<(u64, u64, u64)> = checks
        .map(|check| (check.equal, check.wrong, check.unchecked))
        .collect();
    assert_eq!(
        judged,
        [(12, 0, 0), (12, 0, 0)],
        "each prompt was found again"
    );

    let page = checkout.read("target/site/scenario/own_prompts.html");
    let asked_for = format!(
        "3 prompts of mine.jsonl, {} to {} tokens long (median {}), each asked 4 times in each case",
        lengths.shortest, lengths.longest, lengths.median
    );
    says(&page, &[&asked_for]);

    // The record is enough: the file may be deleted.
    std::fs::remove_dir_all(checkout.path("private")).expect("it is ours");
    let output = checkout.xtask(&["reproduce", "latest"], &[]);
    let status = output.status.code();
    assert!(matches!(status, Some(0 | 1)), "{}", text(&output));
    let again = checkout.latest().expect("it was recorded");
    assert_ne!(again.header.id, run.header.id);
    assert_eq!(again.header.plan, run.header.plan);
}

#[test]
fn a_run_that_was_stopped_goes_on_without_the_file() {
    let checkout = checkout();
    let begin = words("bench --profile test --prompts private/mine.jsonl --stop-after 0");
    checkout.ended(&begin, &[], 4);
    std::fs::remove_dir_all(checkout.path("private")).expect("it is ours");
    let (_, run) = checkout.records(&["bench", "--resume", "latest"], &[], 0);
    all_have_twelve_requests(&checkout, &run);
}

#[test]
fn runs_of_other_prompts_are_not_compared() {
    let checkout = checkout();
    checkout.write("other.jsonl", "{\"text\": \"Something else.\"}\n");
    checkout.write("copy.jsonl", MINE);
    let [first, other, copy] = ["private/mine.jsonl", "other.jsonl", "copy.jsonl"].map(|file| {
        let asked = ["bench", "--profile", "test", "--prompts", file];
        checkout.records(&asked, &[], 0).1
    });
    let compared = |a: &Run, b: &Run| {
        let asked = ["compare", &a.header.id, &b.header.id, "--all"];
        text(&checkout.xtask(&asked, &[]))
    };
    let said = compared(&first, &other);
    says(&said, &["other prompts: mine.jsonl ("]);
    says(&said, &["prompts of the user's"]);
    // The same prompts in a file of another name are the same prompts.
    let said = compared(&first, &copy);
    assert!(!said.contains("other prompts"), "{said}");
}

#[test]
fn named_scenarios_are_measured_beside_them_and_others_are_as_before() {
    let checkout = checkout();
    let asked = |more: &str| {
        let line = format!("bench --profile test --dry-run{more}");
        checkout.ended(&words(&line), &[], 0)
    };
    let said = asked(" --prompts private/mine.jsonl");
    says(&said, &["Prompts: 3 prompts of mine.jsonl, ", "(median "]);
    says(&said, &["1 target × 1 scenario and"]);
    let said = asked(" --prompts private/mine.jsonl --scenarios single_request");
    says(&said, &["1 target × 2 scenarios"]);
    let said = asked("");
    says(&said, &["1 target × 2 scenarios"]);
    assert!(!said.contains("Prompts:"), "{said}");
}

#[test]
fn what_cannot_be_asked_is_refused_in_a_line_and_leaves_nothing() {
    let checkout = checkout();
    let long = format!("{{\"text\": \"{}\"}}", "word ".repeat(5000));
    let refused = |options: &str, why: &str| {
        let line = format!("bench {options}");
        let said = checkout.ended(&words(&line), &[], 2);
        assert!(said.contains(why), "{line}: {said}");
        assert!(!checkout.path("runs").exists(), "{line}");
    };
    let no_json = "bad.jsonl:2: it is no JSON: EOF while parsing a value at column 8";
    let too_long = "and with 6 new ones that is more than the 2048 positions of tiny-llama: shorten it to 2042 tokens";
    for (file, text, why) in [
        ("chat.jsonl", CHAT, "tiny-llama has no chat template"),
        ("bad.jsonl", "{\"text\": \"a\"}\n{\"text\":", no_json),
        ("long.jsonl", long.as_str(), too_long),
    ] {
        checkout.write(file, text);
        refused(&format!("--profile test --prompts {file}"), why);
    }
    let unreadable = "--prompts none.jsonl: the file can't be read";
    for (options, why) in [
        (
            "--scenarios own_prompts",
            "name their file with --prompts FILE",
        ),
        ("--prompts none.jsonl", unreadable),
        (
            "--prompts private/mine.jsonl --engines fakee",
            "did you mean fake",
        ),
    ] {
        refused(&format!("--profile test {options}"), why);
    }
    refused("--prompts bad.jsonl --resume latest", "cannot be used with");
}

#[test]
fn a_dry_run_fetches_no_tokenizer() {
    let bare = Checkout::bare();
    bare.write("mine.jsonl", MINE);
    let asked = words("bench --profile cpu --prompts mine.jsonl --dry-run");
    let said = text(&bare.unchanged_by(&asked, &[NO_PYTHON], 2));
    says(&said, &["`cargo xtask fetch tiny-llama` first"]);
}

#[test]
fn chats_are_rendered_by_the_template_of_a_model_that_was_brought() {
    let checkout = checkout();
    write_model(&checkout.path("mine/Chatty"), 1);
    checkout.write("mine/Chatty/chat_template.jinja", TEMPLATE);
    checkout.write("chat.jsonl", CHAT);
    let models = checkout.path("models");
    let asked = "bench --profile test --model mine/Chatty --prompts chat.jsonl";
    let dry_run = format!("{asked} --dry-run");
    let said = checkout.ended(&words(&dry_run), &[], 0);
    says(&said, &["Prompts: 1 prompt of chat.jsonl, "]);
    let kept = std::fs::read_dir(&models).expect("it is there");
    assert_eq!(kept.count(), 1, "a dry run keeps nothing beside tiny-llama");

    let (_, run) = checkout.records(&words(asked), &[], 0);
    let plan = &run.header.plan;
    let tokenizer = models.join(&plan.model).join("tokenizer.json");
    let tokenizer = tokenizers::Tokenizer::from_file(tokenizer).expect("it was copied");
    let prompts = plan.prompts.as_ref().expect("the plan holds them");
    let read = tokenizer.decode(&prompts.tokens[0], true);
    let read = read.expect("they are its tokens");
    assert_eq!(read, "system: Be brief.\nuser: Hi\nassistant:");
    checkout.all_ok(&run, 0);
}
