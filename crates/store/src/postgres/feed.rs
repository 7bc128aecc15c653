//! All logs at once. Places are given after the commit, by whoever reads: an append that is still under way has none,
//! so no reader passes it by, and nobody's long transaction holds the others up.

use callboard_engine::{LogPosition, Logged, Window, Within};

use super::fault::Fault;
use super::read::recorded;
use super::rows::{Statement, limit, name, names, place, signed, unsigned, value, version};
use super::session::Session;

/// Numbers what is committed. The row of the clock is held until the commit, so places become visible in their order.
/// After a failover or a restore another server or timeline gives places: it leaps, so that no reader stands ahead of
/// what comes.
macro_rules! number {
    ($wait:literal) => {
        concat!(
            "WITH clock AS MATERIALIZED (
                 SELECT position, server FROM log_clock WHERE EXISTS (SELECT 1 FROM log_pending) FOR UPDATE",
            $wait,
            "),
             here AS MATERIALIZED (
                 SELECT (SELECT system_identifier FROM pg_control_system()) || '/'
                     || (SELECT timeline_id FROM pg_control_checkpoint()) AS server
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
    let until = after.0.saturating_add(most).min(position(session).await?).max(after.0);
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
