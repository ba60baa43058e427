// When a request is sent again, and for how long.
//
//   attempt ─▶ transient error ─▶ wait (Retry-After, and back-off with jitter) ─▶ attempt … until an answer or the end

import { TidegateError } from "./errors.js";

/**
 * `deadlineMs` is for one request with all its attempts; 0 sends each request once, Infinity never gives up. Waits
 * begin at `waitMs`, double up to `waitMsMax`, and are a random part of that, so that clients do not come at once.
 */
export interface Retry {
  deadlineMs: number;
  waitMs: number;
  waitMsMax: number;
}

/** What a client does if it is not told otherwise. */
export const RETRY: Readonly<Retry> = { deadlineMs: 30_000, waitMs: 50, waitMsMax: 2_000 };

/** One request's attempts. */
export class Attempts {
  #begun = performance.now();
  #made = 0;

  constructor(readonly retry: Retry) {}

  /** Milliseconds until the deadline. */
  get leftMs(): number {
    return this.#begun + this.retry.deadlineMs - performance.now();
  }

  /** Something was received: the deadline and the waits begin anew. */
  succeeded(): void {
    this.#begun = performance.now();
    this.#made = 0;
  }

  /** Waits before the next attempt; throws `error` if there shall be none. */
  async failed(error: unknown): Promise<void> {
    if (!(error instanceof TidegateError) || !error.isTransient) {
      throw error;
    }
    const bound = Math.min(this.retry.waitMs * 2 ** this.#made, this.retry.waitMsMax);
    const pause = (error.retryAfter ?? 0) * 1000 + Math.random() * bound;
    if (pause >= this.leftMs) {
      throw error;
    }
    this.#made += 1;
    await new Promise((resolve) => setTimeout(resolve, pause));
  }
}
