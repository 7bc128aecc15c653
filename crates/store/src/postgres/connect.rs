//! Connecting: address, patience with a database that comes late, migration, key, and everything that forbids a start.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::str::FromStr as _;
use std::sync::Arc;
use std::task::Context;
use std::time::Duration;

use deadpool_postgres::{
    ClientWrapper, Hook, HookError, Manager, ManagerConfig, Pool, QueueMode, RecyclingMethod,
    Runtime,
};
use futures_util::{StreamExt as _, stream};
use tokio::sync::mpsc;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::error::SqlState;
use tokio_postgres::{AsyncMessage, Client, Config};
use tokio_postgres_rustls::MakeRustlsConnect;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use callboard_engine::{Changes, StoreError};

use super::clock::DatabaseClock;
use super::create::KnownDefinitions;
use super::generations::Reader;
use super::hints::{self, Hints};
use super::quiet::Quiet;
use super::session::{Connections, KnownTypes, Session, Statements};
use super::tls::{self, Trust};
use super::writer::{Lane, Shared};
use super::{Gathers, Inner, PostgresStore, counters, migrate, watch};
use crate::seal::{self, Seal};

/// How long a start waits for a database that is not there yet.
const LATE: Duration = Duration::from_secs(20);
const BETWEEN_TRIES: Duration = Duration::from_secs(1);

/// For a connection to be made, and for one to become free.
const WAIT: Duration = Duration::from_secs(5);
/// After so long a network that swallows everything counts as gone.
const SILENCE: Duration = Duration::from_secs(10);

/// Connections of one host: those that read and write alone, one for each lane of the writer, one for renewals. One more
/// is for hints.
const SHARED: usize = 8;
const WRITERS: usize = 2;
const RENEWALS: usize = 1;

/// Statements are planned once for each connection, often while tables are still small: such a plan would go through
/// a whole table for as long as the connection lives. Every statement has an index.
const PLANS: &str = "SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET jit = off";

/// What opens sealed values: the same on every host, and never in the database.
pub struct SealKey(Source);

enum Source {
    Digits(String),
    Folder(PathBuf),
}

impl SealKey {
    /// A key as 64 hexadecimal digits.
    pub fn of_digits(digits: impl Into<String>) -> Self {
        Self(Source::Digits(digits.into()))
    }

    /// The key in a host's data folder, which is made there for a database that has none yet.
    pub fn in_folder(folder: impl Into<PathBuf>) -> Self {
        Self(Source::Folder(folder.into()))
    }
}

impl fmt::Debug for SealKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SealKey").finish_non_exhaustive()
    }
}

/// Why a database was not connected to. The message says what is the matter, the hint what to do; neither has a
/// password.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("the address of the database cannot be used: {why}")]
    Address { why: String },
    #[error("the database {address} cannot be reached: {why}")]
    Unreachable { address: String, why: String },
    #[error("the database refuses this host: {why}")]
    Refused { why: String },
    #[error(
        "the database was written by a newer version: its schema is {found}, this one knows schemas up to {known}"
    )]
    Newer { found: i32, known: i32 },
    #[error("the database cannot be brought to schema {to}: {why}")]
    Migration { to: i32, why: String },
    #[error("the key cannot be used: {why}")]
    Key { why: String },
    #[error("the database was sealed with a key that is not here")]
    KeyMissing,
    #[error("the key is not the one that the database was sealed with")]
    WrongKey,
}

impl ConnectError {
    /// What the operator can do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Address { .. } => {
                "Write it as postgres://user:password@host:5432/database?sslmode=verify-full, in CALLBOARD_DATABASE_URL."
            }
            Self::Unreachable { .. } => "Start the database, or check host, port and firewall.",
            Self::Refused { .. } => {
                "Check user, password, the name of the database and what the user may do in it."
            }
            Self::Newer { .. } => {
                "Nothing was changed. Start the newer version, which the other hosts have."
            }
            Self::Migration { .. } => {
                "The migration was undone. Let this user create tables in its schema, or report this."
            }
            Self::Key { .. } => {
                "Give 64 hexadecimal digits in CALLBOARD_SEAL_KEY, or a host.key in the data folder that this user may read."
            }
            Self::KeyMissing | Self::WrongKey => {
                "Give the key of the hosts that use this database: copy their host.key, or set CALLBOARD_SEAL_KEY."
            }
        }
    }

    pub(super) fn of(error: &tokio_postgres::Error) -> Self {
        let why = error.as_db_error().map_or_else(|| reason(error), |it| it.message().to_owned());
        Self::Refused { why }
    }
}

