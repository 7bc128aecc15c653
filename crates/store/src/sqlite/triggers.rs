//! Trigger subscriptions: their rows, and the port that they and their arrivals are reached by.

use std::sync::Arc;

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, Row, params};

use callboard_engine::{
    Arrival, DueArrivals, Kept, NewRun, Scope, Settled, SigningSecret, SigningSecrets, StoreError,
    Subscription, Triggers,
};
use callboard_protocol::{RosterId, SubscriptionState, Timestamp, TriggerSource, Workspace};

use super::SqliteStore;
use super::arrivals::{self, SealedArrival};
use super::create::{self, SealedRun};
use super::fault::Fault;
use super::rows::{execute, optional_time, scope_params, signed, unsigned};
use super::webhooks::mode;
use crate::seal::Seal;

const COLUMNS: &str = "SELECT subscription_id, tenant, workspace, test, source, workflow_id, roster_id, state, version, body,
     sealed_secret, sealed_previous, previous_until FROM trigger_subscriptions WHERE ";

/// Keeps a caller inside its scope; `scope_params` fills ?1 to ?3.
pub(super) const IN_SCOPE: &str = "tenant = ?1 AND test = ?2 AND (?3 IS NULL OR workspace = ?3)";

/// The secrets of a subscription as they go to the disk.
struct SealedSigning {
    current: Option<Vec<u8>>,
    previous: Option<Vec<u8>>,
    until: Option<Timestamp>,
}

impl SealedSigning {
    fn seal(secrets: &SigningSecrets, id: &str, seal: &Seal) -> Result<Self, StoreError> {
        let hide = |secret: &SigningSecret| {
            seal.seal(&place(id), secret.reveal()).map_err(|error| {
                StoreError::Unavailable(format!("a signing secret cannot be sealed: {error}"))
            })
        };
        let previous = secrets.previous.as_ref();
        Ok(Self {
            current: secrets.current.as_ref().map(hide).transpose()?,
            previous: previous.map(|(secret, _)| hide(secret)).transpose()?,
            until: previous.map(|(_, until)| *until),
        })
    }
}

/// Where a signing secret stands, for its seal.
fn place(id: &str) -> String {
    format!("trigger_subscriptions/{id}/secret")
}

#[async_trait]
impl Triggers for SqliteStore {
    async fn add_subscription(
        &self,
        subscription: Subscription,
        secrets: SigningSecrets,
    ) -> Result<(), StoreError> {
        let sealed = SealedSigning::seal(&secrets, &subscription.id, &self.seal)?;
        self.writer.write(move |db| insert(db, &subscription, &sealed)).await
    }

    async fn subscriptions(&self, scope: &Scope) -> Result<Vec<Subscription>, StoreError> {
        let (scope, seal) = (scope.clone(), Arc::clone(&self.seal));
        self.readers.read(move |db| list(db, &seal, &scope)).await
    }

    async fn subscription(
        &self,
        scope: &Scope,
        id: &str,
    ) -> Result<Option<Subscription>, StoreError> {
        let (scope, id, seal) = (scope.clone(), id.to_owned(), Arc::clone(&self.seal));
        let found = self.readers.read(move |db| open(db, &seal, &id)).await?;
        Ok(found.map(|(known, _)| known).filter(|known| scope.includes(&known.place)))
    }

    async fn open_subscription(
        &self,
        id: &str,
    ) -> Result<Option<(Subscription, SigningSecrets)>, StoreError> {
        let since = match self.subscriptions.find(&id.to_owned()) {
            Ok(known) => return Ok(Some(known)),
            Err(since) => since,
        };
        let (name, seal) = (id.to_owned(), Arc::clone(&self.seal));
        let read = self.readers.read(move |db| open(db, &seal, &name)).await?;
        if let Some(read) = &read {
            self.subscriptions.keep(since, id.to_owned(), read.clone());
        }
        Ok(read)
    }

