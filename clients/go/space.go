package tidegate

import (
	"context"
	"net/url"
)

// Space is an id space: transfers and holds by the ids that a viewer, or another service, chose. Client.IDSpace gives
// one; the client's own methods of these names are about the space of its token.
type Space struct {
	client *Client
	query  url.Values
}

// IDSpace is the id space of a name: the user name of a viewer, or the id_space of a service.
func (c *Client) IDSpace(name string) Space {
	return Space{client: c, query: url.Values{"id_space": {name}}}
}

func (c *Client) ownSpace() Space { return Space{client: c} }

// TransferState reads what became of a transfer.
func (s Space) TransferState(ctx context.Context, id string) (TransferState, error) {
	return ask[TransferState](ctx, s.client, get("/v1/transfers/"+url.PathEscape(id), s.query))
}

// Hold reads a hold and where it is in its life.
func (s Space) Hold(ctx context.Context, id string) (HoldState, error) {
	return ask[HoldState](ctx, s.client, get("/v1/holds/"+url.PathEscape(id), s.query))
}

// PostHold moves all that is held.
func (s Space) PostHold(ctx context.Context, id string) (Outcome, error) {
	return ask[Outcome](ctx, s.client, s.post("/v1/holds/"+url.PathEscape(id)+"/post", struct{}{}))
}

// PostHoldPart moves a part of what is held; the rest is available again.
func (s Space) PostHoldPart(ctx context.Context, id string, amount int64) (Outcome, error) {
	body := map[string]int64{"amount": amount}
	return ask[Outcome](ctx, s.client, s.post("/v1/holds/"+url.PathEscape(id)+"/post", body))
}

// VoidHold makes what is held available again.
func (s Space) VoidHold(ctx context.Context, id string) (Outcome, error) {
	return ask[Outcome](ctx, s.client, s.post("/v1/holds/"+url.PathEscape(id)+"/void", struct{}{}))
}

// Post is a hold to post.
type Post struct {
	ID string `json:"id"`
	// Zero for all that is held.
	Amount int64 `json:"amount,omitempty"`
}

// PostHolds posts up to 8,190 holds.
func (s Space) PostHolds(ctx context.Context, posts []Post) ([]Outcome, error) {
	return s.client.outcomes(ctx, s.post("/v1/holds/post", map[string]any{"posts": posts}))
}

// VoidHolds voids up to 8,190 holds.
func (s Space) VoidHolds(ctx context.Context, ids []string) ([]Outcome, error) {
	return s.client.outcomes(ctx, s.post("/v1/holds/void", map[string]any{"ids": ids}))
}

func (s Space) post(path string, body any) asked {
	what := post(path, body)
	what.query = s.query
	return what
}

// TransferState reads what became of a transfer.
func (c *Client) TransferState(ctx context.Context, id string) (TransferState, error) {
	return c.ownSpace().TransferState(ctx, id)
}

// Hold reads a hold and where it is in its life.
func (c *Client) Hold(ctx context.Context, id string) (HoldState, error) {
	return c.ownSpace().Hold(ctx, id)
}

// PostHold moves all that is held.
func (c *Client) PostHold(ctx context.Context, id string) (Outcome, error) {
	return c.ownSpace().PostHold(ctx, id)
}

// PostHoldPart moves a part of what is held; the rest is available again.
func (c *Client) PostHoldPart(ctx context.Context, id string, amount int64) (Outcome, error) {
	return c.ownSpace().PostHoldPart(ctx, id, amount)
}

// VoidHold makes what is held available again.
func (c *Client) VoidHold(ctx context.Context, id string) (Outcome, error) {
	return c.ownSpace().VoidHold(ctx, id)
}

// PostHolds posts up to 8,190 holds.
func (c *Client) PostHolds(ctx context.Context, posts []Post) ([]Outcome, error) {
	return c.ownSpace().PostHolds(ctx, posts)
}

// VoidHolds voids up to 8,190 holds.
func (c *Client) VoidHolds(ctx context.Context, ids []string) ([]Outcome, error) {
	return c.ownSpace().VoidHolds(ctx, ids)
}
