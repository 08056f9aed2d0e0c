//! `openai-bench`: an OpenAI-compatible HTTP endpoint behind the benchmark's
//! protocol. `client` speaks HTTP, `reply` reads what comes back, `tokens` says
//! when each token was here, `endpoint` finds out what the server can do,
//! `scheduler` keeps requests in flight. It deliberately starts no server, repeats
//! no request and scores nothing: log-probabilities of forced tokens are not in
//! the API.

mod client;
mod config;
mod endpoint;
mod reply;
mod scheduler;
mod tokens;

fn main() -> std::process::ExitCode {
    protocol::main_scheduled::<scheduler::OpenAi>()
}
