//! A shared database as one side of a copy: read as one moment while hosts serve, written in one transaction.

use serde::Deserialize;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row as Found};

use callboard_core::is_budget_question;
use callboard_engine::{USAGE, words};
use callboard_protocol::{ProviderUsage, hex};

use super::append::Waited;
use super::connect::Address;
use super::migrate;
use super::text::{given, stored};
use crate::copy::{
    Cell, Chunk, CopiedTable, CopyError, Marks, ROWS_PER_CHUNK, Row, TABLES, Table, columns,
};
use crate::seal::Seal;

const READ: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

/// What hosts keep in the tables, written by nobody but them. Whoever has any of it is not empty.
const IS_EMPTY: &str = "SELECT NOT EXISTS (SELECT 1 FROM meta WHERE name = 'key_check')
     AND NOT EXISTS (SELECT 1 FROM runs) AND NOT EXISTS (SELECT 1 FROM records)
     AND NOT EXISTS (SELECT 1 FROM memory) AND NOT EXISTS (SELECT 1 FROM outcomes)";

/// What is derived from the rows, once all are there.
const SETTLE: &str = "
    UPDATE runs SET ended_at = updated_at, ended_as = status WHERE status IN ('completed', 'failed', 'cancelled');
    UPDATE snapshots SET child_run = NULL, child_node = NULL, retrying = NULL FROM runs
        WHERE runs.id = snapshots.run AND runs.status NOT IN ('running', 'cancelling');
    UPDATE log_clock SET position = coalesce((SELECT max(last) FROM log_feed), 0), server = '';
    SELECT setval('run_numbers', greatest((SELECT max(id) FROM runs), 1));
    SELECT setval(pg_get_serial_sequence('definitions', 'id'), greatest((SELECT max(id) FROM definitions), 1));";

/// One database. Both ends hold a transaction: that of a target becomes visible when all of it was compared.
pub(crate) struct PostgresCopy {
    client: Client,
}

impl PostgresCopy {
    pub(crate) async fn source(address: &str) -> Result<Self, CopyError> {
        let side = Self::connect(address).await?;
        side.expect_schema().await?;
        side.client.batch_execute(READ).await.map_err(broken)?;
        Ok(side)
    }

    /// An empty database gets its tables; one that has anything else is left alone.
    pub(crate) async fn target(address: &str) -> Result<Self, CopyError> {
        let mut side = Self::connect(address).await?;
        let schema = migrate::schema(&side.client).await.map_err(broken)?;
        if schema == 0 {
            let runner = migrate::runner();
            migrate::run(schema, &mut side.client, &runner).await.map_err(CopyError::broken)?;
        }
        side.expect_schema().await?;
        side.client.batch_execute("BEGIN").await.map_err(broken)?;
        let is_empty: bool = side
            .client
            .query_one(IS_EMPTY, &[])
            .await
            .and_then(|row| row.try_get(0))
            .map_err(broken)?;
        if !is_empty {
            return Err(CopyError::refused(
                "the database to copy to is not empty",
                "Nothing was changed. Name a database that no host has used.",
            ));
        }
        Ok(side)
    }

    async fn connect(address: &str) -> Result<Self, CopyError> {
        let refused =
            |error: super::ConnectError| CopyError::refused(error.to_string(), error.hint());
        let address = Address::parse(address).map_err(refused)?;
        Ok(Self { client: address.connect_once().await.map_err(refused)? })
    }

    async fn expect_schema(&self) -> Result<(), CopyError> {
        let found = migrate::schema(&self.client).await.map_err(broken)?;
        let known = migrate::newest(&migrate::runner());
        if found == known {
            return Ok(());
        }
        let what = format!("the shared database has the schema {found}, this version's is {known}");
        Err(CopyError::refused(what, "Bring it there first: callboard db migrate."))
    }

