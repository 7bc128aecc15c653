//! All logs at once. Places are given after the commit, by whoever reads: an append that is still under way has none,
//! so no reader passes it by, and nobody's long transaction holds the others up.

use callboard_engine::{LogPosition, Logged, Window, Within};

use super::fault::Fault;
use super::read::recorded;
use super::rows::{Statement, limit, name, names, place, signed, unsigned, value, version};
use super::session::Session;

/// Numbers what is committed. The row of the clock is held until the commit, so places become visible in their order.
/// After a failover or a restore another server or timeline gives places: it leaps, so that no reader stands ahead of
/// what comes. The timeline is that of what is being written: the one in the control file is known a checkpoint later.
macro_rules! number {
    ($wait:literal) => {
        concat!(
            "WITH clock AS MATERIALIZED (
                 SELECT position, server FROM log_clock WHERE EXISTS (SELECT 1 FROM log_pending) FOR UPDATE",
            $wait,
            "),
             here AS MATERIALIZED (
                 SELECT (SELECT system_identifier FROM pg_control_system()) || '/'
                     || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) AS server
                 FROM clock),
             base AS MATERIALIZED (
                 SELECT here.server, CASE WHEN clock.server IN ('', here.server)
                     THEN clock.position ELSE clock.position + 1000000 END AS position
                 FROM clock, here),
             taken AS (
                 DELETE FROM log_pending WHERE id IN (
                     SELECT id FROM log_pending WHERE EXISTS (SELECT 1 FROM base) ORDER BY id LIMIT 5000)
                 RETURNING *),
             numbered AS MATERIALIZED (
                 SELECT taken.*, base.server,
                     (base.position + sum(taken.count) OVER (ORDER BY taken.id))::bigint AS last
                 FROM taken, base),
             placed AS (
                 INSERT INTO log_feed (last, run, first, count, tenant, test, workspace)
                 SELECT last, run, first, count, tenant, test, workspace FROM numbered)
             UPDATE log_clock SET position = given.last, server = given.server
             FROM (SELECT max(last) AS last, max(server) AS server FROM numbered) AS given
             WHERE given.last IS NOT NULL
             RETURNING log_clock.position"
        )
    };
}

/// Who does not get the clock reads what is there: somebody else is giving places.
const NUMBER: &str = number!(" SKIP LOCKED");
/// For who must not miss what was committed before it asked.
const NUMBER_ALL: &str = number!("");

pub(super) async fn number(session: &Session) -> Result<(), Fault> {
    session.rows(NUMBER, &[]).await?;
    Ok(())
}

async fn position(session: &Session) -> Result<u64, Fault> {
    let row = session.row("SELECT position FROM log_clock", &[]).await?;
    row.map_or(Ok(0), |row| unsigned(&row, 0))
}

/// Where the next append after this place begins, and the newest place. Nobody reads through places that were leapt over.
async fn bounds(session: &Session, after: u64) -> Result<(u64, u64), Fault> {
    let sql =
        "SELECT position, (SELECT last - count FROM log_feed WHERE last > $1 ORDER BY last LIMIT 1)
         FROM log_clock";
    let Some(row) = session.row(sql, &[&signed(after)]).await? else { return Ok((after, 0)) };
    let newest = unsigned(&row, 0)?;
    let first = value::<Option<i64>>(&row, 1)?.map_or(newest, |first| first.unsigned_abs());
    Ok((first.max(after), newest))
}

/// Everything that was committed before has a place up to here.
pub(super) async fn newest(session: &Session) -> Result<LogPosition, Fault> {
    while session.row(NUMBER_ALL, &[]).await?.is_some() {}
    Ok(LogPosition(position(session).await?))
}

/// The end comes first: what gets a place after it belongs to the next window.
pub(super) async fn read(
    session: &Session,
    within: &Within,
    after: LogPosition,
    most: u64,
) -> Result<Window, Fault> {
    number(session).await?;
    let (first, newest) = bounds(session, after.0).await?;
    let until = first.saturating_add(most).min(newest).max(after.0);
    let mut window = Window { events: Vec::new(), until: LogPosition(until) };
    if until == after.0 {
        return Ok(window);
    }
    for row in statement(within, after.0, until).rows(session).await? {
        let run = name(&row, 1)?.into();
        window.events.push(Logged {
            position: LogPosition(unsigned(&row, 0)?),
            event: recorded(&row, 2, run, version(&row, 8)?)?,
            place: place(&row, 9)?,
            is_replay: value(&row, 12)?,
            tags: names(&row, 13)?,
        });
    }
    Ok(window)
}

/// What is to be seen between two places of the log. The append in which the window ends may reach beyond it.
pub(super) fn statement(within: &Within, after: u64, until: u64) -> Statement {
    let mut statement = Statement::default();
    statement.push(
        "SELECT feed.last - feed.count + 1 + events.sequence - feed.first AS position, runs.run_id, events.sequence,
             events.at, events.kind, events.node, events.payload, events.cause, runs.stamped_version, feed.tenant,
             feed.test, feed.workspace, runs.is_replay,
             (SELECT array_agg(tag ORDER BY place) FROM run_tags WHERE run_tags.run = runs.id)
         FROM log_feed AS feed JOIN runs ON runs.id = feed.run
         JOIN events ON events.run = feed.run AND events.sequence >= feed.first
             AND events.sequence < feed.first + feed.count
         WHERE ",
    );
    statement.within("feed", within);
    statement.bind(" AND feed.last > ", signed(after));
    statement.bind(
        " AND feed.last <= coalesce((SELECT min(last) FROM log_feed WHERE last >= ",
        signed(until),
    );
    statement.bind("), ", signed(until));
    statement
        .bind(") AND feed.last - feed.count + 1 + events.sequence - feed.first > ", signed(after));
    statement
        .bind(" AND feed.last - feed.count + 1 + events.sequence - feed.first <= ", signed(until));
    statement.bind(" ORDER BY feed.last, events.sequence LIMIT ", limit(usize::MAX));
    statement
}