/// The innermost reason, which names what failed.
pub(super) fn reason(error: &tokio_postgres::Error) -> String {
    let mut innermost: &dyn std::error::Error = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

/// Where a database is, and how it is spoken to.
#[derive(Clone)]
pub(super) struct Address {
    config: Config,
    tls: MakeRustlsConnect,
    tasks: TaskTracker,
    /// Whether a pooler gives every transaction another connection.
    pub(super) is_pooled: bool,
}

impl Address {
    /// `sslmode` is `disable`, or one of those that verify the server: `verify-full`, and `require` and `verify-ca`
    /// as the same.
    pub(super) fn parse(text: &str) -> Result<Self, ConnectError> {
        let unusable = |why: String| ConnectError::Address { why };
        if !text.starts_with("postgres://") && !text.starts_with("postgresql://") {
            return Err(unusable("it does not begin with postgres://".to_owned()));
        }
        let (address, query) = text.split_once('?').unwrap_or((text, ""));
        let (mut trust, mut root, mut others) = (Trust::Unused, None, Vec::new());
        let mut is_pooled = false;
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=').unwrap_or((pair, "")) {
                ("sslmode", "disable") => {}
                ("sslmode", "require" | "verify-ca" | "verify-full") => trust = Trust::System,
                ("sslmode", mode) => {
                    return Err(unusable(format!("sslmode {mode}: use disable or verify-full")));
                }
                ("pooler", "transaction") => is_pooled = true,
                ("pooler", mode) => {
                    return Err(unusable(format!(
                        "pooler {mode}: use transaction, or leave it out for one that keeps sessions"
                    )));
                }
                ("sslrootcert", path) => root = Some(path.replace("%2F", "/")),
                _ => others.push(pair),
            }
        }
        if let (Trust::System, Some(path)) = (&trust, root) {
            trust = Trust::File(path);
        }
        let address = if others.is_empty() {
            address.to_owned()
        } else {
            format!("{address}?{}", others.join("&"))
        };
        // What is wrong is named without the address, which may hold a password.
        let mut config = Config::from_str(&address).map_err(|error| unusable(reason(&error)))?;
        config.ssl_mode(if trust == Trust::Unused { SslMode::Disable } else { SslMode::Require });
        config.connect_timeout(WAIT).keepalives_idle(SILENCE).tcp_user_timeout(SILENCE);
        if config.get_application_name().is_none() {
            config.application_name("callboard");
        }
        let tls = tls::connector(&trust).map_err(unusable)?;
        Ok(Self { config, tls, tasks: TaskTracker::new(), is_pooled })
    }

    /// Host, port and name, without user and password.
    pub(super) fn shown(&self) -> String {
        let mut ports = self.config.get_ports().iter().copied().cycle();
        let hosts = self.config.get_hosts().iter().map(|host| {
            let port = ports.next().unwrap_or(5432);
            match host {
                Host::Tcp(name) => format!("{name}:{port}"),
                #[cfg(unix)]
                Host::Unix(path) => format!("{}:{port}", path.display()),
            }
        });
        let hosts = hosts.collect::<Vec<_>>().join(",");
        format!("{hosts}/{}", self.config.get_dbname().unwrap_or_default())
    }

    pub(super) async fn connect(&self) -> Result<Client, tokio_postgres::Error> {
        let (client, connection) = self.config.connect(self.tls.clone()).await?;
        // It ends with the client; what went wrong is the answer of its last statement.
        self.tasks.spawn(async move { drop(connection.await) });
        Ok(client)
    }

    /// A connection together with the notifications that come over it. Those that nobody takes are given up: a hint that
    /// is lost costs a moment, one that is kept for ever costs memory.
    pub(super) async fn listen(
        &self,
        unread: usize,
    ) -> Result<(Client, mpsc::Receiver<String>), tokio_postgres::Error> {
        let (client, mut connection) = self.config.connect(self.tls.clone()).await?;
        let (sender, notifications) = mpsc::channel(unread);
        self.tasks.spawn(async move {
            let next = |cx: &mut Context<'_>| connection.poll_message(cx);
            let mut messages = std::pin::pin!(stream::poll_fn(next));
            while let Some(Ok(message)) = messages.next().await {
                if let AsyncMessage::Notification(said) = message {
                    let _given_up = sender.try_send(said.payload().to_owned());
                }
            }
        });
        Ok((client, notifications))
    }

    /// Without waiting for a database that comes late.
    pub(super) async fn connect_once(&self) -> Result<Client, ConnectError> {
        self.connect().await.map_err(|error| {
            if is_late(&error) {
                let why = reason(&error);
                return ConnectError::Unreachable { address: self.shown(), why };
            }
            ConnectError::of(&error)
        })
    }

    /// Waits for a database that comes late, with a line for each try.
    async fn connect_patiently(&self) -> Result<Client, ConnectError> {
        let mut too_late = std::pin::pin!(tokio::time::sleep(LATE));
        loop {
            // A network that swallows everything takes the connection and never answers on it.
            let why = match tokio::time::timeout(WAIT, self.connect()).await {
                Ok(Ok(client)) => return Ok(client),
                Ok(Err(error)) if !is_late(&error) => return Err(ConnectError::of(&error)),
                Ok(Err(error)) => reason(&error),
                Err(_) => "no answer in time".to_owned(),
            };
            let address = self.shown();
            tracing::warn!(database = address, why, "the database is not there yet; trying again");
            // Losing either branch is fine: the next try asks anew.
            tokio::select! {
                () = &mut too_late => return Err(ConnectError::Unreachable { address, why }),
                () = tokio::time::sleep(BETWEEN_TRIES) => {}
            }
        }
    }

    fn pool(&self, size: usize, statements: &Statements) -> Result<Connections, ConnectError> {
        let config = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = Manager::from_config(self.config.clone(), self.tls.clone(), config);
        let pool = Pool::builder(manager).max_size(size).runtime(Runtime::Tokio1);
        let mut pool = pool.wait_timeout(Some(WAIT)).create_timeout(Some(WAIT));
        if matches!(statements, Statements::Named) {
            pool = pool.post_create(Hook::async_fn(|client: &mut ClientWrapper, _| {
                Box::pin(
                    async move { client.batch_execute(PLANS).await.map_err(HookError::Backend) },
                )
            }));
        }
        // The last one given back is the next: its statements are prepared.
        let pool = pool.queue_mode(QueueMode::Lifo).build();
        let pool = pool.map_err(|error| ConnectError::Address { why: error.to_string() })?;
        Ok(Connections { pool, statements: statements.clone() })
    }
}

