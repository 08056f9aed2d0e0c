//! The options of `verify`, and their conversion to its own type.

use clap::Args;
use proofs::verify;
use watch::Control;

#[derive(Args)]
pub(super) struct VerifyArgs {
    /// Models, comma-separated: ids, `hf:org/repo[@revision]` or directories; by default the tiny
    /// ones.
    #[arg(long, value_delimiter = ',')]
    model: Vec<String>,
    /// Engine or target ids, comma-separated; by default all of the profile's.
    #[arg(long, value_delimiter = ',')]
    engines: Vec<String>,
    /// The profile whose targets are verified: see `cargo xtask list`.
    #[arg(long, default_value = "cpu")]
    profile: String,
    /// Test the checks themselves: mutants must fail the gate, and forged stamps must fail the
    /// audit.
    #[arg(long, conflicts_with_all = ["model", "engines", "profile", "bless", "context"])]
    mutants: bool,
    /// Make the goldens anew from the reference first.
    #[arg(long)]
    bless: bool,
    /// Verify contexts of these lengths too (tokens, comma-separated). Beyond 1 024 the golden is
    /// extended to reach them.
    #[arg(long, value_name = "TOKENS", value_delimiter = ',')]
    context: Vec<u32>,
    /// Print records instead of a table.
    #[arg(long)]
    json: bool,
    /// Show a dashboard; without a terminal, plain progress all the same.
    #[arg(long)]
    pub(super) tui: bool,
}

impl VerifyArgs {
    pub(super) fn options(self, control: Control) -> verify::Options {
        verify::Options {
            models: self.model,
            profile: self.profile,
            engines: self.engines,
            mutants: self.mutants,
            bless: self.bless,
            contexts: self.context,
            json: self.json,
            control,
        }
    }
}
