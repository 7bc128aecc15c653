-- What an outward call asked for: a sealed digest. The key of a row (effect_id) is the call's place in its visit, whomever it reaches.
ALTER TABLE effects ADD COLUMN request BLOB;
