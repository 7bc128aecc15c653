-- What an event answers: `#` and the sequence of an event of the same log, or an id from outside.
ALTER TABLE events ADD COLUMN cause TEXT;
