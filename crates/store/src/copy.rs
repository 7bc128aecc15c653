//! Copying a database whole: a data folder to PostgreSQL, and back. Sealed bytes go as they are, numbers and positions
//! are kept, leases are void. Afterwards the copy is read again and compared, table by table.

mod tables;

use std::path::PathBuf;

use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc;

pub(crate) use tables::{Column, TABLES, Table, columns};

use crate::postgres::PostgresCopy;
use crate::seal;
use crate::sqlite::SqliteCopy;

/// Rows on their way: enough that both sides are busy, few enough to fit into memory however large they are.
const CHUNKS_UNDER_WAY: usize = 4;
pub(crate) const ROWS_PER_CHUNK: usize = 200;

/// A database to copy from or to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CopyEnd {
    Folder(PathBuf),
    /// The address of a PostgreSQL.
    Shared(String),
}

/// Why a database was not copied. Neither the message nor the hint has a password.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    #[error("{what}")]
    Refused { what: String, hint: &'static str },
    #[error("{0}")]
    Broken(String),
    #[error("the copy of {0} is not equal to what was copied")]
    Unequal(&'static str),
}

impl CopyError {
    pub(crate) fn refused(what: impl Into<String>, hint: &'static str) -> Self {
        Self::Refused { what: what.into(), hint }
    }

    pub(crate) fn broken(error: impl ToString) -> Self {
        Self::Broken(error.to_string())
    }

    /// What the operator can do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Refused { hint, .. } => hint,
            Self::Broken(_) => {
                "The target is as it was. Check both databases with `callboard db status`."
            }
            Self::Unequal(_) => "The target was not kept. Report this.",
        }
    }
}

/// One table of a copy: how many rows it has, and what is in them, whatever their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopiedTable {
    pub table: &'static str,
    pub rows: u64,
    pub digest: u128,
}

impl CopiedTable {
    pub(crate) fn of(table: &'static str) -> Self {
        Self { table, rows: 0, digest: 0 }
    }

    pub(crate) fn count(&mut self, rows: &[Row]) {
        for row in rows {
            self.rows += 1;
            self.digest = self.digest.wrapping_add(digest(row));
        }
    }
}

fn digest(row: &Row) -> u128 {
    let mut hash = Sha256::new();
    for cell in row {
        let (tag, bytes): (u8, &[u8]) = match cell {
            Cell::Null => (0, &[]),
            Cell::Number(number) => (1, &number.to_be_bytes()),
            Cell::Real(real) => (2, &real.to_bits().to_be_bytes()),
            Cell::Text(text) => (3, text.as_bytes()),
            Cell::Bytes(bytes) => (4, bytes),
        };
        hash.update([tag]);
        hash.update((bytes.len() as u64).to_be_bytes());
        hash.update(bytes);
    }
    let digest: [u8; 32] = hash.finalize().into();
    let (first, _) = digest.split_first_chunk::<16>().unwrap_or((&[0; 16], &[]));
    u128::from_be_bytes(*first)
}

/// A value that means the same in both databases.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Cell {
    Null,
    /// Flags are 0 and 1.
    Number(i64),
    Real(f64),
    Text(String),
    Bytes(Vec<u8>),
}

impl Cell {
    pub(crate) fn number(&self) -> Option<i64> {
        if let Self::Number(number) = self { Some(*number) } else { None }
    }

    pub(crate) fn text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }
}

pub(crate) type Row = Vec<Cell>;

/// Some rows of one table, by its place among [`TABLES`].
pub(crate) type Chunk = (usize, Vec<Row>);

/// What is given once and never again, beyond what the rows say.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Marks {
    pub(crate) memory: i64,
    pub(crate) records: i64,
}

/// One side of a copy.
enum Side {
    Sqlite(SqliteCopy),
    Postgres(PostgresCopy),
}

impl Side {
    async fn read(&mut self, into: mpsc::Sender<Chunk>) -> Result<Vec<CopiedTable>, CopyError> {
        match self {
            Self::Sqlite(side) => side.read(into).await,
            Self::Postgres(side) => side.read(into).await,
        }
    }

