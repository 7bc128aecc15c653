-- Hosts of this database. One that stops takes its row away; one that dies leaves it for a day.
CREATE TABLE hosts (
    id           text    COLLATE "C" NOT NULL PRIMARY KEY,
    version      text    NOT NULL,
    address      text    NOT NULL,
    started_at   bigint  NOT NULL,
    seen_at      bigint  NOT NULL,
    -- What it drives of what it may drive.
    runs         bigint  NOT NULL,
    most_runs    bigint  NOT NULL,
    bytes        bigint  NOT NULL,
    most_bytes   bigint  NOT NULL,
    latency_ms   bigint  NOT NULL,
    is_listening boolean NOT NULL
) WITH (fillfactor = 50);