    /// A folder has one journal of memory for all tenants, and a key beside it.
    pub(crate) async fn check_for_folder(&self, seal: &Seal) -> Result<(), CopyError> {
        let sql = "SELECT value FROM meta WHERE name = 'key_check'";
        let check = self.client.query_opt(sql, &[]).await.map_err(broken)?;
        let check: Option<Vec<u8>> = check.map(|row| row.try_get(0)).transpose().map_err(broken)?;
        if !check.is_some_and(|check| seal.passes(&check)) {
            return Err(CopyError::refused(
                "the key is not the one that the database was sealed with",
                "Set CALLBOARD_SEAL_KEY to the key of its hosts.",
            ));
        }
        let sql = "SELECT count(*) > count(DISTINCT position) FROM memory";
        let collides: bool =
            self.client.query_one(sql, &[]).await.and_then(|row| row.try_get(0)).map_err(broken)?;
        if collides {
            return Err(CopyError::refused(
                "several tenants have entries of memory at the same positions, which a folder cannot hold",
                "Copy it to another PostgreSQL, or back it up with the database's own tools.",
            ));
        }
        Ok(())
    }

    pub(crate) async fn read(
        &self,
        into: mpsc::Sender<Chunk>,
    ) -> Result<Vec<CopiedTable>, CopyError> {
        let mut counted = Vec::new();
        for (place, table) in TABLES.iter().enumerate() {
            let mut copied = CopiedTable::of(table.name);
            let declare =
                format!("DECLARE copied NO SCROLL CURSOR FOR {}", table.select(table.postgres));
            self.client.batch_execute(&declare).await.map_err(broken)?;
            loop {
                let fetch = format!("FETCH {ROWS_PER_CHUNK} FROM copied");
                let rows = self.client.query(&fetch, &[]).await.map_err(broken)?;
                if rows.is_empty() {
                    break;
                }
                let rows: Result<Vec<Row>, _> = rows.iter().map(|row| cells(table, row)).collect();
                let rows = rows.map_err(broken)?;
                copied.count(&rows);
                let sent = into.send((place, rows)).await;
                sent.map_err(|_| CopyError::broken("nobody takes it"))?;
            }
            self.client.batch_execute("CLOSE copied").await.map_err(broken)?;
            counted.push(copied);
        }
        Ok(counted)
    }

    pub(crate) async fn write(&self, mut from: mpsc::Receiver<Chunk>) -> Result<(), CopyError> {
        while let Some((place, rows)) = from.recv().await {
            let table = &TABLES[place];
            self.insert(table, &rows).await.map_err(broken)?;
            match table.name {
                "births" => self.name_parents(&rows).await.map_err(broken)?,
                "events" => self.place(&rows).await.map_err(broken)?,
                _ => {}
            }
        }
        Ok(())
    }

    async fn insert(&self, table: &Table, rows: &[Row]) -> Result<(), tokio_postgres::Error> {
        let mut names: Vec<&str> = Vec::new();
        let (mut arrays, mut taken) = (Vec::new(), Vec::new());
        let mut values: Vec<Box<dyn ToSql + Sync + Send>> = Vec::new();
        for (place, column) in columns(table).enumerate() {
            // The place in all logs is given apart.
            if (table.name, column.name) == ("events", "position") {
                continue;
            }
            let is_due = (table.name, column.name) == ("runs", "due_at");
            names.push(if is_due { "wake_at" } else { column.name });
            values.push(array(column.array(), rows.iter().map(|row| &row[place])));
            arrays.push(format!("${}::{}", values.len(), column.array()));
            taken.push(column.taken(values.len()));
        }
        for derived in derived(table.name) {
            names.push(derived.name);
            let made: Vec<Cell> = rows.iter().map(|row| (derived.make)(row)).collect();
            values.push(array(derived.array, made.iter()));
            arrays.push(format!("${}::{}", values.len(), derived.array));
            taken.push(derived.taken.replace("{}", &format!("c{}", values.len())));
        }
        let given: Vec<String> = (1..=values.len()).map(|place| format!("c{place}")).collect();
        let sql = format!(
            "INSERT INTO {} ({}) SELECT {} FROM unnest({}) AS given ({})",
            table.name,
            names.join(", "),
            taken.join(", "),
            arrays.join(", "),
            given.join(", ")
        );
        let values: Vec<&(dyn ToSql + Sync)> = values.iter().map(|it| &**it as _).collect();
        self.client.execute(&sql, &values).await.map(drop)
    }

