//! The disk under the data folder: measured for graphs, and warned about before it is full.

use std::path::PathBuf;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::disk::{self, Room};

/// A disk fills in minutes at the least, and asking costs nothing.
const EVERY: Duration = Duration::from_secs(15);
const GIB: u64 = 1 << 30;
/// The room that a day of a busy host needs.
const LITTLE: u64 = GIB;
/// A twentieth of a disk is little, unless the disk is large.
const LITTLE_SHARE: u64 = 20;
const ALWAYS_PLENTY: u64 = 10 * GIB;
/// Four times what a host needs to start.
const NEARLY_NONE: u64 = 4 * disk::LEAST_SPACE;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Level {
    #[default]
    Plenty,
    Little,
    NearlyNone,
}

fn judge(Room { free, total }: Room) -> Level {
    if free < NEARLY_NONE {
        Level::NearlyNone
    } else if free < LITTLE || (free < total / LITTLE_SHARE && free < ALWAYS_PLENTY) {
        Level::Little
    } else {
        Level::Plenty
    }
}

/// Watches one folder.
#[derive(Debug)]
pub(super) struct Space {
    folder: PathBuf,
    level: Level,
}

impl Space {
    pub(super) fn of(folder: PathBuf) -> Self {
        metrics::describe_gauge!("callboard_disk_free_bytes", "Room under the data folder");
        metrics::describe_gauge!("callboard_disk_total_bytes", "Size of that disk");
        Self { folder, level: Level::default() }
    }

    pub(super) async fn watch(mut self, stop: CancellationToken) {
        loop {
            if let Some(room) = disk::room(&self.folder) {
                self.tick(room);
            }
            if stop.run_until_cancelled(tokio::time::sleep(EVERY)).await.is_none() {
                return;
            }
        }
    }

    /// Says something when it gets worse, and when it is over.
    #[expect(clippy::cast_precision_loss, reason = "graphs need no exact byte")]
    fn tick(&mut self, room: Room) {
        metrics::gauge!("callboard_disk_free_bytes").set(room.free as f64);
        metrics::gauge!("callboard_disk_total_bytes").set(room.total as f64);
        let (before, now) = (self.level, judge(room));
        self.level = now;
        if before == now {
            return;
        }
        let (free_mib, folder) = (room.free >> 20, self.folder.display());
        match now {
            Level::Plenty => tracing::info!(free_mib, %folder, "the disk has room again"),
            Level::Little => tracing::warn!(
                free_mib, %folder,
                "the disk has little room: free some, or remove runs with [retention]"
            ),
            Level::NearlyNone => tracing::error!(
                free_mib, %folder,
                "the disk is nearly full: writes will be refused with 507 until there is room"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_warned_about_before_it_is_full() {
        for (free, total, level) in [
            (100 * GIB, 1000 * GIB, Level::Plenty),
            // A twentieth of a large disk is enough.
            (20 * GIB, 1000 * GIB, Level::Plenty),
            (9 * GIB, 1000 * GIB, Level::Little),
            (2 * GIB, 20 * GIB, Level::Plenty),
            (GIB - 1, 4 * GIB, Level::Little),
            (NEARLY_NONE - 1, 4 * GIB, Level::NearlyNone),
            (0, GIB, Level::NearlyNone),
        ] {
            assert_eq!(judge(Room { free, total }), level, "{free} of {total}");
        }
    }
}
