//! Values that workflows keep under a name from run to run, as `core.storage.kv-*` asks: in the place of their run's owner,
//! each change made once, whatever crashes.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use callboard_core::{RetryClass, is_too_deep};
use callboard_protocol::{Failure, Timestamp};

use crate::activity::Call;
use crate::effects::EffectId;
use crate::once::CallFailure;
use crate::records::{Expected, Key, Kind, Record, RecordChange, RecordQuery, Within, retry_moved};
use crate::store::{Batch, Scope, Store, StoreError};

/// How many values a workspace holds: what needs more needs a database.
const MOST_VALUES: u64 = 100_000;
/// A value is read whole with every use of it.
const LARGEST_VALUE: usize = 256 << 10;
const LONGEST_NAME: usize = 512;
/// How many of those that have expired go with a change.
const SWEPT_AT_ONCE: usize = 8;
/// How many keys one list has at most.
pub const MOST_KEYS: usize = 1_000;

/// Where a value stands.
#[derive(Debug, Clone, Copy)]
pub struct ValueName<'a> {
    pub namespace: &'a str,
    pub key: &'a str,
}

/// A value as it is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredValue {
    pub value: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

/// What is to become of a value.
#[derive(Debug, Clone, PartialEq)]
pub enum ValueChange {
    Set(StoredValue),
    Delete,
    /// Sets it if it is as expected; null stands for none.
    Swap {
        expected: Value,
        value: Value,
    },
    Add(i64),
}

/// How many values stand in a place: one that comes or goes moves it, so that two never take the last room.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
struct ValueCount {
    values: u64,
}

/// What a change comes to, and what stands there afterwards.
struct Decided {
    outcome: Value,
    next: Next,
}

enum Next {
    Same,
    Gone,
    Value(StoredValue),
}

impl Call {
    /// A value that has not expired.
    pub async fn stored_value(
        &self,
        name: ValueName<'_>,
    ) -> Result<Option<StoredValue>, CallFailure> {
        check_name(name)?;
        let found = self.store.get(Kind::StoredValue, &key_of(&self.scope(), name)).await;
        let found = found.and_then(|found| found.map(|found| found.read()).transpose());
        Ok(found.map_err(|error| unreached(&error))?.filter(|value| stands(value, self.now())))
    }

