//! `mistralrs-serve`: serves a model directory as an OpenAI-compatible endpoint on this machine,
//! with mistral.rs' own HTTP server. It is for tests that need a real server; it deliberately has
//! no options and no authentication, and is not timed. Unlike the adapter it holds no request
//! back, and on the CPU mistral.rs 0.8.1 answers requests that share a step wrongly: send it one
//! at a time if the answer matters.

use mistralrs_bench::load;
use mistralrs_server_core::mistralrs_server_router_builder::MistralRsServerRouterBuilder;
use protocol::wire::Load;
use std::process::ExitCode;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

const USAGE: &str = "\
Usage: mistralrs-serve MODEL_DIR WEIGHTS PRECISION PORT
Serves on 127.0.0.1; port 0 takes a free one. The address is the first line printed.";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [model_dir, weights, precision, port] = arguments.as_slice() else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match serve(model_dir, weights, precision, port) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn serve(model_dir: &str, weights: &str, precision: &str, port: &str) -> Result<(), String> {
    let port: u16 = port
        .parse()
        .map_err(|err| format!("port {port:?}: {err}"))?;
    let request = Load {
        model_dir: model_dir.to_string(),
        weights: weights.to_string(),
        precision: precision.to_string(),
        backend: "cpu".to_string(),
        max_batch: 8,
        ..Load::default()
    };
    let runtime = Runtime::new().map_err(|err| err.to_string())?;
    let loading = load::load(&request, &runtime, load::Eos::Stops).map_err(|err| err.message)?;
    runtime.block_on(async {
        let router = MistralRsServerRouterBuilder::new().with_mistralrs(loading.runner);
        let router = router.build().await.map_err(|err| format!("{err:#}"))?;
        let listener = TcpListener::bind(("127.0.0.1", port))
            .await
            .map_err(|err| format!("127.0.0.1:{port}: {err}"))?;
        let address = listener.local_addr().map_err(|err| err.to_string())?;
        println!("http://{address}");
        axum::serve(listener, router)
            .await
            .map_err(|err| err.to_string())
    })
}
