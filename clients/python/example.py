"""Starts a run that asks, follows its events, answers it from the inbox, and reads what became of it: with the helper, and with
the types that openapi-python-client makes of the host's document.

    python example.py http://127.0.0.1:8787 KEY [RUN]

With a run it follows only that, and its host may go away meanwhile.
"""

import sys
import time

from callboard_client import AuthenticatedClient
from callboard_client.api.runs import create_run, poll_events, read_run
from callboard_client.models import CreatedRun, CreateRun, PolledEvents, RunCompletedEvent, RunSnapshot, RunStartedEvent

from callboard import Callboard, Problem, is_genuine, signed


def main(url: str, key: str) -> None:
    host = Callboard(url, key)

    # The same key is the same run, however often it is asked for.
    run = host.start("release", once="example-release")
    assert host.start("release", once="example-release") == run

    seen = []
    for event in host.events(run):
        print(event["sequence"], event["type"])
        seen.append(event["sequence"])
        if event["type"] == "interrupt.requested":
            question = next(host.inbox(run_id=run))
            host.answer(question, {"action": "accept"})
    assert seen == sorted(set(seen)), seen

    # From the middle: what comes after it, once.
    middle = seen[len(seen) // 2]
    assert [event["sequence"] for event in host.events(run, after=middle)] == [at for at in seen if at > middle]
    # From the end there is nothing to wait for.
    assert list(host.events(run, after=seen[-1])) == []

    # The generated client has a type for each operation and each event.
    client = AuthenticatedClient(base_url=url, token=key)
    snapshot = read_run.sync(run, client=client)
    assert isinstance(snapshot, RunSnapshot) and snapshot.status == "completed", snapshot
    polled = poll_events.sync(run, client=client)
    assert isinstance(polled, PolledEvents), polled
    first, last = polled.events[0], polled.events[-1]
    assert isinstance(first, RunStartedEvent) and first.payload.workflow_id == "release", first
    assert isinstance(last, RunCompletedEvent), last
    again = create_run.sync(client=client, body=CreateRun(workflow_id="release"), idempotency_key="example-release-2")
    assert isinstance(again, CreatedRun), again
    host.request("POST", f"/v1/runs/{again.run_id}/cancel", {}, once="example-cancel")
    assert host.wait(again.run_id)["status"] == "cancelled"

    try:
        host.snapshot("run_0")
    except Problem as problem:
        assert (problem.status, problem.code) == (404, "not_found"), problem

    webhooks()
    trigger(host)
    print("all of it")


def webhooks() -> None:
    """What is signed by somebody else, changed or old is not from the host."""
    import hashlib
    import hmac

    secret, body, at = "ab" * 32, b'{"type": "run.completed"}', str(int(time.time()))
    mac = hmac.new(secret.encode(), at.encode() + b"." + body, hashlib.sha256).hexdigest()
    headers = {"X-openwop-Timestamp": at, "X-openwop-Signature": f"sha256={mac}"}
    assert is_genuine(secret, headers, body)
    assert not is_genuine("cd" * 32, headers, body)
    assert not is_genuine(secret, headers, body + b" ")
    assert not is_genuine(secret, headers, body, now=time.time() + 301)
    assert not is_genuine(secret, {}, body)


def trigger(host: Callboard) -> None:
    """A signed post starts a run, and the same post again is the same run."""
    import json
    import urllib.request

    wanted = {"source": "webhook", "workflowId": "chain"}
    made = host.request("POST", "/v1/host/callboard/trigger-subscriptions", wanted, once="example-trigger")
    body = b'{"message": "It burns."}'
    answers = []
    for _ in range(2):
        address = made["binding"]["ingestUrl"]
        address = address if address.startswith("http") else host.url + address
        headers = signed(made["binding"]["signingSecret"], "msg_example_00000001", body)
        request = urllib.request.Request(address, data=body, headers={"content-type": "application/json", **headers})
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        answers.append(json.load(opener.open(request, timeout=30)))
    assert [it["outcome"] for it in answers] == ["delivered", "duplicate"], answers
    assert answers[0]["runId"] == answers[1]["runId"]
    assert host.wait(answers[0]["runId"])["status"] == "completed"


def follow(url: str, key: str, run: str) -> None:
    for event in Callboard(url, key).events(run, mode="debug"):
        print(event["sequence"], event["type"], flush=True)


if __name__ == "__main__":
    follow(*sys.argv[1:4]) if len(sys.argv) > 3 else main(*sys.argv[1:3])