    async fn write(&mut self, from: mpsc::Receiver<Chunk>) -> Result<(), CopyError> {
        match self {
            Self::Sqlite(side) => side.write(from).await,
            Self::Postgres(side) => side.write(from).await,
        }
    }

    async fn marks(&mut self) -> Result<Marks, CopyError> {
        match self {
            Self::Sqlite(side) => side.marks(),
            Self::Postgres(side) => side.marks().await,
        }
    }

    async fn settle(&mut self, marks: Marks) -> Result<(), CopyError> {
        match self {
            Self::Sqlite(side) => side.settle(marks),
            Self::Postgres(side) => side.settle(marks).await,
        }
    }
}

/// Copies everything, and answers what was copied. `key` opens the source, where that is not a folder that has it.
/// `progress` hears which table is under way and how many of its rows have gone.
pub async fn copy(
    from: &CopyEnd,
    to: &CopyEnd,
    key: Option<&str>,
    progress: impl Fn(&'static str, u64) + Send + Sync,
) -> Result<Vec<CopiedTable>, CopyError> {
    let (mut source, digits) = match from {
        CopyEnd::Folder(folder) => {
            let (side, digits) = SqliteCopy::source(folder)?;
            (Side::Sqlite(side), Some(digits))
        }
        CopyEnd::Shared(address) => {
            (Side::Postgres(PostgresCopy::source(address).await?), key.map(str::to_owned))
        }
    };
    let mut target = match to {
        CopyEnd::Folder(folder) => {
            let digits = digits.as_deref().and_then(|digits| Some((digits, seal::key_of(digits)?)));
            let Some((digits, seal)) = digits else {
                return Err(CopyError::refused(
                    "a data folder needs the key that the database was sealed with",
                    "Set CALLBOARD_SEAL_KEY to the key of its hosts: 64 hexadecimal digits.",
                ));
            };
            if let Side::Postgres(source) = &source {
                source.check_for_folder(&seal).await?;
            }
            Side::Sqlite(SqliteCopy::target(folder, digits)?)
        }
        CopyEnd::Shared(address) => Side::Postgres(PostgresCopy::target(address).await?),
    };
    let copied = pump(&mut source, &mut target, &progress).await?;
    target.settle(source.marks().await?).await?;
    let found = read_back(&mut target).await?;
    for (copied, found) in copied.iter().zip(&found) {
        if copied != found {
            return Err(CopyError::Unequal(copied.table));
        }
    }
    match target {
        Side::Sqlite(side) => side.keep()?,
        Side::Postgres(side) => side.keep().await?,
    }
    Ok(copied)
}

async fn pump(
    source: &mut Side,
    target: &mut Side,
    progress: &(impl Fn(&'static str, u64) + Send + Sync),
) -> Result<Vec<CopiedTable>, CopyError> {
    let (chunks, mut between) = mpsc::channel::<Chunk>(CHUNKS_UNDER_WAY);
    let (onwards, rows) = mpsc::channel::<Chunk>(CHUNKS_UNDER_WAY);
    let passing = async {
        let mut gone = [0; TABLES.len()];
        while let Some((table, rows)) = between.recv().await {
            gone[table] += rows.len() as u64;
            progress(TABLES[table].name, gone[table]);
            if onwards.send((table, rows)).await.is_err() {
                break;
            }
        }
        drop((between, onwards));
    };
    let (read, (), written) = tokio::join!(source.read(chunks), passing, target.write(rows));
    // A target that fails ends the source as well, whose complaint is then only that nobody listens.
    written?;
    read
}

async fn read_back(side: &mut Side) -> Result<Vec<CopiedTable>, CopyError> {
    let (chunks, mut rows) = mpsc::channel(CHUNKS_UNDER_WAY);
    let drained = async { while rows.recv().await.is_some() {} };
    tokio::join!(side.read(chunks), drained).0
}
