// Clients that ask over HTTP, and write down what they asked, when, and what they were told.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

// Longer than any test.
const holdLifetimeMs = 3_600_000

// The accounts of one show: three wallets and who gets votes.
const wallets = 3

type history struct {
	mutex      sync.Mutex
	begun      time.Time
	operations []porcupine.Operation
	unknown    int
}

func (h *history) now() int64 { return time.Since(h.begun).Nanoseconds() }

func (h *history) note(client int, asked request, told reply, call, answer int64) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if told.outcome == unknown {
		h.unknown++
		answer = math.MaxInt64
	}
	h.operations = append(h.operations, porcupine.Operation{
		ClientId: client, Input: asked, Output: told, Call: call, Return: answer,
	})
}

type client struct {
	number  int
	server  *server
	history *history
	chance  *rand.Rand
	http    http.Client
}

// Accounts with one tag are on one shard.
func account(show, number int) string {
	if number == wallets {
		return fmt.Sprintf("candidate:{show-%d}", show)
	}
	return fmt.Sprintf("wallet:{show-%d}-%d", show, number)
}

func shop(show int) string {
	return fmt.Sprintf("source:{show-%d}", show)
}

// Asks `count` operations of one show. What has no answer is asked again until it has one.
func (c *client) play(show, count int) error {
	for done := 0; done < count; {
		asked := c.draw(show)
		for {
			call := c.history.now()
			told, err := c.ask(asked)
			if err != nil {
				return err
			}
			c.history.note(c.number, asked, told, call, c.history.now())
			done++
			if told.outcome != unknown {
				break
			}
			if err := c.server.await(); err != nil {
				return err
			}
		}
	}
	return nil
}

// Ids are few, so that clients meet: the same request again, another one under the same id, a hold that another ends.
func (c *client) draw(show int) request {
	number := c.chance.Intn(12)
	kind := c.chance.Intn(10)
	asked := request{show: show, debit: c.chance.Intn(wallets), credit: wallets, amount: int64(1 + c.chance.Intn(3))}
	switch {
	case kind < 3:
		return request{show: show, kind: opRead, debit: c.chance.Intn(wallets + 1)}
	case kind < 6:
		asked.kind, asked.id = opTransfer, fmt.Sprintf("t-%d-%d", show, number)
		asked.credit = (asked.debit + 1 + c.chance.Intn(wallets)) % (wallets + 1)
		return asked
	case kind < 8:
		asked.kind, asked.id = opHold, fmt.Sprintf("h-%d-%d", show, number)
		return asked
	case kind == 8:
		return request{show: show, kind: opPost, id: fmt.Sprintf("h-%d-%d", show, number)}
	default:
		return request{show: show, kind: opVoid, id: fmt.Sprintf("h-%d-%d", show, number)}
	}
}

func (c *client) ask(asked request) (reply, error) {
	body := map[string]any{}
	path := "/v1/accounts/" + url.PathEscape(account(asked.show, asked.debit))
	method := http.MethodPost
	switch asked.kind {
	case opRead:
		method = http.MethodGet
	case opTransfer, opHold:
		path = "/v1/transfers"
		body = map[string]any{
			"id": asked.id, "debit": account(asked.show, asked.debit), "credit": account(asked.show, asked.credit),
			"amount": asked.amount,
		}
		if asked.kind == opHold {
			path, body["expires_in_ms"] = "/v1/holds", holdLifetimeMs
		}
	case opPost, opVoid:
		path = "/v1/holds/" + asked.id + "/" + asked.kind
	}
	status, answer, err := c.send(method, path, body)
	if err != nil || status >= 500 || status == http.StatusTooManyRequests {
		return reply{outcome: unknown}, nil
	}
	if asked.kind == opRead && status == http.StatusOK {
		return reply{outcome: applied, balance: answer.Balance, held: answer.Held}, nil
	}
	switch {
	case status == http.StatusCreated, status == http.StatusOK && answer.Outcome == applied:
		return reply{outcome: applied}, nil
	case status == http.StatusOK:
		return reply{outcome: answer.Outcome}, nil
	case answer.Code != "":
		return reply{outcome: answer.Code, available: answer.Available}, nil
	}
	return reply{}, fmt.Errorf("%s %s: status %d without a code", method, path, status)
}

// What answers and problems have in common.
type answer struct {
	Outcome   string `json:"outcome"`
	Code      string `json:"code"`
	Balance   int64  `json:"balance"`
	Held      int64  `json:"held"`
	Available int64  `json:"available"`
}

func (c *client) send(method, path string, body any) (int, answer, error) {
	var sent io.Reader
	if method == http.MethodPost {
		text, err := json.Marshal(body)
		if err != nil {
			return 0, answer{}, err
		}
		sent = bytes.NewReader(text)
	}
	asked, err := http.NewRequest(method, "http://"+c.server.address+path, sent)
	if err != nil {
		return 0, answer{}, err
	}
	asked.Header.Set("Authorization", "Bearer "+token)
	asked.Header.Set("Content-Type", "application/json")
	got, err := c.http.Do(asked)
	if err != nil {
		return 0, answer{}, err
	}
	defer func() { _ = got.Body.Close() }()
	var told answer
	text, err := io.ReadAll(got.Body)
	if err != nil {
		return 0, answer{}, err
	}
	if err := json.Unmarshal(text, &told); err != nil {
		return 0, answer{}, err
	}
	return got.StatusCode, told, nil
}
