package tidegate

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// Options of a client. The zero value is good.
type Options struct {
	// A service's token; or call LogIn.
	Token string
	// For one attempt; zero means 15 s.
	Timeout time.Duration
	// For a request with all its attempts.
	Retry Retry
	// What connections are made with; nil means http.DefaultTransport.
	Transport http.RoundTripper
}

// Client is a client of one server, good for many goroutines.
type Client struct {
	base    string
	http    http.Client
	timeout time.Duration
	retry   Retry

	mutex          sync.Mutex
	token          string
	user, password string
}

// New makes a client of the server at an address such as http://localhost:8080.
func New(address string, options Options) *Client {
	if options.Timeout <= 0 {
		options.Timeout = 15 * time.Second
	}
	return &Client{
		base:    strings.TrimRight(address, "/"),
		http:    http.Client{Transport: options.Transport},
		timeout: options.Timeout,
		retry:   options.Retry.orDefault(30 * time.Second),
		token:   options.Token,
	}
}

// LogIn gets a token for a password. When it expires, the client does it again by itself.
func (c *Client) LogIn(ctx context.Context, user, password string) (Token, error) {
	what := post("/v1/login", map[string]string{"user": user, "password": password})
	what.isOpen = true
	given, err := ask[Token](ctx, c, what)
	if err == nil {
		c.mutex.Lock()
		defer c.mutex.Unlock()
		c.token, c.user, c.password = given.Token, user, password
	}
	return given, err
}

func (c *Client) currentToken() string {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.token
}

// logInAgain fails if there is no password for a new token.
func (c *Client) logInAgain(ctx context.Context) error {
	c.mutex.Lock()
	user, password := c.user, c.password
	c.mutex.Unlock()
	if user == "" {
		return errors.New("this client has no password")
	}
	_, err := c.LogIn(ctx, user, password)
	return err
}

// OpenAccount opens an account; one that is open already with the same asset and kind is returned.
func (c *Client) OpenAccount(ctx context.Context, account AccountRequest) (Account, error) {
	return ask[Account](ctx, c, post("/v1/accounts", account))
}

// OpenAccounts opens up to 8,190 accounts; an outcome for each, in this order.
func (c *Client) OpenAccounts(ctx context.Context, accounts []AccountRequest) ([]Outcome, error) {
	return c.outcomes(ctx, post("/v1/accounts", map[string]any{"accounts": accounts}))
}

// Account reads an account's figures.
func (c *Client) Account(ctx context.Context, id string) (Account, error) {
	return ask[Account](ctx, c, get("/v1/accounts/"+url.PathEscape(id), nil))
}

// BalanceAt reads an account's balance at a time.
func (c *Client) BalanceAt(ctx context.Context, id string, at time.Time) (BalanceAt, error) {
	query := url.Values{"at": {rfc3339(at)}}
	for {
		balance, err := ask[BalanceAt](ctx, c, get("/v1/accounts/"+url.PathEscape(id), query))
		var failed *Error
		// The server looks at a bounded number of rows in one request.
		if !errors.As(err, &failed) || failed.Code != "history_too_long" {
			return balance, err
		}
		var next string
		if json.Unmarshal(failed.Members["next"], &next) != nil || next == "" {
			return balance, err
		}
		query.Set("before", next)
	}
}

// Transfer moves minor units, once for this id. The zero value of ID, an empty one, means "make one": each call has a
// new id, which the outcome has, so a second call with the same TransferRequest pays a second time. The retries within
// one call do not. For what you may send again, and to be safe over a crash of your program, make the id with NewID and
// store it first. The same holds for Transfers, LinkedTransfers, PlaceHold, PlaceHolds and PlaceLinkedHolds.
func (c *Client) Transfer(ctx context.Context, transfer TransferRequest) (Outcome, error) {
	fillID(&transfer.ID)
	return ask[Outcome](ctx, c, post("/v1/transfers", transfer))
}

// Transfers makes up to 8,190 transfers; an outcome for each, in this order.
func (c *Client) Transfers(ctx context.Context, transfers []TransferRequest) ([]Outcome, error) {
	return c.outcomes(ctx, post("/v1/transfers", map[string]any{"transfers": withIDs(transfers)}))
}

// LinkedTransfers applies all of these transfers, or none.
func (c *Client) LinkedTransfers(ctx context.Context, transfers []TransferRequest) ([]Outcome, error) {
	body := map[string]any{"transfers": withIDs(transfers), "linked": true}
	return c.outcomes(ctx, post("/v1/transfers", body))
}

// PlaceHold reserves an amount of Debit for a later post to Credit. An empty ID means "make one", as for Transfer.
func (c *Client) PlaceHold(ctx context.Context, hold HoldRequest) (Outcome, error) {
	fillID(&hold.ID)
	return ask[Outcome](ctx, c, post("/v1/holds", hold))
}

// Audit reads the last reconciliation of every shard.
func (c *Client) Audit(ctx context.Context) (Audit, error) {
	return ask[Audit](ctx, c, get("/v1/audit", nil))
}

func (c *Client) outcomes(ctx context.Context, what asked) ([]Outcome, error) {
	answer, err := ask[struct{ Outcomes []Outcome }](ctx, c, what)
	return answer.Outcomes, err
}

func withIDs(transfers []TransferRequest) []TransferRequest {
	filled := append([]TransferRequest{}, transfers...)
	for place := range filled {
		fillID(&filled[place].ID)
	}
	return filled
}

func fillID(id *string) {
	if *id == "" {
		*id = NewID()
	}
}

func rfc3339(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05.000Z") }