/// Whether the database may answer in a while: nobody listens there yet, or it is starting up.
pub(super) fn is_late(error: &tokio_postgres::Error) -> bool {
    match error.code() {
        Some(code) => *code == SqlState::CANNOT_CONNECT_NOW,
        None => {
            let source = std::error::Error::source(error);
            // A certificate that does not fit will not fit later.
            let is_network = source
                .and_then(|source| source.downcast_ref::<io::Error>())
                .is_some_and(|error| error.kind() != io::ErrorKind::InvalidData);
            is_network || error.is_closed() || reason(error).contains("timed out")
        }
    }
}

/// Brings the schema to ours. Nobody else does as long as the first connection is there.
pub(super) async fn migrate(address: &Address) -> Result<(Client, Client), ConnectError> {
    let guard = address.connect_patiently().await?;
    let mut client = address.connect_patiently().await?;
    migrate::hold(&guard).await.map_err(|error| ConnectError::of(&error))?;
    // In its transaction: behind a pooler only that keeps a connection.
    let found = migrate::schema(&guard).await.map_err(|error| ConnectError::of(&error))?;
    migrate::run(found, &mut client, &migrate::runner()).await?;
    Ok((guard, client))
}

pub(super) async fn connect(address: &str, key: SealKey) -> Result<PostgresStore, ConnectError> {
    let address = Address::parse(address)?;
    let (guard, _client) = migrate(&address).await?;
    let seal = obtain_key(&guard, key.0).await?;
    guard.batch_execute("COMMIT").await.map_err(|error| ConnectError::of(&error))?;
    let (definitions, changes) = (Arc::<KnownDefinitions>::default(), Arc::<Changes>::default());
    let mut random = [0; 8];
    getrandom::fill(&mut random).map_err(|error| ConnectError::Key { why: error.to_string() })?;
    let hints = Arc::new(Hints::new(random, Arc::clone(&changes)));
    let statements = match address.is_pooled {
        true => Statements::Unnamed(Arc::<KnownTypes>::default()),
        false => Statements::Named,
    };
    let shared = Arc::new(Shared {
        pool: address.pool(WRITERS, &statements)?,
        definitions: Arc::clone(&definitions),
        hints: Arc::clone(&hints),
    });
    let pool = address.pool(SHARED, &statements)?;
    let clock = read_clock(&pool).await?;
    let inner = Arc::new(Inner {
        seal,
        pool,
        clock: Arc::new(clock),
        renewals: address.pool(RENEWALS, &statements)?,
        gathers: Gathers::default(),
        quiet: Quiet::default(),
        definitions,
        changes,
        hints: Arc::clone(&hints),
        generations: Reader::default(),
        slot: i16::from(random[0] % counters::SLOTS),
        tasks: address.tasks.clone(),
        closing: CancellationToken::new(),
    });
    watch::start(&inner);
    let talk = hints::talk(hints, address);
    inner.tasks.spawn(inner.closing.clone().run_until_cancelled_owned(talk));
    let creations = Lane::start(Arc::clone(&shared), &inner.tasks);
    let appends = Lane::start(shared, &inner.tasks);
    Ok(PostgresStore { inner, creations, appends, folder: None })
}