    async fn change_subscription(
        &self,
        subscription: Subscription,
        expected: u64,
        secrets: Option<SigningSecrets>,
        telling: Option<NewRun>,
    ) -> Result<(), StoreError> {
        let secrets = secrets
            .map(|secrets| SealedSigning::seal(&secrets, &subscription.id, &self.seal))
            .transpose()?;
        let changed = self.subscription_changed(&subscription.id);
        let Some(run) = telling else {
            let write = move |db: &Connection, (): &()| {
                change(db, &subscription, expected, secrets.as_ref())
            };
            return self.writer.write_then((), write, move |(), ()| changed()).await;
        };
        let run = SealedRun::seal(run, &self.seal)?;
        let write = move |db: &Connection, run: &SealedRun| {
            change(db, &subscription, expected, secrets.as_ref())?;
            create::create(db, run)
        };
        let announce = self.announcing();
        let then = move |run, ()| {
            changed();
            announce(run, ());
        };
        self.writer.write_then(run, write, then).await
    }

    async fn remove_subscription(&self, scope: &Scope, id: &str) -> Result<bool, StoreError> {
        let (scope, name, changed) = (scope.clone(), id.to_owned(), self.subscription_changed(id));
        let write = move |db: &Connection, (): &()| remove(db, &scope, &name);
        let then = move |(), was_there| {
            changed();
            was_there
        };
        self.writer.write_then((), write, then).await
    }

    async fn keep_arrival(
        &self,
        arrival: Arrival,
        run: Option<NewRun>,
    ) -> Result<Kept, StoreError> {
        let arrival = SealedArrival::seal(arrival, &self.seal)?;
        let seal = Arc::clone(&self.seal);
        let Some(run) = run else {
            return self.writer.write(move |db| arrivals::keep(db, &seal, &arrival, None)).await;
        };
        let run = SealedRun::seal(run, &self.seal)?;
        let write =
            move |db: &Connection, run: &SealedRun| arrivals::keep(db, &seal, &arrival, Some(run));
        let announce = self.announcing();
        let announce = move |run: SealedRun, kept: Kept| {
            if kept == Kept::New {
                announce(run, ());
            }
            kept
        };
        self.writer.write_then(run, write, announce).await
    }

    async fn note_refused(&self, arrival: Arrival, most: usize) -> Result<(), StoreError> {
        let arrival = SealedArrival::seal(arrival, &self.seal)?;
        self.writer.write(move |db| arrivals::note_refused(db, &arrival, most)).await
    }

    async fn due_arrivals(&self, at: Timestamp, most: usize) -> Result<DueArrivals, StoreError> {
        let seal = Arc::clone(&self.seal);
        self.readers.read(move |db| arrivals::due(db, &seal, at, most)).await
    }

    async fn settle_arrival(&self, settled: Settled, expected: u64) -> Result<(), StoreError> {
        let Settled { arrival, run, buries } = settled;
        let changed = self.subscription_changed(&arrival.subscription);
        let Some(run) = run else {
            let write =
                move |db: &Connection, (): &()| arrivals::settle(db, &arrival, expected, buries);
            return self.writer.write_then((), write, move |(), ()| changed()).await;
        };
        let run = SealedRun::seal(run, &self.seal)?;
        let write = move |db: &Connection, run: &SealedRun| {
            arrivals::settle(db, &arrival, expected, buries)?;
            create::create(db, run)
        };
        let announce = self.announcing();
        let then = move |run, ()| {
            changed();
            announce(run, ());
        };
        self.writer.write_then(run, write, then).await
    }

    async fn arrival(
        &self,
        scope: &Scope,
        subscription: &str,
        id: &str,
    ) -> Result<Option<Arrival>, StoreError> {
        let (scope, seal) = (scope.clone(), Arc::clone(&self.seal));
        let (subscription, id) = (subscription.to_owned(), id.to_owned());
        self.readers.read(move |db| arrivals::find(db, &seal, &scope, &subscription, &id)).await
    }

