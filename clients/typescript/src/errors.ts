// What went wrong, as one type.

/** What the server said of a problem, and more, such as `available`. */
export type Members = Readonly<Record<string, unknown>>;

/** The code of a request without an answer. */
export const NO_ANSWER = "no_answer";

/**
 * A request did not give what was asked for. `code` is a stable name for programs, such as `insufficient_funds`;
 * `detail` is a sentence for people. `status` is that of HTTP, or undefined if there was no answer at all (`code` is
 * then `no_answer`). `retryAfter` is in seconds.
 */
export class TidegateError extends Error {
  override readonly name = "TidegateError";

  constructor(
    readonly code: string,
    readonly detail: string,
    readonly status?: number,
    readonly retryAfter?: number,
    readonly members: Members = {},
  ) {
    super(`${code}: ${detail}`);
  }

  /**
   * Whether the same request may succeed later: no answer, 429 or 5xx. Its outcome may be unknown; asked again with the
   * same id, it is never applied twice.
   */
  get isTransient(): boolean {
    return this.status === undefined || this.status === 429 || this.status >= 500;
  }
}

/** The connection gave no answer: whether the request was done is unknown. */
export function noAnswer(error: unknown): TidegateError {
  const cause = error instanceof Error ? (error.cause ?? error) : error;
  return new TidegateError(NO_ANSWER, `no answer from the server, the outcome is unknown: ${cause}`);
}
