package tidegate

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// The server says something every five seconds.
const silenceMax = 15 * time.Second

// ChangesQuery chooses changes. The zero value is all of them, from the first, and those that will be.
type ChangesQuery struct {
	// A cursor, "start" or "now".
	After string
	// "wallet:*" or one account id.
	Accounts string
	Kinds    []string
	// Whether the stream ends where nothing more is durable.
	IsToEnd bool
	// How long to try to go on after a broken connection; for ever, if its Deadline is zero.
	Retry Retry
}

// Changes is the stream of changes, which goes on where it broke off:
//
//	connect after cursor -> row, row, heartbeat ... -> broken -> wait -> connect after the last cursor that came whole
//
// Promise: every change comes once, in the order of its shard, over restarts of the server and of this program, if the
// program keeps the cursor of the last change that it has worked with.
type Changes struct {
	ctx      context.Context
	client   *Client
	query    url.Values
	attempts *attempts
	open     *connection
	value    Change
	isEnded  bool
	err      error
}

// Changes reads what happened behind a cursor, and what happens later. Call Close when you want no more.
func (c *Client) Changes(ctx context.Context, chosen ChangesQuery) *Changes {
	query := url.Values{"after": {"start"}, "follow": {"true"}}
	if chosen.After != "" {
		query.Set("after", chosen.After)
	}
	if chosen.Accounts != "" {
		query.Set("accounts", chosen.Accounts)
	}
	if len(chosen.Kinds) > 0 {
		query.Set("kinds", strings.Join(chosen.Kinds, ","))
	}
	if chosen.IsToEnd {
		query.Set("follow", "false")
	}
	return &Changes{ctx: ctx, client: c, query: query, attempts: chosen.Retry.orDefault(forEver).begin()}
}

// Next waits for the next change; false at the end, and after an error.
func (s *Changes) Next() bool {
	for !s.isEnded && s.err == nil {
		line, err := s.line()
		if err != nil {
			s.Close()
			s.err = s.attempts.failed(s.ctx, err)
			continue
		}
		s.attempts.succeeded()
		s.value = Change{}
		if s.err = json.Unmarshal(line, &s.value); s.err != nil {
			return false
		}
		if s.value.Cursor != "" {
			s.query.Set("after", s.value.Cursor)
		}
		switch s.value.Kind {
		case "heartbeat":
		case "end":
			s.isEnded = true
			s.Close()
		default:
			return true
		}
	}
	return false
}

// Value is the change.
func (s *Changes) Value() Change { return s.value }

// Err is what ended the loop.
func (s *Changes) Err() error { return s.err }

// Close ends the connection.
func (s *Changes) Close() {
	if s.open != nil {
		s.open.silence.Stop()
		s.open.cancel()
		s.open.body.Close()
		s.open = nil
	}
}

// connection is one that streams. Silence cancels it.
type connection struct {
	cancel  context.CancelFunc
	silence *time.Timer
	body    io.ReadCloser
	lines   *bufio.Reader
}

// line is the next whole line; half a line counts for nothing.
func (s *Changes) line() ([]byte, error) {
	if s.open == nil {
		if err := s.connect(); err != nil {
			return nil, err
		}
	}
	line, err := s.open.lines.ReadBytes('\n')
	if err != nil {
		return nil, noAnswer(err)
	}
	s.open.silence.Reset(silenceMax)
	return line, nil
}

func (s *Changes) connect() error {
	ctx, cancel := context.WithCancel(s.ctx)
	silence := time.AfterFunc(silenceMax, cancel)
	body, err := s.answer(ctx)
	if err != nil {
		silence.Stop()
		cancel()
		return err
	}
	s.open = &connection{cancel: cancel, silence: silence, body: body, lines: bufio.NewReader(body)}
	return nil
}

func (s *Changes) answer(ctx context.Context) (io.ReadCloser, error) {
	request, err := s.client.request(ctx, get("/v1/changes", s.query))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/x-ndjson")
	response, err := s.client.http.Do(request)
	if err != nil {
		return nil, noAnswer(err)
	}
	if response.StatusCode == http.StatusOK {
		return response.Body, nil
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, noAnswer(err)
	}
	failed := problem(response, text)
	if failed.Code == "token_expired" && s.client.logInAgain(ctx) == nil {
		return nil, noAnswer(errors.New("the token had expired; there is a new one"))
	}
	return nil, failed
}