    async fn dead_arrivals(
        &self,
        scope: &Scope,
        subscription: &str,
        since: Timestamp,
        after: Option<(Timestamp, String)>,
        limit: usize,
    ) -> Result<Vec<Arrival>, StoreError> {
        let (scope, seal) = (scope.clone(), Arc::clone(&self.seal));
        let subscription = subscription.to_owned();
        let read = move |db: &Connection| {
            arrivals::dead(db, &seal, &scope, &subscription, since, after.as_ref(), limit)
        };
        self.readers.read(read).await
    }

    async fn forget_arrivals(
        &self,
        delivered_before: Timestamp,
        dead_before: Timestamp,
    ) -> Result<(), StoreError> {
        // An idle host must not write.
        let is_due = self
            .readers
            .read(move |db| arrivals::has_old(db, delivered_before, dead_before))
            .await?;
        if !is_due {
            return Ok(());
        }
        self.writer.write(move |db| arrivals::forget(db, delivered_before, dead_before)).await
    }
}

impl SqliteStore {
    /// To follow a change of a subscription.
    fn subscription_changed(&self, id: &str) -> impl FnOnce() + Send + 'static {
        let (known, id) = (Arc::clone(&self.subscriptions), id.to_owned());
        move || known.forget(|known| *known == id)
    }

    /// Lets those who wait for a new run know of it.
    pub(super) fn announcing(&self) -> impl FnOnce(SealedRun, ()) + Send + 'static {
        let (changes, recent) = (Arc::clone(&self.changes), Arc::clone(&self.recent));
        move |run, ()| {
            recent.begin(&run.birth, run.head.status);
            changes.announce(&run.birth.run_id, 0);
        }
    }
}

fn insert(
    db: &Connection,
    subscription: &Subscription,
    secrets: &SealedSigning,
) -> Result<(), Fault> {
    match insert_unless_there(db, subscription, secrets.current.as_deref())? {
        0 => Err(moved(&subscription.id)),
        _ => Ok(()),
    }
}

/// Sees to it that a subscription without a secret is there.
pub(super) fn ensure(db: &Connection, subscription: &Subscription) -> Result<(), Fault> {
    insert_unless_there(db, subscription, None).map(drop)
}

fn insert_unless_there(
    db: &Connection,
    subscription: &Subscription,
    sealed_secret: Option<&[u8]>,
) -> Result<usize, Fault> {
    let (tenant, test, workspace) = scope_params(&subscription.place);
    Ok(execute(
        db,
        "INSERT INTO trigger_subscriptions (subscription_id, tenant, workspace, test, source, workflow_id, roster_id,
             state, version, body, sealed_secret)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11) ON CONFLICT (subscription_id) DO NOTHING",
        params![
            subscription.id,
            tenant,
            workspace,
            test,
            subscription.source.as_str(),
            subscription.workflow.as_str(),
            subscription.roster_id.as_ref().map(|member| member.as_str()),
            subscription.state.as_str(),
            signed(subscription.version),
            body(subscription)?,
            sealed_secret,
        ],
    )?)
}

fn change(
    db: &Connection,
    subscription: &Subscription,
    expected: u64,
    secrets: Option<&SealedSigning>,
) -> Result<(), Fault> {
    let changed = execute(
        db,
        "UPDATE trigger_subscriptions SET state = ?3, version = ?4, body = ?5
         WHERE subscription_id = ?1 AND version = ?2",
        params![
            subscription.id,
            signed(expected),
            subscription.state.as_str(),
            signed(subscription.version),
            body(subscription)?,
        ],
    )?;
    if changed == 0 {
        return Err(moved(&subscription.id));
    }
    if let Some(secrets) = secrets {
        execute(
            db,
            "UPDATE trigger_subscriptions SET sealed_secret = ?2, sealed_previous = ?3, previous_until = ?4
             WHERE subscription_id = ?1",
            params![
                subscription.id,
                secrets.current,
                secrets.previous,
                secrets.until.map(Timestamp::as_millis),
            ],
        )?;
    }
    Ok(())
}

