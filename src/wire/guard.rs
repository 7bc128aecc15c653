//! The process that ends coding agents when the host cannot: started beside it, and told that it lives.

use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;
use tokio_util::sync::CancellationToken;

use super::sandbox::OURSELVES;

/// Signs of life within the guard's patience; some may come late on a busy machine.
const SIGNS: u32 = 8;
/// How soon a guard that has ended is replaced.
const REPLACE: Duration = Duration::from_secs(1);

/// A guard to keep. Another host may take over what this one runs once its lease has ended, so its programs end before.
#[derive(Debug)]
pub(super) struct Guard {
    pub(super) records: PathBuf,
    pub(super) lease: Duration,
}

impl Guard {
    /// Keeps a guard until told to stop; one that ends is replaced.
    pub(super) async fn keep(self, stop: CancellationToken) {
        stop.run_until_cancelled(async {
            loop {
                if let Err(error) = self.watch().await {
                    tracing::warn!(%error, "the guard of coding agents has ended; starting another");
                }
                tokio::time::sleep(REPLACE).await;
            }
        })
        .await;
    }

    async fn watch(&self) -> io::Result<()> {
        let patience = self.lease * 4 / 5;
        let mut child = Command::new(OURSELVES)
            .arg("guard")
            .arg("--records")
            .arg(&self.records)
            .arg("--patience-ms")
            .arg(patience.as_millis().to_string())
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // What ends the host from a terminal must not end its guard.
            .process_group(0)
            .spawn()?;
        let mut pipe = child.stdin.take().ok_or_else(|| io::Error::other("it has no input"))?;
        loop {
            pipe.write_all(b".").await?;
            tokio::time::sleep(patience / SIGNS).await;
        }
    }
}
