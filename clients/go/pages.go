package tidegate

import (
	"context"
	"encoding/json"
	"net/url"
	"strconv"
	"time"
)

// Pages goes through a list, page by page:
//
//	for accounts := client.Accounts(ctx, "wallet:", 0); accounts.Next(); { use(accounts.Value()) }
//
// Look at Err behind the loop.
type Pages[T any] struct {
	ctx          context.Context
	client       *Client
	path         string
	query        url.Values
	rows, cursor string
	page         []T
	value        T
	isLast       bool
	err          error
}

// Next goes to the next row; false at the end, and after an error.
func (p *Pages[T]) Next() bool {
	for len(p.page) == 0 {
		if p.isLast || p.err != nil {
			return false
		}
		p.err = p.fetch()
	}
	p.value, p.page = p.page[0], p.page[1:]
	return true
}

// Value is the row.
func (p *Pages[T]) Value() T { return p.value }

// Err is what ended the loop, nil if all was read.
func (p *Pages[T]) Err() error { return p.err }

func (p *Pages[T]) fetch() error {
	page, err := ask[map[string]json.RawMessage](p.ctx, p.client, get(p.path, p.query))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(page[p.rows], &p.page); err != nil {
		return err
	}
	next, isThere := page["next"]
	if p.isLast = !isThere; p.isLast {
		return nil
	}
	var cursor string
	if err := json.Unmarshal(next, &cursor); err != nil {
		return err
	}
	p.query.Set(p.cursor, cursor)
	return nil
}

// Accounts lists all accounts that this token may see whose ids begin with prefix, by id. pageRows is 1 to 1,000; zero
// means 1,000.
func (c *Client) Accounts(ctx context.Context, prefix string, pageRows int) *Pages[Account] {
	query := url.Values{"limit": {rows(pageRows)}}
	if prefix != "" {
		query.Set("prefix", prefix)
	}
	return &Pages[Account]{
		ctx: ctx, client: c, path: "/v1/accounts", query: query, rows: "accounts", cursor: "after",
	}
}

// HistoryQuery chooses rows of a history. The zero value is all of them.
type HistoryQuery struct {
	// Only rows of this time or later; only rows of this time or earlier.
	From, To time.Time
	// 1 to 1,000; zero means 1,000.
	PageRows int
}

// History reads an account's history, newest first.
func (c *Client) History(ctx context.Context, id string, chosen HistoryQuery) *Pages[HistoryRow] {
	query := url.Values{"limit": {rows(chosen.PageRows)}}
	if !chosen.From.IsZero() {
		query.Set("from_time", rfc3339(chosen.From))
	}
	if !chosen.To.IsZero() {
		query.Set("to_time", rfc3339(chosen.To))
	}
	path := "/v1/accounts/" + url.PathEscape(id) + "/transfers"
	return &Pages[HistoryRow]{ctx: ctx, client: c, path: path, query: query, rows: "transfers", cursor: "before"}
}

func rows(pageRows int) string {
	if pageRows <= 0 {
		pageRows = 1000
	}
	return strconv.Itoa(pageRows)
}
