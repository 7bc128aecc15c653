"""What a generated client leaves to its users: streams that resume, keys that make a call happen once, the inbox,
and the signatures of webhooks. Needs nothing but Python 3.9; runs and events are plain dictionaries, as they are on
the wire. `callboard_client`, made from the host's OpenAPI document, has a type for each of them."""

import base64
import hashlib
import hmac
import json
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from http.client import HTTPException
from typing import Any, Dict, Iterator, List, Mapping, Optional

Json = Dict[str, Any]

#: What ends a run's log.
TERMINAL = ("run.completed", "run.failed", "run.cancelled")

ENDED = ("completed", "failed", "cancelled")

#: How often something is tried again that may pass: about half a minute.
RETRIES = 8

#: How old a signed request may be, in seconds.
TOLERANCE = 300

#: A stream is silent for no longer than this: the host sends a comment meanwhile.
SILENCE = 90.0


class Problem(Exception):
    """A request that was not carried out: the host's code, its message, its details."""

    def __init__(self, status: int, body: Json) -> None:
        self.status = status
        self.code = str(body.get("error", "unknown"))
        self.details = body.get("details") or {}
        super().__init__(f"{status} {self.code}: {body.get('message', '')}")


class Callboard:
    """One host, as one key sees it."""

    def __init__(self, url: str, key: str, timeout: float = 75.0) -> None:
        self.url = url.rstrip("/")
        self._key = key
        self._timeout = timeout
        # A proxy that the environment names is for the outside.
        self._http = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def request(self, method: str, path: str, body: Any = None, once: Optional[str] = None) -> Any:
        """One operation of the API. Under the same `once` it happens once, however often it is asked for: a
        connection that breaks is tried again, which is safe for reads and for whatever has such a key."""
        headers = {} if once is None else {"Idempotency-Key": once}
        is_safe = method == "GET" or once is not None
        attempt = 0
        while True:
            try:
                with self._open(method, path, body, headers, self._timeout) as response:
                    text = response.read()
                    return json.loads(text) if text else None
            except (OSError, HTTPException, Problem) as error:
                attempt += 1
                if not is_safe or attempt > RETRIES or not _may_pass(error):
                    raise
            _rest(attempt)

    def start(
        self, workflow: str, inputs: Optional[Json] = None, once: Optional[str] = None, **options: Any
    ) -> str:
        """Starts a run and answers its id. Without a key of its own a call has a fresh one, so that a repetition
        after a broken connection finds the first run."""
        order = {"workflowId": workflow, "inputs": inputs or {}, **options}
        return str(self.request("POST", "/v1/runs", order, once or str(uuid.uuid4()))["runId"])

    def snapshot(self, run: str) -> Json:
        """The run as it stands."""
        found: Json = self.request("GET", f"/v1/runs/{_quoted(run)}")
        return found

    def events(self, run: str, after: Optional[int] = None, mode: str = "updates") -> Iterator[Json]:
        """The events of a run until it ends, each once and in order. A stream that breaks goes on behind the last
        event, which is also where `after` begins. The mode is one that shows the end: not `messages` alone."""
        path = f"/v1/runs/{_quoted(run)}/events?streamMode={urllib.parse.quote(mode)}"
        failures = 0
        while True:
            headers = {"Accept": "text/event-stream"}
            if after is not None:
                headers["Last-Event-ID"] = str(after)
            try:
                with self._open("GET", path, None, headers, SILENCE) as response:
                    for name, ident, data in _frames(response):
                        failures = 0
                        if ident is not None:
                            after = int(ident)
                        event = json.loads(data)
                        if "sequence" in event:
                            yield event
                        if name in TERMINAL:
                            return
                if self._is_over(run, after):
                    return
            except (OSError, HTTPException, Problem) as error:
                failures += 1
                if failures > RETRIES or not _may_pass(error):
                    raise
            _rest(failures)

    def _is_over(self, run: str, after: Optional[int]) -> bool:
        """Whether a run has ended, and its last event was seen."""
        seen = self.snapshot(run)
        last = seen.get("lastSequence")
        return seen["status"] in ENDED and after is not None and last is not None and after >= last

    def wait(self, run: str) -> Json:
        """The run as it stands when it has ended."""
        for _ in self.events(run):
            pass
        return self.snapshot(run)

    def inbox(self, **filters: str) -> Iterator[Json]:
        """What runs ask, longest waiting first: `run_id`, `kind`, `workflow_id` or `roster_id` choose."""
        names = {"run_id": "runId", "workflow_id": "workflowId", "roster_id": "rosterId"}
        query = {names.get(name, name): value for name, value in filters.items()}
        while True:
            page = self.request("GET", "/v1/host/callboard/inbox?" + urllib.parse.urlencode(query))
            yield from page["interrupts"]
            if "nextCursor" not in page:
                return
            query["cursor"] = page["nextCursor"]

    def answer(self, question: Json, value: Any, once: Optional[str] = None) -> Json:
        """Answers a question of the inbox; for an approval, `{"action": "accept"}` or another of its actions."""
        path = f"/v1/runs/{_quoted(question['runId'])}/interrupts/{_quoted(question['nodeId'])}"
        # The question is the key: who answers it twice has answered once.
        once = once or f"answer-{question['interruptId']}"
        answered: Json = self.request("POST", path, {"resumeValue": value}, once)
        return answered

    def _open(self, method: str, path: str, body: Any, headers: Mapping[str, str], timeout: float) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, method=method)
        request.add_header("Authorization", f"Bearer {self._key}")
        if data is not None:
            request.add_header("Content-Type", "application/json")
        for name, value in headers.items():
            request.add_header(name, value)
        try:
            return self._http.open(request, timeout=timeout)
        except urllib.error.HTTPError as error:
            try:
                said = json.loads(error.read(1 << 20))
            except ValueError:
                said = {}
            raise Problem(error.code, said if isinstance(said, dict) else {}) from None


