package tidegate

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// NoAnswer is the code of a request without an answer.
const NoAnswer = "no_answer"

// Error says that a request did not give what was asked for.
type Error struct {
	// Stable name for programs, such as insufficient_funds.
	Code string
	// A sentence for people.
	Detail string
	// That of HTTP; zero if there was no answer at all, and Code is NoAnswer.
	Status int
	// How long the server asks to wait.
	RetryAfter time.Duration
	// All that the server said, such as "available".
	Members map[string]json.RawMessage
	// Of NoAnswer: what was wrong with the connection.
	Cause error
}

// Error is Code and Detail.
func (e *Error) Error() string { return e.Code + ": " + e.Detail }

// Unwrap is what was wrong with the connection, if there was no answer.
func (e *Error) Unwrap() error { return e.Cause }

// IsTransient says whether the same request may succeed later: no answer, 429 or 5xx. Its outcome may be unknown; asked
// again with the same id, it is never applied twice.
func (e *Error) IsTransient() bool {
	return e.Status == 0 || e.Status == http.StatusTooManyRequests || e.Status >= 500
}

// noAnswer: whether the request was done is unknown.
func noAnswer(cause error) *Error {
	detail := fmt.Sprintf("no answer from the server, the outcome is unknown: %v", cause)
	return &Error{Code: NoAnswer, Detail: detail, Cause: cause}
}

// problem reads the problem (RFC 9457) in an answer; one of a proxy in between has only a status.
func problem(answer *http.Response, text []byte) *Error {
	var said struct{ Code, Detail string }
	failed := &Error{Status: answer.StatusCode}
	if json.Unmarshal(text, &failed.Members) == nil && json.Unmarshal(text, &said) == nil && said.Code != "" {
		failed.Code, failed.Detail = said.Code, said.Detail
	} else {
		failed.Code, failed.Detail = fmt.Sprintf("http_%d", answer.StatusCode), string(first(text, 200))
	}
	if seconds, err := strconv.ParseUint(answer.Header.Get("Retry-After"), 10, 31); err == nil {
		failed.RetryAfter = time.Duration(seconds) * time.Second
	}
	return failed
}

func first(text []byte, bytesMax int) []byte {
	if len(text) > bytesMax {
		return text[:bytesMax]
	}
	return text
}
