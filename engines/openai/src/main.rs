//! `openai-bench`: an OpenAI-compatible HTTP endpoint behind the benchmark's protocol. `client` is
//! the HTTP client, `reply` reads the responses, `tokens` determines when each token arrived,
//! `endpoint` finds out what the server can do, `scheduler` keeps requests in flight. It
//! deliberately starts no server, retries no request and scores nothing: the API has no
//! log-probabilities of forced tokens.

mod client;
mod config;
mod endpoint;
mod reply;
mod scheduler;
mod tokens;

fn main() -> std::process::ExitCode {
    protocol::main_scheduled::<scheduler::OpenAi>()
}
