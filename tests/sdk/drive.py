"""Drives every operation of the published client against one host, through one major of the protocol.

    python drive.py MAJOR URL KEY [RUN]

RUN is a run that the client of the other major began and left at a question: it is answered and forked here. The last line
of the output names a run of the same kind that this one has left for the other.
"""

import inspect
import json
import sys
import time
import urllib.error
import urllib.request

import openwop_client as wop

MAJOR, URL, KEY = int(sys.argv[1]), sys.argv[2], sys.argv[3]
OTHERS = sys.argv[4] if len(sys.argv) > 4 else None
SECOND = MAJOR == 2
called = set()


class Recorded:
    """Notes which operations of the client were called."""

    def __init__(self, client):
        self._client = client

    def __getattr__(self, name):
        called.add(name)
        return getattr(self._client, name)


client = Recorded(wop.OpenwopClient(URL, KEY, timeout=60))


def refused(act, *statuses):
    """The host does not offer it: an error with one of these statuses, or the client's own None."""
    try:
        answer = act()
        if inspect.isgenerator(answer):
            answer = next(answer)
    except wop.WopError as error:
        assert error.status in statuses, (error.status, error)
        return error
    except urllib.error.HTTPError as error:
        # The client lets this one through where it opens a stream.
        assert error.code in statuses, (error.code, error)
        return error
    assert answer is None, answer
    return None


def register(definition):
    path = "/v1/host/callboard/workflows"
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    body = json.dumps(definition).encode()
    urllib.request.urlopen(urllib.request.Request(URL + path, body, headers)).read()


def gate(name, kind, config):
    node = {"id": "gate", "typeId": kind, "name": "Gate", "position": {"x": 0, "y": 0}, "config": config, "inputs": {}}
    register({"id": name, "name": name, "version": "1.0", "nodes": [node], "edges": [], "triggers": [],
              "variables": [], "metadata": {"tags": []}, "settings": {}})


def start(workflow, **more):
    return client.runs_create(wop.CreateRunRequest(workflowId=workflow, **more)).runId


def wait_until(run, *statuses):
    for _ in range(600):
        snapshot = client.runs_get(run)
        if snapshot.status in statuses:
            return snapshot
        time.sleep(0.05)
    raise AssertionError(f"{run} is still {snapshot.status}")


def bare(run):
    return run.rsplit("/", 1)[-1]


def mine(run):
    """The id of a run as this major writes it."""
    return f"default/{bare(run)}" if SECOND else bare(run)


def discovery():
    capabilities = client.discovery_capabilities()
    assert "2.0" in capabilities.protocolVersions if SECOND else True
    if SECOND:
        assert capabilities.preferredVersion == "1.1", capabilities
        assert capabilities.families["webhooks"].facets["retryPolicy"]["backoff"] == "exponential"
    assert client.discovery_openapi()["openapi"].startswith("3.")


def runs():
    body = wop.CreateRunRequest(workflowId="noop", tags=["sdk"], metadata={"a": [1]})
    if SECOND:
        body.configurable = wop.RunConfigurable(run={"recursionLimit": 7})
    key = "drive-0123456789-abcdef" + str(time.time_ns())
    made = client.runs_create(body, idempotency_key=key)
    assert client.runs_create(body, idempotency_key=key).runId == made.runId
    run = made.runId
    snapshot = wait_until(run, "completed")
    assert snapshot.tags == ["sdk"] and snapshot.runId == run
    if SECOND:
        assert run.startswith("default/") and snapshot.eventLogSchemaVersion == 3
        assert snapshot.owner.subject.lane == "api-key"
        assert snapshot.configurable == {"version": 1, "run": {"recursionLimit": 7}}
        page = client.runs_list(limit=5, workflow_id="noop")
        assert run in [one.runId for one in page.runs]
        assert client.runs_effects(run).effects == []
        gate("calling", "core.conformance.side-effect", {})
        calling = start("calling")
        wait_until(calling, "completed")
        (effect,) = client.runs_effects(calling).effects
        assert (effect.attempt, effect.state) == (1, "completed"), effect
        assert effect.effectId.startswith("default/") and effect.nodeId == "gate", effect
        refused(lambda: client.runs_compensation(run), 404)
    else:
        assert client.runs_debug_bundle(run).bundleVersion == "1.0"
    polled = client.runs_poll_events(run, timeout_seconds=5)
    followed = list(client.runs_events(run, stream_mode="debug"))
    assert [event.sequence for event in followed] == [event.sequence for event in polled.events]
    assert [event.type for event in followed] == [event.type for event in polled.events]
    rest = list(client.runs_events(run, stream_mode="debug", last_event_id="0"))
    assert rest == followed[1:], rest
    assert client.workflows_get("noop")["id"] == "noop"
    assert client.runs_ancestry(run).parent is None
    assert refused(lambda: client.runs_eval_summary(run), 404) is None
    assert refused(lambda: client.runs_get_artifact(run, "none"), 404) is None
    note = wop.CreateAnnotationRequest(signal={"kind": "rating", "rating": 5})
    annotation = client.create_annotation(run, note)
    assert annotation.target["runId"] == run
    assert [one.annotationId for one in client.list_annotations(run)] == [annotation.annotationId]
    forked = client.runs_fork(run, wop.ForkRunRequest(fromSeq=0, mode="replay"))
    assert forked.sourceRunId == run
    wait_until(forked.runId, "completed")
    diff = client.runs_diff(run, forked.runId)
    assert diff.divergedAtSeq is None and diff.eventDiffs == [], diff


