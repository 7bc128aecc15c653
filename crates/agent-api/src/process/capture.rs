//! Running a short command for what it prints.

use std::process::ExitStatus;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::spawn::{Command, Keeper, Spawned, spawn};
use super::supervise::LINGER;
use crate::bounds::{TRUNCATED, cut};
use crate::error::{AgentError, FailureClass};
use crate::mcp::McpCommandOutput;

/// Bytes that are kept of each side.
const KEPT: usize = 65_536;

/// Answers what the command printed if it exited in time, whatever its exit says. Dropping this ends the command.
pub(crate) async fn capture(
    command: &Command,
    keeper: &Keeper,
    limit: Option<Duration>,
) -> Result<McpCommandOutput, AgentError> {
    let Spawned { mut group, mut child, stdin, stdout, stderr, record: _record } =
        spawn(command, keeper)?;
    drop(stdin);
    let exited = CancellationToken::new();
    let work = async {
        let leader = async {
            let status = child.wait().await;
            exited.cancel();
            status
        };
        tokio::join!(leader, read(stdout, &exited), read(stderr, &exited))
    };
    let done = match limit {
        Some(limit) => timeout(limit, work).await.ok(),
        None => Some(work.await),
    };
    let Some((status, stdout, stderr)) = done else {
        return Err(AgentError::backend(FailureClass::Timeout, "timeout"));
    };
    group.end_rest().await;
    let status =
        status.map_err(|_| AgentError::backend(FailureClass::Crashed, "the process was lost"))?;
    Ok(output(status, &stdout, &stderr))
}

/// Keeps one byte more than the limit, which shows that there was more, and reads on.
async fn read(mut pipe: impl AsyncRead + Unpin, exited: &CancellationToken) -> Vec<u8> {
    let mut kept = Vec::new();
    let mut buffer = vec![0; 8 * 1024];
    loop {
        let quiet = async {
            exited.cancelled().await;
            tokio::time::sleep(LINGER).await;
        };
        let read = tokio::select! {
            read = pipe.read(&mut buffer) => read.unwrap_or_default(),
            () = quiet => 0,
        };
        if read == 0 {
            return kept;
        }
        let room = (KEPT + 1).saturating_sub(kept.len());
        kept.extend_from_slice(&buffer[..read.min(room)]);
    }
}

fn output(status: ExitStatus, stdout: &[u8], stderr: &[u8]) -> McpCommandOutput {
    let (stdout, stdout_truncated) = text(stdout);
    let (stderr, stderr_truncated) = text(stderr);
    McpCommandOutput { status, stdout, stderr, stdout_truncated, stderr_truncated }
}

fn text(bytes: &[u8]) -> (String, bool) {
    let is_cut = bytes.len() > KEPT;
    let text = cut(String::from_utf8_lossy(bytes).into_owned(), KEPT);
    // Bytes that are no text grow when they are replaced, so the bound may bite late.
    let is_cut = is_cut || text.ends_with(TRUNCATED) && bytes.len() > KEPT - TRUNCATED.len();
    (text, is_cut)
}
