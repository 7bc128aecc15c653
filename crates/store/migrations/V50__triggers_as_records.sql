-- Subscriptions and what comes in over them are records.
DROP TABLE arrivals;
DROP TABLE trigger_subscriptions;
