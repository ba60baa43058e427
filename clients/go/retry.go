package tidegate

import (
	"context"
	"errors"
	"math/rand"
	"time"
)

// Retry says when a request is sent again, and for how long.
//
//	attempt -> transient error -> wait (Retry-After, and back-off with jitter) -> attempt ... until an answer, or the end
type Retry struct {
	// For one request with all its attempts; negative sends each request once. Zero means 30 s; of changes, for ever.
	Deadline time.Duration
	// Waits begin at Wait, double up to WaitMax, and are a random part of that, so that clients do not come at once.
	// Zero means 50 ms and 2 s.
	Wait, WaitMax time.Duration
}

func (r Retry) orDefault(deadline time.Duration) Retry {
	if r.Deadline == 0 {
		r.Deadline = deadline
	}
	if r.Wait <= 0 {
		r.Wait = 50 * time.Millisecond
	}
	if r.WaitMax <= 0 {
		r.WaitMax = 2 * time.Second
	}
	return r
}

// forEver is longer than any program runs.
const forEver = 100 * 365 * 24 * time.Hour

// attempts are those of one request.
type attempts struct {
	retry Retry
	begun time.Time
	wait  time.Duration
}

func (r Retry) begin() *attempts {
	return &attempts{retry: r, begun: time.Now(), wait: r.Wait}
}

// left until the deadline.
func (a *attempts) left() time.Duration { return a.retry.Deadline - time.Since(a.begun) }

// succeeded: something was received, so the deadline and the waits begin anew.
func (a *attempts) succeeded() { a.begun, a.wait = time.Now(), a.retry.Wait }

// failed waits before the next attempt; it returns an error if there shall be none.
func (a *attempts) failed(ctx context.Context, err error) error {
	var failed *Error
	if !errors.As(err, &failed) || !failed.IsTransient() || ctx.Err() != nil {
		return err
	}
	pause := failed.RetryAfter + time.Duration(rand.Int63n(int64(a.wait)+1))
	if pause >= a.left() {
		return err
	}
	if a.wait *= 2; a.wait > a.retry.WaitMax {
		a.wait = a.retry.WaitMax
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return err
	}
}
