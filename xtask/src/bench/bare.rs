//! The least that an HTTP server can do: a bare axum handler that answers every request with the same bytes. It is this
//! program again, as a process of its own, so that its processor time can be told apart.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result};
use axum::Router;
use axum::http::header::CONTENT_TYPE;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::say;

/// A running handler. Dropping it ends the process.
#[derive(Debug)]
pub(crate) struct Bare {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Bare {
    pub(crate) async fn start(folder: &Path, body: &[u8]) -> Result<Self> {
        let path = folder.join("bare-body");
        std::fs::write(&path, body)?;
        let mut child = Command::new(std::env::current_exe()?)
            .arg("bench")
            .arg("--serve-bare")
            .arg(&path)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let output = child.stdout.take().context("no standard output")?;
        let line = BufReader::new(output).lines().next_line().await?.context("no address")?;
        Ok(Self { child, address: line.parse()? })
    }

    pub(crate) fn id(&self) -> Result<u32> {
        self.child.id().context("the bare handler has ended")
    }
}

/// Serves the file's bytes until the process is ended.
pub(crate) fn serve(path: &Path) -> Result<()> {
    let body = axum::body::Bytes::from(std::fs::read(path)?);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        say::line(listener.local_addr()?);
        let answer = move || {
            let body = body.clone();
            async move { ([(CONTENT_TYPE, "application/json")], body) }
        };
        Ok(axum::serve(listener, Router::new().fallback(answer)).await?)
    })
}
