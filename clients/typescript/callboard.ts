// What generated types leave to their users: streams that resume, keys that make a call happen once, the inbox, and the
// signatures of webhooks. `api.ts` is made of the host's OpenAPI document by openapi-typescript. Needs fetch and Web
// Crypto: Node 20, Deno, Bun or a browser.

import type { components } from "./api.js";

type Schemas = components["schemas"];
export type RunEvent = Schemas["RunEvent"];
export type RunSnapshot = Schemas["RunSnapshot"];
export type CreateRun = Schemas["CreateRun"];
export type Question = Schemas["Inbox"]["interrupts"][number];

/** What ends a run's log. */
const TERMINAL = ["run.completed", "run.failed", "run.cancelled"];
const ENDED = ["completed", "failed", "cancelled"];
/** How often something is tried again that may pass: about half a minute. */
const RETRIES = 8;
/** How old a signed request may be, in seconds. */
const TOLERANCE = 300;
/** A stream is silent for no longer than this: the host sends a comment meanwhile. */
const SILENCE = 90_000;

/** A request that was not carried out: the host's code, its message, its details. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly details: Record<string, unknown> = {},
  ) {
    super(`${status} ${code}: ${message}`);
  }
}

/** One host, as one key sees it. */
export class Callboard {
  readonly #url: string;
  readonly #key: string;

  constructor(url: string, key: string) {
    this.#url = url.replace(/\/+$/, "");
    this.#key = key;
  }

  /**
   * One operation of the API. Under the same `once` it happens once, however often it is asked for: a connection that breaks
   * is tried again, which is safe for reads and for whatever has such a key.
   */
  async request<T>(method: string, path: string, body?: unknown, once?: string): Promise<T> {
    const headers: Record<string, string> = once === undefined ? {} : { "idempotency-key": once };
    const isSafe = method === "GET" || once !== undefined;
    for (let attempt = 1; ; attempt += 1) {
      try {
        const response = await this.#open(method, path, body, headers, AbortSignal.timeout(75_000));
        const text = await response.text();
        return (text === "" ? undefined : JSON.parse(text)) as T;
      } catch (error) {
        if (!isSafe || attempt > RETRIES || !mayPass(error)) throw error;
      }
      await rest(attempt);
    }
  }

  /**
   * Starts a run and answers its id. Without a key of its own a call has a fresh one, so that a repetition after a broken
   * connection finds the first run.
   */
  async start(order: CreateRun, once: string = crypto.randomUUID()): Promise<string> {
    return (await this.request<Schemas["CreatedRun"]>("POST", "/v1/runs", order, once)).runId;
  }

  /** The run as it stands. */
  snapshot(run: string): Promise<RunSnapshot> {
    return this.request("GET", `/v1/runs/${encodeURIComponent(run)}`);
  }

  /**
   * The events of a run until it ends, each once and in order. A stream that breaks goes on behind the last event, which is
   * also where `after` begins. The mode is one that shows the end: not `messages` alone.
   */
  async *events(run: string, after?: number, mode = "updates"): AsyncGenerator<RunEvent> {
    const path = `/v1/runs/${encodeURIComponent(run)}/events?streamMode=${encodeURIComponent(mode)}`;
    for (let failures = 0; ; ) {
      try {
        for await (const frame of this.#frames(path, after)) {
          failures = 0;
          if (frame.id !== undefined) after = Number(frame.id);
          const event: unknown = JSON.parse(frame.data);
          if (isEvent(event)) yield event;
          if (TERMINAL.includes(frame.name)) return;
        }
        if (await this.#isOver(run, after)) return;
      } catch (error) {
        failures += 1;
        if (failures > RETRIES || !mayPass(error)) throw error;
      }
      await rest(failures);
    }
  }

  /** The run as it stands when it has ended. */
  async wait(run: string): Promise<RunSnapshot> {
    for await (const _ of this.events(run));
    return this.snapshot(run);
  }

  /** What runs ask, longest waiting first. */
  async *inbox(filters: { runId?: string; kind?: string; workflowId?: string; rosterId?: string } = {}): AsyncGenerator<Question> {
    const query = new URLSearchParams(filters);
    for (;;) {
      const page = await this.request<Schemas["Inbox"]>("GET", `/v1/host/callboard/inbox?${query}`);
      yield* page.interrupts;
      if (page.nextCursor === undefined) return;
      query.set("cursor", page.nextCursor);
    }
  }

  /** Answers a question of the inbox; for an approval, `{ action: "accept" }` or another of its actions. */
  answer(question: Question, value: unknown, once = `answer-${question.interruptId}`): Promise<Schemas["Answered"]> {
    const path = `/v1/runs/${encodeURIComponent(question.runId)}/interrupts/${encodeURIComponent(question.nodeId)}`;
    return this.request("POST", path, { resumeValue: value }, once);
  }

  /** Whether a run has ended, and its last event was seen. */
  async #isOver(run: string, after: number | undefined): Promise<boolean> {
    const { status, lastSequence } = await this.snapshot(run);
    return ENDED.includes(status) && after !== undefined && lastSequence !== undefined && after >= lastSequence;
  }

