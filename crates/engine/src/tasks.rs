//! The tasks of one engine: counted, awaited at shutdown, and gone when the engine is.

use std::future::Future;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

#[derive(Debug, Default)]
pub(crate) struct Tasks {
    tracker: TaskTracker,
    kill: CancellationToken,
}

impl Tasks {
    /// Runs a future until it ends or the engine goes away; then it is dropped where it stands.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        // On the heap before anything is wrapped around it: each wrapper would move it as a whole.
        let task = Box::pin(task);
        let kill = self.kill.clone();
        self.tracker.spawn(async move {
            kill.run_until_cancelled(task).await;
        });
    }

    /// Waits for all tasks to end by themselves.
    pub(crate) async fn finished(&self) {
        self.tracker.close();
        self.tracker.wait().await;
    }

    /// Drops all tasks where they stand.
    pub(crate) fn kill(&self) {
        self.kill.cancel();
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        self.kill.cancel();
    }
}