fn remove(db: &Connection, scope: &Scope, id: &str) -> Result<bool, Fault> {
    let (tenant, test, workspace) = scope_params(scope);
    let sql = ["DELETE FROM trigger_subscriptions WHERE ", IN_SCOPE, " AND subscription_id = ?4"]
        .concat();
    Ok(execute(db, &sql, params![tenant, test, workspace, id])? > 0)
}

fn list(db: &Connection, seal: &Seal, scope: &Scope) -> Result<Vec<Subscription>, Fault> {
    let (tenant, test, workspace) = scope_params(scope);
    let mut select = db.prepare_cached(&[COLUMNS, IN_SCOPE, " ORDER BY id"].concat())?;
    let mut rows = select.query(params![tenant, test, workspace])?;
    let mut subscriptions = Vec::new();
    while let Some(row) = rows.next()? {
        subscriptions.push(subscription(row, seal)?.0);
    }
    Ok(subscriptions)
}

fn open(
    db: &Connection,
    seal: &Seal,
    id: &str,
) -> Result<Option<(Subscription, SigningSecrets)>, Fault> {
    let mut select = db.prepare_cached(&[COLUMNS, "subscription_id = ?1"].concat())?;
    let mut rows = select.query([id])?;
    rows.next()?.map(|row| subscription(row, seal)).transpose()
}

fn subscription(row: &Row<'_>, seal: &Seal) -> Result<(Subscription, SigningSecrets), Fault> {
    let id: String = row.get(0)?;
    let unreadable =
        |why: &dyn std::fmt::Display| Fault::unreadable(format!("subscription {id}"), why);
    let text = |column| row.get::<_, String>(column);
    let open = |column| -> Result<Option<SigningSecret>, Fault> {
        let sealed: Option<Vec<u8>> = row.get(column)?;
        let opened = sealed.map(|sealed| seal.open(&place(&id), &sealed)).transpose();
        Ok(opened.map_err(|error| unreadable(&error))?.map(SigningSecret::new))
    };
    let source = TriggerSource::ALL
        .into_iter()
        .find(|source| text(4).is_ok_and(|name| name == source.as_str()));
    let state = SubscriptionState::from_name(&text(7)?);
    let secrets =
        SigningSecrets { current: open(10)?, previous: open(11)?.zip(optional_time(row, 12)?) };
    let subscription = Subscription {
        place: Scope {
            tenant: text(1)?.into(),
            workspace: row.get::<_, Option<String>>(2)?.map(Workspace::from),
            mode: mode(row, 3)?,
        },
        source: source.ok_or_else(|| unreadable(&"its source is unknown"))?,
        workflow: text(5)?.into(),
        roster_id: row.get::<_, Option<String>>(6)?.map(RosterId::from),
        state: state.ok_or_else(|| unreadable(&"its state is unknown"))?,
        version: unsigned(row, 8)?,
        body: serde_json::from_str(&text(9)?).map_err(|error| unreadable(&error))?,
        id,
    };
    Ok((subscription, secrets))
}

fn body(subscription: &Subscription) -> Result<String, Fault> {
    serde_json::to_string(&subscription.body)
        .map_err(|error| Fault::unreadable("a subscription", error))
}

/// The key of a subscription in the other table, with its state.
pub(super) fn key_of(db: &Connection, id: &str) -> Result<Option<(i64, SubscriptionState)>, Fault> {
    let found: Option<(i64, String)> = db
        .prepare_cached("SELECT id, state FROM trigger_subscriptions WHERE subscription_id = ?1")?
        .query_row([id], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let read = |(key, name): (i64, String)| {
        let state = SubscriptionState::from_name(&name);
        state.map(|state| (key, state)).ok_or_else(|| Fault::unreadable("a subscription", name))
    };
    found.map(read).transpose()
}

pub(super) fn moved(id: &str) -> Fault {
    StoreError::Moved { what: id.to_owned() }.into()
}