def is_genuine(secret: str, headers: Mapping[str, str], body: bytes, now: Optional[float] = None) -> bool:
    """Whether a webhook of the host is: signed with its secret, and not older than five minutes. The body is checked as
    it came, before it is parsed."""
    sent = {name.lower(): value for name, value in headers.items()}
    at, signature = sent.get("x-openwop-timestamp", ""), sent.get("x-openwop-signature", "")
    if not at.isascii() or not at.isdigit():
        return False
    if abs((time.time() if now is None else now) - int(at)) > TOLERANCE:
        return False
    expected = hmac.new(secret.encode(), at.encode() + b"." + body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(f"sha256={expected}".encode(), signature.encode())


def signed(secret: str, ident: str, body: bytes, now: Optional[float] = None) -> Dict[str, str]:
    """The headers of a post to a webhook trigger (`whsec_…`), after Standard Webhooks."""
    at = str(int(time.time() if now is None else now))
    key = base64.b64decode(secret[len("whsec_") :] if secret.startswith("whsec_") else secret)
    mac = hmac.new(key, f"{ident}.{at}.".encode() + body, hashlib.sha256).digest()
    signature = "v1," + base64.b64encode(mac).decode()
    return {"webhook-id": ident, "webhook-timestamp": at, "webhook-signature": signature}


def _may_pass(error: BaseException) -> bool:
    """Whether the same request may succeed later: the host starts again, or is busy."""
    return not isinstance(error, Problem) or error.status in (429, 502, 503, 504)


def _rest(failures: int) -> None:
    time.sleep(min(0.25 * 2**failures, 5.0))


def _quoted(part: Any) -> str:
    return urllib.parse.quote(str(part), safe="")


def _frames(lines: Any) -> Iterator[Any]:
    """Server-sent frames: name, id and data. A frame that the end of the stream has cut short does not count."""
    name = "message"
    ident: Optional[str] = None
    data: List[str] = []
    for raw in lines:
        line = raw.decode().rstrip("\r\n")
        if not line:
            if data:
                yield name, ident, "\n".join(data)
            name, ident, data = "message", None, []
            continue
        field, _, value = line.partition(":")
        value = value[1:] if value.startswith(" ") else value
        if field == "event":
            name = value
        elif field == "id":
            ident = value
        elif field == "data":
            data.append(value)
