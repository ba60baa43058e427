package tidegate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// asked is a request; its bytes are the same however often it is sent.
type asked struct {
	method, path string
	query        url.Values
	body         []byte
	isOpen       bool // needs no token
}

func get(path string, query url.Values) asked {
	return asked{method: http.MethodGet, path: path, query: query}
}

func post(path string, body any) asked {
	text, err := json.Marshal(body)
	if err != nil {
		panic(fmt.Sprintf("a request is plain JSON: %v", err))
	}
	return asked{method: http.MethodPost, path: path, body: text}
}

// ask sends a request as often as it needs, and decodes the answer.
func ask[T any](ctx context.Context, client *Client, what asked) (T, error) {
	var answer T
	attempts, hasLoggedIn := client.retry.begin(), what.isOpen
	for {
		err := client.once(ctx, what, attempts.left(), &answer)
		if err == nil {
			return answer, nil
		}
		if hasCode(err, "token_expired") && !hasLoggedIn && client.logInAgain(ctx) == nil {
			hasLoggedIn = true
			continue
		}
		if err := attempts.failed(ctx, err); err != nil {
			return answer, err
		}
	}
}

// once sends a request once.
func (c *Client) once(ctx context.Context, what asked, left time.Duration, answer any) error {
	within := c.timeout
	if left > 0 && left < within {
		within = left
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	request, err := c.request(ctx, what)
	if err != nil {
		return err
	}
	response, err := c.http.Do(request)
	if err != nil {
		return noAnswer(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	switch {
	case err != nil:
		return noAnswer(err)
	case response.StatusCode >= 400:
		return problem(response, text)
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return noAnswer(fmt.Errorf("the answer is not what Tidegate says (%w): %q", err, first(text, 80)))
	}
	return nil
}

func (c *Client) request(ctx context.Context, what asked) (*http.Request, error) {
	address := c.base + what.path
	if len(what.query) > 0 {
		address += "?" + what.query.Encode()
	}
	request, err := http.NewRequestWithContext(ctx, what.method, address, bytes.NewReader(what.body))
	if err != nil {
		return nil, err
	}
	if what.body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if token := c.currentToken(); token != "" && !what.isOpen {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	return request, nil
}

func hasCode(err error, code string) bool {
	var failed *Error
	return errors.As(err, &failed) && failed.Code == code
}
