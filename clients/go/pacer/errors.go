package pacer

import (
	"errors"
	"fmt"
	"time"
)

// Error is what the server said instead of an answer: nothing of the request was served.
type Error struct {
	// Stable name for programs, such as busy, forbidden or campaign_plan_invalid.
	Code string
	// A sentence for people.
	Detail string
	// When asking again makes sense, but never for bids; zero if it does not.
	RetryAfter time.Duration
}

// Error is Code and Detail.
func (e *Error) Error() string { return e.Code + ": " + e.Detail }

// LostError says that the connection has ended. Whether calls under way were served is unknown.
type LostError struct {
	// What was wrong with the connection.
	Cause error
}

// Error says what happened, and what to do.
func (e *LostError) Error() string {
	const then = "dial again, and send wins and losses again, but no bid requests"
	return fmt.Sprintf("the connection is lost: %v; %s", e.Cause, then)
}

// Unwrap is the cause.
func (e *LostError) Unwrap() error { return e.Cause }

// ErrItems says that a packet has no items, or more than ItemsMax; nothing was sent.
var ErrItems = errors.New("a packet has 1 to 256 items: send it in parts")

// ErrClosed is the cause when Close was called.
var ErrClosed = errors.New("it was closed here")

// errMalformed: what came is no reply of this protocol.
var errMalformed = errors.New("what came is no reply; is this the binary port of Tidegate?")

func tooLarge(bytes, bytesMax int) error {
	return fmt.Errorf("the request has %d bytes, but the server reads %d: make it shorter", bytes, bytesMax)
}

func tooLong(bytes uint64, bytesMax int) error {
	return fmt.Errorf("a reply has %d bytes, and none has more than %d; is this the binary port?", bytes, bytesMax)
}

// inTime: the context has ended before the answer came, or before the request could be sent.
func inTime(cause error, wasSent bool) error {
	if wasSent {
		return fmt.Errorf("no answer in time, the outcome is unknown: %w", cause)
	}
	return fmt.Errorf("as many requests are in flight as may be, and none was answered in time: %w", cause)
}
