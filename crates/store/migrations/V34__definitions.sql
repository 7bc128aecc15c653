-- A definition can go once no run was born with it.
CREATE INDEX births_of_definition ON births (definition);
