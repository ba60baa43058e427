package tidegate_test

// Safe retries against a server that answers as it is told.

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	tidegate "tidegate/client"
)

const alphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
const applied = `{"id":"vote-1","outcome":"applied","some_later_field":[1]}`

// said is an answer; of status zero, the connection breaks off.
type said struct {
	status     int
	retryAfter string
	text       string
}

// vote votes at a server that answers so, and returns the bodies that it got.
func vote(t *testing.T, script []said, retry tidegate.Retry) (bodies []string, outcome tidegate.Outcome, err error) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		body := must(io.ReadAll(request.Body))
		answer := script[len(bodies)]
		bodies = append(bodies, string(body))
		if answer.status == 0 {
			panic(http.ErrAbortHandler)
		}
		if answer.retryAfter != "" {
			writer.Header().Set("Retry-After", answer.retryAfter)
		}
		writer.WriteHeader(answer.status)
		_ = must(writer.Write([]byte(answer.text)))
	}))
	defer server.Close()
	client := tidegate.New(server.URL, tidegate.Options{Token: "token", Retry: retry})
	if strings.Contains(script[0].text, `"token"`) {
		must(client.LogIn(ctx, "dave", "dave"))
	}
	request := tidegate.TransferRequest{Debit: "wallet:dave", Credit: "candidate:3", Amount: 1}
	outcome, err = client.Transfer(ctx, request)
	return bodies, outcome, err
}

func TestTheSameRequestUntilThereIsAnAnswer(t *testing.T) {
	busy := said{429, "1", `{"code":"quota_exceeded","detail":"slower"}`}
	begun := time.Now()
	script := []said{{}, {500, "", "a proxy's page"}, busy, {201, "", applied}}
	bodies, outcome, err := vote(t, script, tidegate.Retry{})
	same(t, err, nil)
	same(t, outcome.Outcome, tidegate.OutcomeKindApplied)
	same(t, len(bodies), 4)
	same(t, bodies[1:], []string{bodies[0], bodies[0], bodies[0]})
	if took := time.Since(begun); took < time.Second {
		t.Fatalf("it was told to wait a second, and waited %v", took)
	}
}

func TestARefusalIsNotAskedAgain(t *testing.T) {
	refusal := said{409, "", `{"code":"insufficient_funds","detail":"only 4","available":4}`}
	bodies, _, err := vote(t, []said{refusal}, tidegate.Retry{})
	failed := refused(t, err, "insufficient_funds", 409)
	same(t, string(failed.Members["available"]), "4")
	same(t, len(bodies), 1)
}

func TestTheDeadlineEndsItWithTheLastError(t *testing.T) {
	busy := said{503, "5", `{"code":"busy","detail":"too much is under way"}`}
	begun := time.Now()
	bodies, _, err := vote(t, []said{busy, busy}, tidegate.Retry{Deadline: 2 * time.Second})
	same(t, refused(t, err, "busy", 503).RetryAfter, 5*time.Second)
	same(t, len(bodies), 1)
	if took := time.Since(begun); took > 2*time.Second {
		t.Fatalf("it went on for %v", took)
	}
}

func TestAnExpiredTokenIsRenewedAndTheSameRequestSent(t *testing.T) {
	expired := said{401, "", `{"code":"token_expired","detail":"the token has expired"}`}
	token := said{200, "", `{"token":"new","expires_at":"2026-11-21T09:14:49Z"}`}
	bodies, outcome, err := vote(t, []said{token, expired, token, {201, "", applied}}, tidegate.Retry{})
	same(t, err, nil)
	same(t, outcome.Outcome, tidegate.OutcomeKindApplied)
	same(t, bodies, []string{bodies[0], bodies[1], bodies[0], bodies[1]})
}

func TestAnEmptyIDMeansANewOneAtEachCall(t *testing.T) {
	ids := map[string]bool{}
	for call := 0; call < 2; call++ {
		bodies, _, err := vote(t, []said{{503, "", `{"code":"busy"}`}, {201, "", applied}}, tidegate.Retry{})
		same(t, err, nil)
		same(t, bodies[1], bodies[0])
		ids[bodies[0]] = true
	}
	same(t, len(ids), 2)
}

func TestIDsGrow(t *testing.T) {
	last := ""
	for made := 0; made < 10_000; made++ {
		id := tidegate.NewID()
		if len(id) != 26 || id <= last {
			t.Fatalf("%q came after %q", id, last)
		}
		last = id
	}
	timeMS := int64(0)
	for _, digit := range last[:10] {
		timeMS = timeMS*32 + int64(strings.IndexRune(alphabet, digit))
	}
	if off := time.Since(time.UnixMilli(timeMS)); off < -time.Minute || off > time.Minute {
		t.Fatalf("the time in %q is off by %v", last, off)
	}
}
