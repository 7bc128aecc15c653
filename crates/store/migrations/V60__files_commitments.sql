-- Files and commitments are records, and so is that what a run saw of memory was let go of.
DROP TABLE commitments;
DROP TABLE files;
ALTER TABLE runs DROP COLUMN is_memory_expired;