def control():
    gate("sdk-wait", "core.delay", {"durationMs": 60000})
    run = start("sdk-wait")
    wait_until(run, "running")
    paused = client.runs_pause(run, wop.PauseRunRequest(drainPolicy="immediate"))
    assert paused.status == "paused" and paused.runId == run
    wait_until(run, "paused")
    assert client.runs_resume(run).status == "running"
    assert client.runs_cancel(run).runId == run
    wait_until(run, "cancelled")
    if SECOND:
        assert refused(lambda: client.runs_cancel(run), 409).envelope.error == "run_terminal"
    other = start("sdk-wait")
    results = client.runs_bulk_cancel(wop.BulkCancelRunsRequest(runIds=[other, run])).results
    assert [one.ok for one in results] == [True, not SECOND], results
    assert results[0].runId == other


def token_of(run):
    """The older client does not show it."""
    if SECOND:
        return client.runs_get(run).interrupt["interruptToken"]
    request = urllib.request.Request(f"{URL}/v1/runs/{run}", headers={"Authorization": f"Bearer {KEY}"})
    return json.load(urllib.request.urlopen(request))["interrupt"]["interruptToken"]


def questions():
    gate("sdk-approval", "core.approvalGate", {"title": "Ship it?"})
    event = {"kind": "external-event", "data": {"eventType": "paid", "correlation": {"id": 7}}}
    gate("sdk-event", "core.interrupt", event)
    run = start("sdk-approval")
    wait_until(run, "waiting-approval")
    accept = wop.ResolveInterruptRequest(resumeValue={"action": "accept"})
    assert client.interrupts_resolve_by_run(run, "gate", accept).runId == run
    wait_until(run, "completed")
    run = start("sdk-event")
    wait_until(run, "waiting-external")
    token = token_of(run)
    assert token.startswith("ow2.") == SECOND
    assert client.interrupts_inspect_by_token(token).kind == "external-event"
    answer = wop.ResolveInterruptRequest(resumeValue={"id": 7})
    assert client.interrupts_resolve_by_token(token, answer)["runId"] == run
    wait_until(run, "completed")


def sources():
    hook = wop.RegisterWebhookRequest(url="http://127.0.0.1:9/hook", events=["run.completed"])
    made = client.webhooks_register(hook)
    if SECOND:
        assert made.subscriptionId.startswith("default/wh_")
        assert client.webhooks_dead_letters(made.subscriptionId).deliveries == []
        rotate = wop.RotateWebhookSecretRequest(secret="whsec_x")
        refused(lambda: client.webhooks_rotate_secret(made.subscriptionId, rotate), 404)
        client.webhooks_unregister(made.subscriptionId)
        refused(lambda: client.webhooks_unregister(made.subscriptionId), 404)
    else:
        rotate = wop.RotateWebhookSecretRequest(secret="whsec_x")
        refused(lambda: client.webhooks_rotate_secret(made.subscriptionId, "default", rotate), 404)
        client.webhooks_unregister(made.subscriptionId, "default")
    registration = wop.TriggerSubscriptionRegistration(source="form", workflowId="noop")
    trigger = client.create_trigger_subscription(registration)
    subscription = trigger.subscription["subscriptionId"]
    if SECOND:
        assert subscription.startswith("default/")
        assert client.trigger_dead_letters(subscription).deliveries == []
    assert trigger.binding["ingestUrl"]


