-- Birth records, the folds of ended runs and the plainest events may be stored in a short form from here on, which older
-- versions cannot read. What is there stays as it is.
SELECT 1;
