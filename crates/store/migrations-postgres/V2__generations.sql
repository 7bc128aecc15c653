-- How often what hosts keep in memory was changed: whoever finds another number reads it again.
CREATE TABLE generations (
    cache      text   COLLATE "C" NOT NULL PRIMARY KEY,
    generation bigint NOT NULL
) WITH (fillfactor = 50);
