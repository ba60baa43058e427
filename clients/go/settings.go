package tidegate

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
)

// AccountChange says what to change on an account. What has its zero value stays as it is.
type AccountChange struct {
	Status AccountStatus
	// A debit or hold that would leave less available is refused.
	BalanceMin *int64
	// A credit that would leave a larger balance is refused, also a hold for one.
	BalanceMax *int64
	// Take the limits away.
	NoBalanceMin, NoBalanceMax bool
	// Keys to set; those with nil are removed.
	Metadata map[string]*string
	// Refused (revision_stale) unless the account is at this revision.
	IfRevision *int64
}

// MarshalJSON writes null for what is taken away.
func (c AccountChange) MarshalJSON() ([]byte, error) {
	body := map[string]any{}
	if c.Status != "" {
		body["status"] = c.Status
	}
	limit := func(name string, value *int64, none bool) {
		if value != nil || none {
			body[name] = value
		}
	}
	limit("balance_min", c.BalanceMin, c.NoBalanceMin)
	limit("balance_max", c.BalanceMax, c.NoBalanceMax)
	limit("if_revision", c.IfRevision, false)
	if len(c.Metadata) > 0 {
		body["metadata"] = c.Metadata
	}
	return json.Marshal(body)
}

// ChangeAccount freezes, closes, limits or describes an account. With IfRevision, a request whose first answer was lost
// may be refused although it was done: read the account.
func (c *Client) ChangeAccount(ctx context.Context, id string, change AccountChange) (Account, error) {
	what := post("/v1/accounts/"+url.PathEscape(id), change)
	what.method = http.MethodPatch
	return ask[Account](ctx, c, what)
}

// OpenHolds lists the open holds on an account, in the order of their placement. pageRows is 1 to 1,000; zero means
// 1,000.
func (c *Client) OpenHolds(ctx context.Context, id string, pageRows int) *Pages[HoldState] {
	path, query := "/v1/accounts/"+url.PathEscape(id)+"/holds", url.Values{"limit": {rows(pageRows)}}
	return &Pages[HoldState]{ctx: ctx, client: c, path: path, query: query, rows: "holds", cursor: "after"}
}

// DeclareAsset says once how many digits of an amount stand behind the point. Amounts stay integers.
func (c *Client) DeclareAsset(ctx context.Context, name string, decimals int) error {
	_, err := ask[struct{}](ctx, c, post("/v1/assets", map[string]any{"name": name, "decimals": decimals}))
	return err
}

// Assets lists all assets, and for those who may read all accounts, how much of each there is.
func (c *Client) Assets(ctx context.Context) ([]Asset, error) {
	answer, err := ask[struct{ Assets []Asset }](ctx, c, get("/v1/assets", nil))
	return answer.Assets, err
}

// PlaceHolds places up to 8,190 holds; an outcome for each, in this order.
func (c *Client) PlaceHolds(ctx context.Context, holds []HoldRequest) ([]Outcome, error) {
	return c.outcomes(ctx, post("/v1/holds", map[string]any{"holds": holdsWithIDs(holds)}))
}

// PlaceLinkedHolds places all of these holds, or none.
func (c *Client) PlaceLinkedHolds(ctx context.Context, holds []HoldRequest) ([]Outcome, error) {
	return c.outcomes(ctx, post("/v1/holds", map[string]any{"holds": holdsWithIDs(holds), "linked": true}))
}

func holdsWithIDs(holds []HoldRequest) []HoldRequest {
	filled := append([]HoldRequest{}, holds...)
	for place := range filled {
		fillID(&filled[place].ID)
	}
	return filled
}
