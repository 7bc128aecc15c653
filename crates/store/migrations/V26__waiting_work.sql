-- An item that begins by itself as soon as its member and its queue take something: whose run it becomes (JSON), and
-- whether a test key put it there. Null for an item that does not wait. What waited before this still waits for
-- somebody to move it back: nobody knows any more whose run it would be.
ALTER TABLE work_items ADD COLUMN waits_for TEXT;
ALTER TABLE work_items ADD COLUMN waits_test INTEGER;

-- By queue: however much waits before those who are paused, a look takes one step for each of them.
CREATE INDEX work_items_waiting ON work_items (member, waits_test) WHERE waits_test IS NOT NULL;