def library():
    template = wop.PromptTemplate(templateId=f"sdk.greet{MAJOR}", version="1.0.0", kind="system", text="Hello")
    client.prompts_create(template)
    assert client.prompts_get(template.templateId).text == "Hello"
    newer = wop.PromptTemplate(templateId=template.templateId, version="1.1.0", kind="system", text="Hi")
    assert client.prompts_update(template.templateId, newer).text == "Hi"
    listed = client.prompts_list(wop.ListPromptsRequest(limit=200)).items
    assert template.templateId in [one.templateId for one in listed]
    rendered = client.prompts_render(wop.RenderPromptRequest(ref=f"prompt:{template.templateId}", variables={}))
    assert rendered.hash
    client.prompts_delete(template.templateId)
    assert client.prompts_get(template.templateId) is None
    for tool in client.tools_list() or []:
        assert client.tools_get(tool.toolId).toolId == tool.toolId
    assert client.tools_get("none") is None
    client.tools_list_compact()


def people():
    for agent in client.agents_list() or []:
        assert client.agents_get(agent.agentId).agentId == agent.agentId
    assert client.agents_get("none") is None
    refused(lambda: client.agents_list_deployments("none"), 404)
    move = wop.AgentDeploymentTransition(version="1.0.0", transition="promote")
    refused(lambda: client.agents_transition_deployment("none", move), 404)
    roster = client.agents_list_roster()
    assert roster.total == len(roster.roster)
    assert client.agents_get_roster_entry("host:none") is None
    assert client.agents_get_org_chart() is not None
    assert client.agents_get_org_chart_department("none") is None
    walked = client.audit_verify(0, 1)
    assert walked.chainValid and not walked.anomalies, walked


def elsewhere():
    """What this host does not offer, and says so."""
    page = wop.LocalizedContentPage(pageId="p", slug="s", name="n", status="draft", sectionOrder=[])
    section = wop.PutContentSectionRequest(locale="en", data={})
    settings = wop.LocalizedContentLanguageSettings(baseLocale="en", supportedLocales=["en"], autoTranslateOnPublish=False)
    for act in [
        client.content_list_pages,
        lambda: client.content_get_page("s"),
        lambda: client.content_create_page(page),
        lambda: client.content_delete_page("p"),
        lambda: client.content_put_section("p", "s", section),
        client.content_get_settings,
        lambda: client.content_put_settings(settings),
    ]:
        refused(act, 404)
    if not SECOND:
        files()
        return
    for act in [
        client.proposals_list,
        lambda: client.proposals_submit(wop.SubmitProposalRequest(kind="prompt", artifact={})),
        lambda: client.proposals_get("p"),
        lambda: client.proposals_revise("p", wop.ReviseProposalRequest(artifact={})),
        lambda: client.proposals_archive("p"),
        lambda: client.proposals_apply("p"),
        lambda: client.proposals_reject("p"),
        client.connection_providers_list,
        lambda: client.connection_providers_resolve("p"),
        lambda: client.host_events(reconnect=False),
        lambda: client.host_emit_test_event("durable"),
        lambda: client.host_ui_plugin_frame("p", "q"),
        lambda: client.host_dispatch_ui_plugin_request("p", "q", wop.UiPluginRequest(id=1, method="m")),
    ]:
        refused(act, 404)
    refused_or_manifest()


def refused_or_manifest():
    try:
        manifest = client.host_effect_seams()
    except wop.WopError as error:
        assert error.status == 404, error
        return
    assert manifest.seams and all(seam.guarded and seam.guardedBy for seam in manifest.seams)


def files():
    written = client.put_workspace_file("sdk.txt", wop.PutWorkspaceFileRequest(content="hello"))
    assert client.get_workspace_file("sdk.txt").content == "hello"
    assert "sdk.txt" in [one.path for one in client.list_workspace_files()]
    assert client.delete_workspace_file("sdk.txt"), written


def others():
    """A run that the other major began: followed, answered and forked here."""
    run = mine(OTHERS)
    wait_until(run, "waiting-approval")
    accept = wop.ResolveInterruptRequest(resumeValue={"action": "accept"})
    assert client.interrupts_resolve_by_run(run, "gate", accept).runId == run
    wait_until(run, "completed")
    events = list(client.runs_events(run, stream_mode="debug"))
    assert [event.sequence for event in events] == list(range(len(events)))
    assert all(event.runId == run for event in events)
    forked = client.runs_fork(run, wop.ForkRunRequest(fromSeq=0, mode="replay"))
    wait_until(forked.runId, "completed")
    assert client.runs_diff(run, forked.runId).eventDiffs == []


def every_operation_was_called():
    operations = inspect.getmembers(wop.OpenwopClient, inspect.isfunction)
    known = {name for name, _ in operations if not name.startswith("_")}
    assert known <= called, sorted(known - called)


for step in [discovery, runs, control, questions, sources, library, people, elsewhere]:
    step()
if OTHERS:
    others()
left = start("sdk-approval")
wait_until(left, "waiting-approval")
every_operation_was_called()
print(left)
