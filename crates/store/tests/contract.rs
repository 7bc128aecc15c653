//! What every store promises: one list of scenarios, run against each of them.

#[path = "contract/annotations.rs"]
mod annotations;
#[path = "contract/audit.rs"]
mod audit;
#[path = "contract/budgets.rs"]
mod budgets;
#[path = "contract/census.rs"]
mod census;
#[path = "contract/charts.rs"]
mod charts;
#[path = "contract/claims.rs"]
mod claims;
#[path = "contract/coding_sessions.rs"]
mod coding_sessions;
#[path = "contract/copies.rs"]
mod copies;
#[path = "contract/deployments.rs"]
mod deployments;
#[path = "contract/effects.rs"]
mod effects;
#[path = "contract/envelopes.rs"]
mod envelopes;
#[path = "contract/families.rs"]
mod families;
#[path = "contract/files.rs"]
mod files;
mod given;
#[path = "contract/heartbeats.rs"]
mod heartbeats;
#[path = "contract/inbox.rs"]
mod inbox;
#[path = "contract/isolation.rs"]
mod isolation;
#[path = "contract/logs.rs"]
mod logs;
#[path = "contract/memory.rs"]
mod memory;
#[path = "contract/outcomes.rs"]
mod outcomes;
#[path = "contract/packs.rs"]
mod packs;
#[path = "contract/prompts.rs"]
mod prompts;
#[path = "contract/queues.rs"]
mod queues;
#[path = "contract/records.rs"]
mod records;
#[path = "contract/retention.rs"]
mod retention;
#[path = "contract/roster.rs"]
mod roster;
#[path = "contract/rows.rs"]
mod rows;
#[path = "contract/schedules.rs"]
mod schedules;
#[path = "contract/secrets.rs"]
mod secrets;
#[path = "given/server.rs"]
mod server;
#[path = "contract/shared.rs"]
mod shared;
#[path = "contract/starts.rs"]
mod starts;
#[path = "contract/triggers.rs"]
mod triggers;
#[path = "contract/webhooks.rs"]
mod webhooks;

use std::sync::Arc;

use callboard_engine::{Budgets, InMemoryStore, OrgCharts, Roster, Store, Work, Workflows};
use callboard_store::{PostgresStore, SealKey, SqliteStore};
use tempfile::TempDir;

/// A store under test, which can lose its process.
enum Subject {
    InMemory(Arc<InMemoryStore>),
    Sqlite { store: Option<Arc<SqliteStore>>, folder: TempDir },
    Postgres { store: Option<Arc<PostgresStore>>, address: String },
}

/// The key that every host of a test has.
const SEAL_KEY: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

/// The database that others are copied from: migrated once.
const TEMPLATE: &str = "migrated";

async fn open_postgres(address: &str) -> anyhow::Result<PostgresStore> {
    Ok(PostgresStore::connect(address, SealKey::of_digits(SEAL_KEY)).await?)
}

/// The address of an empty database of today's schema; none where PostgreSQL is not installed.
async fn postgres_database() -> anyhow::Result<Option<String>> {
    static MADE: tokio::sync::OnceCell<()> = tokio::sync::OnceCell::const_new();
    let Some(server) = server::server()? else { return Ok(None) };
    let make = async || {
        server.execute("postgres", &format!("CREATE DATABASE {TEMPLATE}")).await?;
        open_postgres(&server.address(TEMPLATE)).await?.shutdown().await;
        anyhow::Ok(())
    };
    MADE.get_or_try_init(make).await?;
    Ok(Some(server.database(TEMPLATE).await?))
}

impl Subject {
    fn in_memory() -> anyhow::Result<Self> {
        Ok(Self::InMemory(Arc::default()))
    }

