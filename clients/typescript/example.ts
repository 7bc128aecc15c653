// Starts a run that asks, follows its events, answers it from the inbox, and reads what became of it.
//   node example.js http://127.0.0.1:8787 KEY [RUN]
// With a run it follows only that, and its host may go away meanwhile.

import { strict as assert } from "node:assert";

import { Callboard, Problem, isGenuine, signed, type RunEvent } from "./callboard.js";

const [url = "", key = "", followed] = process.argv.slice(2);
const host = new Callboard(url, key);
if (followed !== undefined) {
  for await (const event of host.events(followed, undefined, "debug")) console.log(event.sequence, event.type);
  process.exit();
}

/** The type of the event says what its payload holds. */
function told(event: RunEvent): string {
  switch (event.type) {
    case "run.started":
      return `${event.payload.workflowId} has started`;
    case "interrupt.requested":
      return `${event.payload.kind}: ${event.payload.key}`;
    case "run.failed":
      return event.payload.error.message;
    default:
      return event.type;
  }
}

// The same key is the same run, however often it is asked for.
const run = await host.start({ workflowId: "release" }, "typed-release");
assert.equal(await host.start({ workflowId: "release" }, "typed-release"), run);

const seen: number[] = [];
for await (const event of host.events(run)) {
  console.log(event.sequence, told(event));
  seen.push(event.sequence);
  if (event.type !== "interrupt.requested") continue;
  for await (const question of host.inbox({ runId: run })) await host.answer(question, { action: "accept" });
}
assert.deepEqual(seen, [...new Set(seen)].sort((a, b) => a - b));
assert.equal((await host.snapshot(run)).status, "completed");

// From the middle: what comes after it, once. From the end there is nothing to wait for.
const middle = seen[Math.floor(seen.length / 2)] ?? 0;
const rest: number[] = [];
for await (const event of host.events(run, middle)) rest.push(event.sequence);
assert.deepEqual(rest, seen.filter((at) => at > middle));
for await (const event of host.events(run, seen.at(-1))) assert.fail(event.type);

await assert.rejects(host.snapshot("run_0"), (error) => error instanceof Problem && error.status === 404);

// What is signed by somebody else, changed or old is not from the host.
const secret = "ab".repeat(32);
const body = new TextEncoder().encode('{"type": "run.completed"}');
const at = String(Math.floor(Date.now() / 1000));
const { createHmac } = await import("node:crypto");
const mac = createHmac("sha256", secret).update(`${at}.`).update(body).digest("hex");
const headers = new Headers({ "X-openwop-Timestamp": at, "X-openwop-Signature": `sha256=${mac}` });
assert.equal(await isGenuine(secret, headers, body), true);
assert.equal(await isGenuine("cd".repeat(32), headers, body), false);
assert.equal(await isGenuine(secret, headers, body.slice(1)), false);
assert.equal(await isGenuine(secret, headers, body, Number(at) + 301), false);
assert.equal(await isGenuine(secret, new Headers(), body), false);

// A signed post starts a run, and the same post again is the same run.
type Made = { binding: { ingestUrl: string; signingSecret: string } };
const wanted = { source: "webhook", workflowId: "chain" };
const made = await host.request<Made>("POST", "/v1/host/callboard/trigger-subscriptions", wanted, "typed-trigger");
const outcomes: { outcome: string; runId: string }[] = [];
for (let time = 0; time < 2; time += 1) {
  const sent = { "content-type": "application/json", ...(await signed(made.binding.signingSecret, "msg_typed_0000000001", body)) };
  const response = await fetch(new URL(made.binding.ingestUrl, url), { method: "POST", headers: sent, body });
  outcomes.push((await response.json()) as { outcome: string; runId: string });
}
assert.deepEqual(outcomes.map((it) => it.outcome), ["delivered", "duplicate"]);
assert.equal(outcomes[0]?.runId, outcomes[1]?.runId);
assert.equal((await host.wait(outcomes[0]?.runId ?? "")).status, "completed");

console.log("all of it");