async fn read_clock(pool: &Connections) -> Result<DatabaseClock, ConnectError> {
    let unread = |error: StoreError| ConnectError::Refused { why: error.to_string() };
    let session = Session::borrow(pool).await.map_err(unread)?;
    DatabaseClock::read(&session).await.map_err(|fault| unread(fault.into()))
}

/// The key that opens what the database keeps for that. A database that keeps nothing yet takes the one that is given,
/// or a new one. Under the guard of the migration.
async fn obtain_key(client: &Client, source: Source) -> Result<Seal, ConnectError> {
    let sql = "SELECT value FROM meta WHERE name = 'key_check'";
    let check = client.query_opt(sql, &[]).await.map_err(|error| ConnectError::of(&error))?;
    let check: Option<Vec<u8>> = match check {
        Some(row) => Some(row.try_get(0).map_err(|error| ConnectError::of(&error))?),
        None => None,
    };
    let unusable = |why: io::Error| ConnectError::Key { why: why.to_string() };
    let is_new = check.is_none();
    let seal = match source {
        Source::Digits(digits) => seal::key_of(&digits).ok_or_else(|| ConnectError::Key {
            why: "it does not hold 64 hexadecimal digits".to_owned(),
        })?,
        Source::Folder(folder) => {
            let path = folder.join("host.key");
            match seal::read_key(&path).map_err(unusable)? {
                Some(seal) => seal,
                None if !is_new => return Err(ConnectError::KeyMissing),
                None => {
                    let seal = seal::create_key(&path).map_err(unusable)?;
                    seal::keep_key(&path).map_err(unusable)?;
                    tracing::warn!(key = %path.display(), "a new key was made: every other host of this database needs a copy of it");
                    seal
                }
            }
        }
    };
    match check {
        Some(check) if !seal.passes(&check) => return Err(ConnectError::WrongKey),
        Some(_) => {}
        None => {
            let check = seal.make_check().map_err(|error| unusable(io::Error::other(error)))?;
            let sql = "INSERT INTO meta (name, value) VALUES ('key_check', $1), ('created_by', $2)";
            let by = env!("CARGO_PKG_VERSION").as_bytes();
            client.execute(sql, &[&check, &by]).await.map_err(|error| ConnectError::of(&error))?;
        }
    }
    Ok(seal)
}
