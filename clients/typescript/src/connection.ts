// One HTTP request and its answer. Invariant: nothing here sends a request twice.

import { type Members, NO_ANSWER, TidegateError, noAnswer } from "./errors.js";
import { decode } from "./json.js";

/** What is sent. */
export interface Asked {
  method: "GET" | "POST" | "PATCH";
  url: string;
  headers: Record<string, string>;
  body?: string;
}

/** The JSON of the answer. Throws TidegateError: `no_answer`, or the server's problem. */
export async function ask(asked: Asked, timeoutMs: number): Promise<unknown> {
  const { method, url, headers, body } = asked;
  const signal = AbortSignal.timeout(Math.max(1, Math.ceil(timeoutMs)));
  let answer: Response;
  let text: string;
  try {
    answer = await fetch(url, { method, headers, signal, ...(body === undefined ? {} : { body }) });
    text = await answer.text();
  } catch (error) {
    throw noAnswer(error);
  }
  if (answer.status >= 400) {
    throw problem(answer, text);
  }
  try {
    return decode(text);
  } catch {
    throw new TidegateError(NO_ANSWER, `the answer is not JSON, so not Tidegate's: ${text.slice(0, 80)}`);
  }
}

/** The problem (RFC 9457) in an answer; one of a proxy in between has only a status. */
export function problem(answer: Response, text: string): TidegateError {
  const after = answer.headers.get("retry-after") ?? "";
  const retryAfter = /^\d+$/.test(after) ? Number(after) : undefined;
  try {
    const members = decode(text) as Members;
    if (typeof members.code === "string" && typeof members.detail === "string") {
      return new TidegateError(members.code, members.detail, answer.status, retryAfter, members);
    }
  } catch {
    // Not JSON.
  }
  return new TidegateError(`http_${answer.status}`, text.slice(0, 200), answer.status, retryAfter);
}