    /// The run above each, as its birth record says.
    async fn name_parents(&self, births: &[Row]) -> Result<(), tokio_postgres::Error> {
        #[derive(Deserialize)]
        struct Born {
            parent: Option<Parent>,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Parent {
            run_id: String,
        }
        let (mut runs, mut parents) = (Vec::new(), Vec::new());
        for birth in births {
            let born = birth[1].text().and_then(|text| serde_json::from_str::<Born>(text).ok());
            if let (Some(run), Some(parent)) = (birth[0].number(), born.and_then(|it| it.parent)) {
                runs.push(run);
                parents.push(stored(&parent.run_id).into_owned());
            }
        }
        let sql = "UPDATE runs SET parent = given.parent
             FROM unnest($1::bigint[], $2::text[]) AS given (run, parent) WHERE runs.id = given.run";
        self.client.execute(sql, &[&runs, &parents]).await.map(drop)
    }

    /// Gives events their places again; what was appended together is one row as far as that can be seen.
    async fn place(&self, events: &[Row]) -> Result<(), tokio_postgres::Error> {
        let (mut last, mut runs, mut first) = (Vec::new(), Vec::new(), Vec::new());
        let mut count: Vec<i64> = Vec::new();
        let mut before: Option<[i64; 4]> = None;
        for event in events {
            let number = |column: usize| event[column].number().unwrap_or_default();
            let here = [number(0), number(1), number(2), number(3)];
            let follows =
                before.map(|[position, run, sequence, at]| [position + 1, run, sequence + 1, at]);
            before = Some(here);
            if let (true, Some(end), Some(many)) =
                (follows == Some(here), last.last_mut(), count.last_mut())
            {
                *end = here[0];
                *many += 1;
                continue;
            }
            last.push(here[0]);
            runs.push(here[1]);
            first.push(here[2]);
            count.push(1);
        }
        let sql = "INSERT INTO log_feed (last, run, first, count, tenant, test, workspace)
             SELECT given.last, given.run, given.first, given.count, runs.tenant, runs.test, runs.workspace
             FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[]) AS given (last, run, first, count)
             JOIN runs ON runs.id = given.run";
        self.client.execute(sql, &[&last, &runs, &first, &count]).await.map(drop)
    }

    pub(crate) async fn marks(&self) -> Result<Marks, CopyError> {
        let sql = "SELECT coalesce((SELECT max(position) FROM memory_clocks), 0),
             coalesce(pg_sequence_last_value(pg_get_serial_sequence('records', 'id')::regclass), 0)";
        let row = self.client.query_one(sql, &[]).await.map_err(broken)?;
        Ok(Marks {
            memory: row.try_get(0).map_err(broken)?,
            records: row.try_get(1).map_err(broken)?,
        })
    }

    /// Every tenant goes on behind all that any run may have seen.
    pub(crate) async fn settle(&self, marks: Marks) -> Result<(), CopyError> {
        self.client.batch_execute(SETTLE).await.map_err(broken)?;
        let clocks = "INSERT INTO memory_clocks (tenant, test, position)
             SELECT tenant, test, $1 FROM (SELECT tenant, test FROM runs UNION SELECT tenant, test FROM memory) AS known";
        self.client.execute(clocks, &[&marks.memory]).await.map_err(broken)?;
        let records =
            "SELECT setval(pg_get_serial_sequence('records', 'id'), greatest($1::bigint, 1))";
        self.client.query(records, &[&marks.records]).await.map_err(broken)?;
        Ok(())
    }

    pub(crate) async fn keep(self) -> Result<(), CopyError> {
        self.client.batch_execute("COMMIT").await.map_err(broken)
    }
}

fn broken(error: tokio_postgres::Error) -> CopyError {
    let said = error.as_db_error().map(|error| error.message().to_owned());
    CopyError::Broken(said.unwrap_or_else(|| super::connect::reason(&error)))
}

fn cells(table: &Table, row: &Found) -> Result<Row, tokio_postgres::Error> {
    let cell = |(place, column): (usize, crate::copy::Column)| {
        Ok(match column.array() {
            "bigint[]" => row.try_get::<_, Option<i64>>(place)?.map(Cell::Number),
            "double precision[]" => row.try_get::<_, Option<f64>>(place)?.map(Cell::Real),
            "text[]" => row.try_get::<_, Option<String>>(place)?.map(|it| Cell::Text(given(it))),
            _ => row.try_get::<_, Option<Vec<u8>>>(place)?.map(Cell::Bytes),
        }
        .unwrap_or(Cell::Null))
    };
    columns(table).enumerate().map(cell).collect()
}

