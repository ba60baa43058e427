// The stream of changes, which goes on where it broke off.
//
//   connect after cursor ─▶ row, row, heartbeat, … ─▶ broken ─▶ wait ─▶ connect after the last cursor that came whole
//
// Promise: every change comes once, in the order of its shard, over restarts of the server and of this program, if the
// program keeps the cursor of the last change that it has worked with.

import { problem } from "./connection.js";
import { NO_ANSWER, TidegateError, noAnswer } from "./errors.js";
import { decode } from "./json.js";
import type { Change } from "./models.js";
import { Attempts, type Retry } from "./retry.js";

/** The server says something every five seconds. */
const SILENCE_MS_MAX = 15_000;

/** What the stream needs of its client. */
export interface Source {
  url(path: string, query: Record<string, unknown>): string;
  headers(): Record<string, string>;
  logInAgain(): Promise<boolean>;
}

/** A line of the stream. */
type Row = Omit<Change, "cursor"> & { cursor?: string };

/** The changes that `query` asks for. */
export async function* follow(
  source: Source,
  query: Record<string, unknown>,
  retry: Retry,
): AsyncGenerator<Change, void, void> {
  const attempts = new Attempts(retry);
  for (;;) {
    try {
      for await (const row of rows(source, query)) {
        attempts.succeeded();
        query.after = row.cursor ?? query.after;
        if (row.kind === "end") {
          return;
        }
        if (row.kind !== "heartbeat") {
          yield row as Change;
        }
      }
      throw noAnswer("the stream of changes broke off");
    } catch (error) {
      await attempts.failed(error);
    }
  }
}

/** The rows of one connection, until it breaks. Half a line counts for nothing. */
async function* rows(source: Source, query: Record<string, unknown>): AsyncGenerator<Row, void, void> {
  const abort = new AbortController();
  let silence = setTimeout(() => abort.abort(), SILENCE_MS_MAX);
  try {
    const body = await connect(source, query, abort.signal);
    const reader = body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { done, value } = await received(reader.read());
      if (done) {
        return;
      }
      clearTimeout(silence);
      silence = setTimeout(() => abort.abort(), SILENCE_MS_MAX);
      const lines = (text + value).split("\n");
      text = lines.pop() ?? "";
      for (const line of lines) {
        yield decode(line) as Row;
      }
    }
  } finally {
    clearTimeout(silence);
    abort.abort();
  }
}

async function connect(source: Source, query: Record<string, unknown>, signal: AbortSignal) {
  const headers = { accept: "application/x-ndjson", ...source.headers() };
  const answer = await received(fetch(source.url("/v1/changes", query), { headers, signal }));
  if (answer.status === 401 && (await source.logInAgain())) {
    throw new TidegateError(NO_ANSWER, "the token had expired; there is a new one");
  }
  if (answer.status !== 200 || answer.body === null) {
    throw problem(answer, await received(answer.text()));
  }
  return answer.body;
}

async function received<T>(from: Promise<T>): Promise<T> {
  try {
    return await from;
  } catch (error) {
    throw noAnswer(error);
  }
}
