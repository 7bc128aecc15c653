-- What came in over the trigger bridge, as the run keeps it for itself and its replays. Null for runs that nothing
-- delivered; records from before hold it themselves.
ALTER TABLE births ADD COLUMN sealed_delivery BLOB;

-- In which tenants somebody owns a workflow that the host loaded for everybody.
CREATE INDEX roster_workflows_by_workflow ON roster_workflows (workflow_id, tenant);