/// One column of many rows. A cell of another type than its column's is none.
fn array<'a>(of: &str, cells: impl Iterator<Item = &'a Cell>) -> Box<dyn ToSql + Sync + Send> {
    match of {
        "bigint[]" => Box::new(cells.map(Cell::number).collect::<Vec<Option<i64>>>()),
        "double precision[]" => {
            let real = |cell: &Cell| if let Cell::Real(real) = cell { Some(*real) } else { None };
            Box::new(cells.map(real).collect::<Vec<Option<f64>>>())
        }
        "text[]" => {
            let text = |cell: &'a Cell| cell.text().map(|text| stored(text).into_owned());
            Box::new(cells.map(text).collect::<Vec<Option<String>>>())
        }
        _ => {
            let bytes = |cell: &Cell| {
                if let Cell::Bytes(bytes) = cell { Some(bytes.clone()) } else { None }
            };
            Box::new(cells.map(bytes).collect::<Vec<Option<Vec<u8>>>>())
        }
    }
}

/// A column that only PostgreSQL has, made from the others of its row.
struct Derived {
    name: &'static str,
    array: &'static str,
    taken: &'static str,
    make: fn(&Row) -> Cell,
}

const fn derived_as(
    name: &'static str,
    array: &'static str,
    taken: &'static str,
    make: fn(&Row) -> Cell,
) -> Derived {
    Derived { name, array, taken, make }
}

fn derived(table: &str) -> &'static [Derived] {
    const EVENTS: &[Derived] = &[
        derived_as("input_tokens", "bigint[]", "{}", |row| used(row, |it| signed(it.input_tokens))),
        derived_as("output_tokens", "bigint[]", "{}", |row| {
            used(row, |it| signed(it.output_tokens))
        }),
        derived_as("cost_usd", "double precision[]", "{}", |row| {
            used(row, |it| it.cost_estimate_usd.map_or(Cell::Null, Cell::Real))
        }),
    ];
    const SNAPSHOTS: &[Derived] = &[
        derived_as("child_run", "text[]", "{}", |row| waited(row, |it| it.child_run)),
        derived_as("child_node", "text[]", "{}", |row| waited(row, |it| it.child_node)),
        derived_as("retrying", "text[]", "{}", |row| waited(row, |it| it.retrying)),
    ];
    const INTERRUPTS: &[Derived] = &[derived_as("about_budget", "bigint[]", "{} <> 0", |row| {
        let data = row[7].text().and_then(|text| serde_json::from_str::<Value>(text).ok());
        Cell::Number(i64::from(data.is_some_and(|data| is_budget_question(&data))))
    })];
    const OUTCOMES: &[Derived] = &[derived_as("made_at", "bigint[]", "{}", |_| Cell::Number(0))];
    const MEMORY: &[Derived] = &[derived_as("words", "text[]", "string_to_array({}, ' ')", said)];
    const COUNTERS: &[Derived] =
        &[derived_as("slot", "bigint[]", "CAST({} AS smallint)", |_| Cell::Number(0))];
    match table {
        "events" => EVENTS,
        "snapshots" => SNAPSHOTS,
        "interrupts" => INTERRUPTS,
        "outcomes" => OUTCOMES,
        "memory" => MEMORY,
        "counters" => COUNTERS,
        _ => &[],
    }
}

fn signed(amount: u64) -> Cell {
    Cell::Number(i64::try_from(amount).unwrap_or(i64::MAX))
}

fn used(event: &Row, part: fn(ProviderUsage) -> Cell) -> Cell {
    let usage = event[7].text().filter(|_| event[4].text() == Some(USAGE));
    let usage = usage.and_then(|text| serde_json::from_str::<ProviderUsage>(text).ok());
    usage.map_or(Cell::Null, part)
}

fn waited(snapshot: &Row, part: fn(Waited) -> Option<String>) -> Cell {
    let waited = snapshot[2].text().map(Waited::in_fold);
    waited.and_then(part).map_or(Cell::Null, Cell::Text)
}

/// The words that an entry is found by, none of which has a space.
fn said(entry: &Row) -> Cell {
    let [_, Cell::Text(tenant), Cell::Number(test), Cell::Text(content), ..] = entry.as_slice()
    else {
        return Cell::Null;
    };
    let mut said = vec![format!("{}{}", if *test == 0 { "live" } else { "test" }, hex(tenant))];
    said.extend(words(content));
    said.sort_unstable();
    said.dedup();
    Cell::Text(said.join(" "))
}
