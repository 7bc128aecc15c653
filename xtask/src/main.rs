//! Tasks that cargo has no command for: the architecture test, generated pages, interoperability, benchmarks.

mod bench;
mod child;
mod compare;
mod dist;
mod interop;
mod say;
mod screenshots;
mod soak;
mod source;
mod sse;
mod tidy;
mod wire;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(name = "cargo xtask", about = "Project tasks")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Check file sizes, headers, crate walls, links and the page of error codes
    Tidy,
    /// Write docs/reference/errors.md from the server's table of error codes
    Errors,
    /// Write docs/reference/nodes.md from the table of node types
    Nodes,
    /// Run the protocol's fixtures and schemas against the built binary
    Interop(interop::Options),
    /// Make the pictures of the console that the documentation shows; needs chromium and chromium-driver
    Screenshots(screenshots::Options),
    /// Make what a release consists of: Debian package, archive, list of dependencies, digests
    Dist(dist::Options),
    /// Measure the release binary beside the machine's raw limits
    Bench(bench::Options),
    /// Measure what clients do with this host and with another that runs already, by turns
    Compare(compare::Options),
    /// Let random faults happen to hosts on one PostgreSQL, and look whether anything was lost or done twice
    Soak(soak::Options),
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().task {
        Task::Tidy => tidy::run(),
        Task::Errors => tidy::write_error_page(),
        Task::Nodes => tidy::write_node_page(),
        Task::Interop(options) => interop::run(&options),
        Task::Screenshots(options) => screenshots::run(&options),
        Task::Dist(options) => dist::run(&options),
        Task::Bench(options) => bench::run(&options),
        Task::Compare(options) => compare::run(&options),
        Task::Soak(options) => soak::run(&options),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            say::problem(format_args!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}
