-- Schedules are records.
DROP TABLE schedule_fires;
DROP TABLE schedules;
