//! `callboard console`: a link that opens the console in a browser, signed in with the key; or, with `--url`,
//! a console in this process that shows another host.

mod remote;

use std::sync::Arc;

use clap::Args;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use callboard_console::Api as _;
use callboard_server::HostNames;

use crate::args::Connection;
use crate::client::Client;
use crate::exit::{CommandError, Exit};
use crate::process::{LogFormat, OnHangup, Stop, start_logging};
use crate::screen::output;
use crate::wire::{bind, console};
use remote::RemoteApi;

/// Browsers of one person.
const CONNECTIONS: usize = 64;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  callboard console
  xdg-open \"$(callboard console)\"
  callboard console --url https://callboard.example.com

The link works once, for ten minutes. It gives the browser the same rights as the
key. With --url the console is served here until Ctrl-C and shows that host, also one that
has no console of its own; without it, the link leads to the console of the host.")]
pub(crate) struct ConsoleArgs {
    #[command(flatten)]
    connection: Connection,
    /// Where to serve it with --url; port 0 picks a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    listen: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: ConsoleArgs, earlier: &Connection) -> Result<Exit, CommandError> {
    let connection = args.connection.or(earlier);
    if connection.names_url() {
        return show_another(&args, &connection).await;
    }
    let link = Client::new(&connection)?.console_link().await?;
    print(&args, &link)?;
    Ok(Exit::Done)
}

fn print(args: &ConsoleArgs, link: &str) -> Result<(), CommandError> {
    match args.json {
        true => output::json(&json!({ "url": link })),
        false => output::line(link),
    }
}

async fn show_another(args: &ConsoleArgs, connection: &Connection) -> Result<Exit, CommandError> {
    start_logging("warn", LogFormat::Text)?;
    // A wrong address or key is better said here than on a page.
    let client = Client::new(connection)?;
    let (listener, address) = bind(&args.listen).await?;
    let api = Arc::new(RemoteApi::new(client.base())?);
    let pages = console::over(Arc::clone(&api) as _);
    let link = match connection.api_key() {
        Some(key) => {
            let who = api
                .sign_in(key.expose())
                .await
                .map_err(|error| remote::refused(&client, &error))?;
            console::link(&pages, "http", address, who.key_id)
        }
        None => {
            client.discover().await?;
            None
        }
    };
    let mut stop = Stop::listen(OnHangup::Stop)?;
    let shutdown = CancellationToken::new();
    let surface = callboard_server::only_pages(pages.router(), HostNames::of(address.ip(), &[]));
    print(args, &link.unwrap_or_else(|| console::near("http", address)))?;
    let serve = callboard_server::serve(listener, surface, CONNECTIONS, shutdown.clone());
    let asked = async {
        stop.asked().await;
        shutdown.cancel();
    };
    tokio::join!(serve, asked);
    Ok(Exit::Done)
}