    fn sqlite() -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let store = Some(Arc::new(SqliteStore::open(folder.path())?));
        Ok(Self::Sqlite { store, folder })
    }

    /// None where PostgreSQL is not installed.
    async fn postgres() -> anyhow::Result<Option<Self>> {
        let Some(address) = postgres_database().await? else { return Ok(None) };
        let store = Some(Arc::new(open_postgres(&address).await?));
        Ok(Some(Self::Postgres { store, address }))
    }

    fn port(&self) -> anyhow::Result<&dyn Store> {
        match self {
            Self::InMemory(store) => Ok(&**store),
            Self::Sqlite { store, .. } => store
                .as_deref()
                .map(|store| store as &dyn Store)
                .ok_or_else(|| anyhow::anyhow!("the store is closed")),
            Self::Postgres { store, .. } => store
                .as_deref()
                .map(|store| store as &dyn Store)
                .ok_or_else(|| anyhow::anyhow!("the store is closed")),
        }
    }

    /// The one port, as features hold it. To be dropped before a restart.
    fn store(&self) -> anyhow::Result<Arc<dyn Store>> {
        match self {
            Self::InMemory(store) => Ok(Arc::clone(store) as _),
            Self::Sqlite { store, .. } => {
                let store = store.as_ref().ok_or_else(|| anyhow::anyhow!("the store is closed"))?;
                Ok(Arc::clone(store) as _)
            }
            Self::Postgres { store, .. } => {
                let store = store.as_ref().ok_or_else(|| anyhow::anyhow!("the store is closed"))?;
                Ok(Arc::clone(store) as _)
            }
        }
    }

    fn roster(&self) -> anyhow::Result<Roster> {
        Ok(Roster::new(self.store()?))
    }

    fn charts(&self) -> anyhow::Result<OrgCharts> {
        Ok(OrgCharts::new(self.store()?))
    }

    fn work(&self) -> anyhow::Result<Work> {
        Ok(Work::new(self.store()?))
    }

    fn workflows(&self) -> anyhow::Result<Workflows> {
        Ok(Workflows::new(self.store()?))
    }

    fn budgets(&self) -> anyhow::Result<Budgets> {
        Ok(Budgets::new(self.store()?))
    }

    /// What a new process finds after the last one died.
    async fn restart(&mut self) -> anyhow::Result<()> {
        match self {
            Self::InMemory(store) => store.void_leases(),
            Self::Sqlite { store, folder } => {
                drop(store.take());
                *store = Some(Arc::new(SqliteStore::open(folder.path())?));
            }
            Self::Postgres { store, address } => {
                drop(store.take());
                *store = Some(Arc::new(open_postgres(address).await?));
            }
        }
        Ok(())
    }
}

macro_rules! contract {
    ($($room:ident: $($scenario:ident)*;)*) => {
        mod in_memory {
            $($(
                #[tokio::test]
                async fn $scenario() -> anyhow::Result<()> {
                    super::$room::$scenario(super::Subject::in_memory()?).await
                }
            )*)*
        }

        mod sqlite {
            $($(
                #[tokio::test]
                async fn $scenario() -> anyhow::Result<()> {
                    super::$room::$scenario(super::Subject::sqlite()?).await
                }
            )*)*
        }

        mod postgres {
            $($(
                #[tokio::test]
                async fn $scenario() -> anyhow::Result<()> {
                    match super::Subject::postgres().await? {
                        Some(subject) => super::$room::$scenario(subject).await,
                        None => Ok(()),
                    }
                }
            )*)*
        }
    };
}

/// What no simulation has.
mod watched {
    use super::{Subject, census};

    #[tokio::test]
    async fn waiting_runs_are_counted_by_reason() -> anyhow::Result<()> {
        census::waiting_runs_are_counted_by_reason(Subject::sqlite()?).await?;
        match Subject::postgres().await? {
            Some(subject) => census::waiting_runs_are_counted_by_reason(subject).await,
            None => Ok(()),
        }
    }
}

/// Where one process has the database to itself, it finds nobody's lease.
mod alone {
    use super::{Subject, claims};