    /// The keys of a namespace that begin so, in their order, after another; and whether there are more.
    pub async fn stored_keys(
        &self,
        namespace: &str,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<(Vec<String>, bool), CallFailure> {
        check_name(ValueName { namespace, key: prefix })?;
        let (place, limit) = (self.scope(), limit.clamp(1, MOST_KEYS));
        let mut keys = Vec::new();
        let mut last = after.map(|key| key_of(&place, ValueName { namespace, key }));
        loop {
            let within = Within::Place(place.clone());
            let query = RecordQuery::all(Kind::StoredValue, within)
                .below(Key::in_place(&place, [namespace]))
                .after(last.take())
                .limit(MOST_KEYS);
            let page = self.store.scan(&query).await.map_err(|error| unreached(&error))?;
            let is_last = page.len() < MOST_KEYS;
            for record in &page {
                let key = record.key.last_part().filter(|key| key.starts_with(prefix));
                let is_standing = record.read().is_ok_and(|value| stands(&value, self.now()));
                let Some(key) = key.filter(|_| is_standing) else { continue };
                if keys.len() == limit {
                    return Ok((keys, true));
                }
                keys.push(key);
            }
            last = page.last().map(|record| record.key.clone());
            if is_last {
                return Ok((keys, false));
            }
        }
    }

    /// Makes a change, unless the same call has made it before; what it came to is the same then.
    pub async fn change_value(
        &self,
        effect: &EffectId,
        name: ValueName<'_>,
        change: &ValueChange,
    ) -> Result<Value, CallFailure> {
        check_name(name)?;
        if name.key.is_empty() {
            return Err(invalid("the key of a value is not empty"));
        }
        self.sweep_values().await;
        let made = retry_moved(|| self.attempt_change(effect, name, change)).await;
        made.map_err(|error| unreached(&error))?.map_err(final_failure)
    }

    async fn attempt_change(
        &self,
        effect: &EffectId,
        name: ValueName<'_>,
        change: &ValueChange,
    ) -> Result<Result<Value, Failure>, StoreError> {
        let place = self.scope();
        let mark = Key::of([self.run.as_str(), effect.as_str()]);
        if let Some(made) = self.store.get(Kind::StoredValueWrite, &mark).await? {
            return made.read().map(Ok);
        }
        let key = key_of(&place, name);
        let record = self.store.get(Kind::StoredValue, &key).await?;
        let old: Option<StoredValue> = record.as_ref().map(Record::read).transpose()?;
        let old = old.filter(|value| stands(value, self.now()));
        let Decided { outcome, next } = match change.decide(old.as_ref()) {
            Ok(decided) => decided,
            Err(failure) => return Ok(Err(failure)),
        };
        let told = RecordChange::put(Kind::StoredValueWrite, mark, place.clone(), &outcome)?;
        let mut changes = vec![told.expecting(Expected::Absent).of_run(&self.run)];
        let more = match next {
            Next::Same => 0,
            Next::Gone => {
                let gone = RecordChange::delete(Kind::StoredValue, key);
                changes.push(gone.expecting(Expected::of(record.as_ref())));
                -1
            }
            Next::Value(value) => {
                let is_new = record.is_none();
                let expires_at = value.expires_at;
                let put = RecordChange::put(Kind::StoredValue, key, place.clone(), &value)?;
                changes.push(put.expecting(Expected::of(record.as_ref())).due(expires_at));
                i64::from(is_new)
            }
        };
        if more != 0 {
            match count_change(&self.store, &place, more).await? {
                Some(counted) => changes.push(counted),
                None => return Ok(Err(full())),
            }
        }
        let claims = vec![self.claim.clone()];
        self.store.commit(Batch { claims, ..Batch::of_records(changes) }).await?;
        Ok(Ok(outcome))
    }

    /// Removes a few values that have expired, whoever's they were. What fails here is done with the next change.
    async fn sweep_values(&self) {
        let due = self.store.due(Kind::StoredValue, self.now(), SWEPT_AT_ONCE).await;
        for record in due.map(|due| due.records).unwrap_or_default() {
            let gone = RecordChange::delete(Kind::StoredValue, record.key.clone());
            let gone = gone.expecting(Expected::Version(record.version));
            if let Ok(Some(counted)) = count_change(&self.store, &record.place, -1).await {
                let _later = self.store.commit(Batch::of_records([gone, counted])).await;
            }
        }
    }
}

impl ValueChange {
    fn decide(&self, old: Option<&StoredValue>) -> Result<Decided, Failure> {
        let next = |value: &Value, expires_at| {
            let fits = !is_too_deep(value) && value.to_string().len() <= LARGEST_VALUE;
            let value = StoredValue { value: value.clone(), expires_at };
            fits.then_some(Next::Value(value)).ok_or_else(|| {
                let message = format!("a value has at most {LARGEST_VALUE} bytes of JSON");
                Failure::new("value_too_large", message)
            })
        };
        let kept = old.and_then(|old| old.expires_at);
        Ok(match self {
            Self::Set(StoredValue { value, expires_at }) => Decided {
                outcome: json!({ "ok": true, "replaced": old.is_some() }),
                next: next(value, *expires_at)?,
            },
            Self::Delete => Decided {
                outcome: json!({ "deleted": old.is_some() }),
                next: if old.is_some() { Next::Gone } else { Next::Same },
            },
            Self::Swap { expected, value } => {
                let actual = old.map_or(&Value::Null, |old| &old.value);
                match actual == expected {
                    true => Decided {
                        outcome: json!({ "swapped": true, "actual": value }),
                        next: next(value, kept)?,
                    },
                    false => Decided {
                        outcome: json!({ "swapped": false, "actual": actual }),
                        next: Next::Same,
                    },
                }
            }
            Self::Add(delta) => {
                let previous = match old {
                    None => Some(0),
                    Some(old) => old.value.as_i64(),
                };
                let sum = previous.and_then(|previous| previous.checked_add(*delta));
                let sum = sum.ok_or_else(|| {
                    Failure::new(
                        "not_a_counter",
                        "what stands there is no whole number that this can be added to",
                    )
                })?;
                Decided {
                    outcome: json!({ "value": sum, "previous": previous }),
                    next: next(&sum.into(), kept)?,
                }
            }
        })
    }
}

/// None where there is no room for more.
async fn count_change(
    store: &Arc<dyn Store>,
    place: &Scope,
    more: i64,
) -> Result<Option<RecordChange>, StoreError> {
    let key = Key::in_place(place, []);
    let stored = store.get(Kind::StoredValueCount, &key).await?;
    let count: ValueCount = stored.as_ref().map(Record::read).transpose()?.unwrap_or_default();
    let values = count.values.saturating_add_signed(more);
    if more > 0 && values > MOST_VALUES {
        return Ok(None);
    }
    let expected = Expected::of(stored.as_ref());
    let count = ValueCount { values };
    let put = RecordChange::put(Kind::StoredValueCount, key, place.clone(), &count)?;
    Ok(Some(put.expecting(expected)))
}

fn key_of(place: &Scope, name: ValueName<'_>) -> Key {
    Key::in_place(place, [name.namespace, name.key])
}

fn stands(value: &StoredValue, at: Timestamp) -> bool {
    value.expires_at.is_none_or(|expires_at| expires_at > at)
}

fn check_name(name: ValueName<'_>) -> Result<(), CallFailure> {
    match name.namespace.len() > LONGEST_NAME || name.key.len() > LONGEST_NAME {
        true => Err(invalid(&format!("a namespace or key has at most {LONGEST_NAME} bytes"))),
        false => Ok(()),
    }
}

fn full() -> Failure {
    Failure::new("storage_full", format!("this workspace holds {MOST_VALUES} values, and no more"))
}

fn final_failure(failure: Failure) -> CallFailure {
    CallFailure { failure, class: RetryClass::Final }
}

fn invalid(why: &str) -> CallFailure {
    final_failure(Failure::new("validation_error", why))
}

/// A store that is away, or a claim that was lost: the attempt is made again, or no longer counts.
fn unreached(error: &StoreError) -> CallFailure {
    tracing::warn!(%error, "stored values are out of reach");
    let failure = Failure::new("service_unavailable", "the stored values cannot be reached now");
    CallFailure { failure, class: RetryClass::Retryable }
}