  async *#frames(path: string, after: number | undefined): AsyncGenerator<Frame> {
    const headers: Record<string, string> = { accept: "text/event-stream" };
    if (after !== undefined) headers["last-event-id"] = String(after);
    // The host went away without a word if nothing comes for so long.
    const silence = new AbortController();
    let watch = setTimeout(() => silence.abort(new Error("the stream is silent")), SILENCE);
    try {
      const response = await this.#open("GET", path, undefined, headers, silence.signal);
      const decoder = new TextDecoder();
      let text = "";
      for await (const bytes of parts(response)) {
        clearTimeout(watch);
        watch = setTimeout(() => silence.abort(new Error("the stream is silent")), SILENCE);
        text += decoder.decode(bytes, { stream: true });
        const whole = text.split("\n\n");
        // What the end of the stream cuts short does not count.
        text = whole.pop() ?? "";
        for (const frame of whole.map(read)) if (frame.data !== "") yield frame;
      }
    } finally {
      clearTimeout(watch);
      silence.abort();
    }
  }

  async #open(method: string, path: string, body: unknown, headers: Record<string, string>, signal: AbortSignal): Promise<Response> {
    const all: Record<string, string> = { authorization: `Bearer ${this.#key}`, ...headers };
    const options: RequestInit = { method, headers: all, signal };
    if (body !== undefined) {
      all["content-type"] = "application/json";
      options.body = JSON.stringify(body);
    }
    const response = await fetch(this.#url + path, options);
    if (response.ok) return response;
    const said = (await response.json().catch(() => ({}))) as Partial<Schemas["ErrorEnvelope"]>;
    throw new Problem(response.status, said.error ?? "unknown", said.message ?? "", said.details);
  }
}

/**
 * Whether a webhook of the host is: signed with its secret, and not older than five minutes. The body is checked as it came,
 * before it is parsed.
 */
export async function isGenuine(secret: string, headers: Headers, body: Uint8Array, now = Date.now() / 1000): Promise<boolean> {
  const at = headers.get("x-openwop-timestamp") ?? "";
  const given = headers.get("x-openwop-signature") ?? "";
  if (!/^[0-9]{1,12}$/.test(at) || Math.abs(now - Number(at)) > TOLERANCE || !/^sha256=[0-9a-f]{64}$/.test(given)) return false;
  const signed = joined(new TextEncoder().encode(`${at}.`), body);
  const mac = Uint8Array.from(given.slice(7).match(/../g) ?? [], (pair) => parseInt(pair, 16));
  // Compares in constant time.
  return crypto.subtle.verify("HMAC", await hmac(new TextEncoder().encode(secret)), mac, signed);
}

/** The headers of a post to a webhook trigger (`whsec_…`), after Standard Webhooks. */
export async function signed(secret: string, id: string, body: Uint8Array, now = Date.now() / 1000): Promise<Record<string, string>> {
  const at = String(Math.floor(now));
  const key = Uint8Array.from(atob(secret.replace(/^whsec_/, "")), (letter) => letter.charCodeAt(0));
  const text = joined(new TextEncoder().encode(`${id}.${at}.`), body);
  const mac = new Uint8Array(await crypto.subtle.sign("HMAC", await hmac(key), text));
  return { "webhook-id": id, "webhook-timestamp": at, "webhook-signature": `v1,${btoa(String.fromCharCode(...mac))}` };
}

type Frame = { name: string; id: string | undefined; data: string };

function read(text: string): Frame {
  const frame: Frame = { name: "message", id: undefined, data: "" };
  const data: string[] = [];
  for (const line of text.split("\n")) {
    const [, field, value] = /^([^:]*):? ?(.*)$/.exec(line) ?? [];
    if (field === "event") frame.name = value ?? "";
    if (field === "id") frame.id = value;
    if (field === "data") data.push(value ?? "");
  }
  return { ...frame, data: data.join("\n") };
}

async function* parts(response: Response): AsyncGenerator<Uint8Array> {
  const reader = response.body?.getReader();
  for (;;) {
    const part = await reader?.read();
    if (part?.value === undefined) return;
    yield part.value;
  }
}

/** A frame of another kind, such as a snapshot, has no sequence. */
function isEvent(value: unknown): value is RunEvent {
  return typeof value === "object" && value !== null && "sequence" in value && "type" in value;
}

/** Whether the same request may succeed later: the host starts again, or is busy. */
function mayPass(error: unknown): boolean {
  return !(error instanceof Problem) || [429, 502, 503, 504].includes(error.status);
}

function rest(failures: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, Math.min(250 * 2 ** failures, 5000)));
}

function hmac(key: Uint8Array): Promise<CryptoKey> {
  return crypto.subtle.importKey("raw", Uint8Array.from(key), { name: "HMAC", hash: "SHA-256" }, false, ["sign", "verify"]);
}

function joined(first: Uint8Array, second: Uint8Array): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(first.length + second.length);
  whole.set(first);
  whole.set(second, first.length);
  return whole;
}