    #[tokio::test]
    async fn a_new_process_finds_every_lease_void() -> anyhow::Result<()> {
        claims::a_new_process_finds_every_lease_void(Subject::in_memory()?).await?;
        claims::a_new_process_finds_every_lease_void(Subject::sqlite()?).await
    }
}

contract! {
    audit:
        entries_follow_each_other_and_are_covered
        many_writers_make_one_chain
        a_change_that_is_refused_leaves_no_entry;
    logs:
        a_new_run_is_found_with_its_head
        an_unknown_run_is_nowhere
        an_id_is_created_once
        what_was_appended_is_read_in_order
        an_event_keeps_what_it_answers
        a_stale_version_conflicts_and_writes_nothing
        only_one_of_many_appends_gets_a_version
        a_forced_version_is_stamped_on_events_alone
        a_snapshot_is_shown_while_it_has_seen_everything
        the_fold_sees_true_values_and_readers_the_mask
        a_definition_outlives_its_workflow
        a_waiter_wakes_when_the_log_grows;
    claims:
        a_new_run_is_due
        a_creator_can_keep_the_run_for_itself
        due_runs_come_in_order_and_no_more_than_asked_for
        concurrent_claimers_never_share_a_run
        a_lost_holder_is_replaced_and_locked_out
        a_lease_is_checked_before_the_version
        a_held_run_is_due_when_its_lease_ends
        a_released_run_is_due_when_its_head_says
        an_ended_run_is_free_and_never_due
        an_append_from_outside_leaves_a_living_holder_alone
        an_append_from_outside_wakes_a_run_that_nobody_holds
        a_renewed_lease_lasts_longer
        a_claim_can_be_given_back_without_an_append
        what_a_holder_has_not_seen_is_looked_at_when_the_run_is_given_back
        decisions_that_came_to_nothing_are_counted_over_a_restart
        a_clock_that_was_put_forward_ends_no_lease
        tenants_take_turns_where_more_is_due_than_can_be_taken
        a_tenant_gets_no_more_than_its_share;
    outcomes:
        a_repeated_create_gets_the_first_outcome
        parallel_creates_with_one_key_make_one_run
        a_repeated_append_changes_nothing
        an_outcome_can_be_kept_alone
        an_expired_outcome_is_replaced
        an_exclusive_scope_holds_one_active_run;
    families:
        a_child_begins_with_the_append_that_tells_of_it
        a_wake_makes_a_resting_run_due
        a_wake_during_a_claim_counts_when_the_run_is_given_back
        an_ended_run_is_not_woken
        a_fork_shares_its_sources_history;
    budgets:
        what_a_day_used_is_counted_where_it_was_recorded
        forks_pay_for_what_they_do_themselves
        what_is_reserved_counts_for_those_behind_it_until_the_call_is_over
        what_is_reserved_ends_with_its_run_and_with_its_holder
        a_raise_holds_for_its_day_and_is_never_lowered
        a_daily_limit_goes_with_its_member;
    charts:
        a_chart_is_its_owners_own_and_moves_one_version_at_a_time
        a_test_keys_chart_is_apart_from_the_live_one
        whoever_is_dismissed_leaves_every_chart;
    heartbeats:
        a_heartbeat_is_due_when_it_says_and_seen_by_its_own
        a_look_and_its_run_are_kept_once_or_not_at_all;
    effects:
        of_many_claims_one_is_fresh
        an_outcome_is_kept_before_it_is_used
        a_claim_that_came_to_nothing_can_be_made_again
        a_claim_may_bring_its_outcome
        only_the_holder_of_a_run_makes_its_calls;
    isolation:
        a_run_is_visible_in_its_tenant_workspace_and_mode_only
        a_list_shows_the_newest_first_page_by_page
        a_cursor_of_somebody_else_shows_nothing
        a_list_shows_what_its_filter_asks_for;
    inbox:
        open_questions_are_those_of_the_last_append_that_named_them
        a_refused_append_changes_no_question
        a_question_is_visible_in_its_tenant_workspace_and_mode_only
        an_inbox_shows_the_longest_waiting_first_page_by_page
        an_inbox_shows_what_its_filter_asks_for;
    annotations:
        annotations_are_kept_beside_their_run
        annotations_stay_in_their_tenant_workspace_and_mode
        a_run_takes_only_so_many_annotations;
    rows:
        workflows_are_kept_per_tenant
        a_workflow_is_its_places_own
        keys_are_kept_and_revoked
        what_a_key_made_is_noted
        link_secrets_have_generations_per_tenant;
    webhooks:
        a_webhook_is_seen_and_removed_in_its_scope_only
        where_nobody_listens_nothing_is_read
        a_new_webhook_hears_of_what_comes_after_it
        events_come_in_the_order_of_commits_with_what_decides_who_hears
        a_plan_is_made_once
        a_removed_webhook_gets_nothing_more
        two_hosts_never_take_the_same_delivery
        a_clock_that_was_put_forward_makes_nobody_deliver_twice
        a_lost_lease_settles_nothing
        a_new_process_takes_what_the_last_one_held
        what_is_sent_is_the_masked_event
        a_retry_comes_when_it_is_due_and_a_resting_webhook_waits
        a_webhook_that_failed_takes_the_rest_with_it
        dead_letters_are_the_owners_and_are_forgotten_in_time
        a_removed_webhook_leaves_nothing_behind_however_much_waited
        a_run_stays_until_webhooks_were_told_of_it
        a_callback_comes_with_its_append_and_goes_with_its_outcome
        a_run_stays_until_its_callback_is_settled;
    packs:
        a_pack_is_kept_with_its_archive
        the_same_pack_again_changes_nothing
        other_bytes_for_a_known_version_conflict
        a_removed_version_may_come_again_with_other_bytes
        the_same_pack_again_may_be_proven
        parallel_installs_of_one_version_make_one
        packs_are_kept_per_owner
        packs_survive_a_new_process;
    deployments:
        a_deployment_changes_together_with_its_run
        a_change_of_what_has_moved_on_leaves_neither
        of_changes_at_once_one_is_kept
        a_deployment_is_its_tenants_own
        a_repeated_request_to_deploy_gets_its_first_outcome;
    queues:
        however_many_runs_of_one_tenant_wait_another_has_its_turn
        limits_hold_for_all_hosts_together
        a_place_ends_with_its_lease
        a_higher_priority_goes_first_and_what_is_awaited_waits_for_no_limit
        hosts_that_look_at_once_take_no_more_than_the_limit;
    records:
        a_record_moves_one_version_at_a_time
        an_expectation_that_does_not_hold_leaves_everything_as_it_was
        records_are_found_where_they_are_and_by_their_values
        records_below_a_key_are_those_whose_keys_go_on
        due_records_come_in_order_with_the_time_of_the_next
        a_batch_is_written_whole_or_not_at_all
        a_blob_is_kept_with_its_record_and_goes_with_it
        a_batch_of_a_past_holder_writes_nothing
        counters_add_up_by_key_and_name;
    prompts:
        every_version_of_a_prompt_stays
        of_prompts_put_at_once_one_is_kept
        a_prompt_is_its_shelfs_own;
    envelopes:
        the_first_outcome_of_an_envelope_stays_with_its_events
        envelopes_are_their_tenants_own;
    memory:
        what_a_run_remembers_is_written_with_its_log
        a_version_that_has_moved_on_writes_nothing
        a_list_shows_the_newest_entries_first
        text_is_found_by_its_words
        what_has_expired_is_not_there
        a_run_sees_what_was_there_and_what_is_named
        relatives_are_seen_when_they_are_named
        memory_stays_in_its_tenant_workspace_and_mode
        a_name_finds_a_scope_or_a_reference
        a_person_amends_what_has_not_moved
        what_is_forgotten_is_nowhere
        a_snapshot_is_let_go_of_by_its_owner
        what_was_absorbed_is_there_for_those_who_began_before
        nothing_is_absorbed_that_has_moved_on
        a_crowd_is_counted_where_entries_last
        what_stood_at_an_anchor_has_not_expired
        a_commitment_is_due_until_it_is_settled_or_taken_back
        a_commitment_waits_for_the_heartbeat_of_its_owner;
    files:
        what_a_run_writes_is_kept_with_its_log
        a_person_writes_together_with_a_run
        a_file_that_has_moved_on_is_not_written
        a_removed_file_leaves_its_versions
        files_are_their_owners_alone
        a_workspace_holds_so_many_files_and_no_more
        a_write_is_found_by_its_run;
    schedules:
        a_schedule_is_kept_changed_and_removed_in_its_scope_only
        due_schedules_come_in_order_and_no_more_than_asked_for
        a_slot_and_its_run_are_written_together
        of_many_who_fire_a_slot_one_does
        a_slot_that_fired_does_not_fire_under_a_later_version
        declared_schedules_follow_their_definition
        a_list_of_schedules_is_read_page_by_page;
    triggers:
        a_subscription_is_kept_changed_and_seen_in_its_scope_only
        secrets_come_back_only_to_who_opens_a_subscription
        a_delivery_and_its_run_are_kept_once
        an_inactive_subscription_keeps_nothing
        a_settlement_takes_what_it_was_decided_on
        giving_up_takes_the_subscription_and_what_waits_with_it
        refused_posts_are_kept_within_bounds_and_dead_letters_read_page_by_page
        what_a_paused_subscription_keeps_waiting_is_due_once_it_is_active
        old_deliveries_are_forgotten;
    retention:
        ended_runs_go_when_they_are_old_enough
        only_runs_of_a_rule_go
        a_record_goes_with_its_run_or_keeps_it
        what_a_run_had_goes_with_it
        families_stay_until_all_of_them_have_ended
        a_source_stays_as_long_as_its_forks;
    roster:
        members_are_kept_in_the_order_of_their_hiring
        of_changes_to_a_member_one_is_kept
        members_are_their_tenants_and_workspaces_own
        a_test_keys_members_are_apart_from_the_live_ones
        the_tenants_that_own_a_workflow_are_known
        the_runs_of_a_member_are_listed_also_when_it_is_gone
        the_runs_of_an_agent_are_those_it_performs_and_those_of_its_members
        what_a_member_spent_is_summed_over_its_runs
        a_list_says_what_runs_have_used
        a_work_item_is_kept_with_its_run_or_not_at_all
        an_item_comes_over_its_members_queue_or_not_at_all
        of_moves_of_an_item_one_fires
        what_waits_is_found_once_its_member_and_its_queue_take_something
        all_logs_are_read_in_the_order_of_commits;
    coding_sessions:
        a_session_is_kept_until_its_run_is_over
        a_session_of_a_past_holder_is_not_kept;
    secrets:
        a_secret_is_kept_replaced_and_removed
        a_secret_is_its_tenants_own
        a_secret_is_its_places_own
        where_a_secret_may_go_is_kept_with_it;
}

/// The port stays small: a feature is a rule over records, not another method.
#[test]
fn the_port_has_no_more_than_thirty_methods() {
    let port = include_str!("../../engine/src/store.rs");
    let port = port.split("pub trait Store").nth(1).unwrap_or_default();
    let port = port.split("\n}\n").next().unwrap_or_default();
    let methods = port.lines().map(str::trim_start);
    let methods = methods.filter(|line| line.starts_with("async fn ") || line.starts_with("fn "));
    let count = methods.count();
    assert!((20..=30).contains(&count), "{count}");
}
