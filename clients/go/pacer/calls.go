package pacer

import "context"

// Bids asks for 1 to ItemsMax bids, and appends the answers to bids in the order of the requests. With room in bids it
// allocates nothing. If it fails, the auctions go on without these bids: do not ask for them again.
func (c *Conn) Bids(ctx context.Context, requests []BidRequest, bids []Bid) ([]Bid, error) {
	if len(requests) == 0 || len(requests) > ItemsMax {
		return bids, ErrItems
	}
	what := call{kind: caseBids, items: len(requests), bids: bids}
	err := c.ask(ctx, &what, func(out []byte, correlation uint64) []byte {
		return appendBids(out, correlation, requests)
	})
	if err != nil {
		return bids, err
	}
	return what.bids, nil
}

// Wins tells of 1 to ItemsMax wins, and appends what became of each to outcomes, in their order. If it fails with a
// *LostError or with the context's error, tell of them again: each counts once.
func (c *Conn) Wins(ctx context.Context, wins []Win, outcomes []Outcome) ([]Outcome, error) {
	return c.notify(ctx, len(wins), outcomes, func(out []byte, correlation uint64) []byte {
		return appendWins(out, correlation, wins)
	})
}

// Losses tells of 1 to ItemsMax bids that did not win, so that what they reserved is free; otherwise as Wins.
func (c *Conn) Losses(ctx context.Context, tokens []Token, outcomes []Outcome) ([]Outcome, error) {
	return c.notify(ctx, len(tokens), outcomes, func(out []byte, correlation uint64) []byte {
		return appendLosses(out, correlation, tokens)
	})
}

func (c *Conn) notify(
	ctx context.Context, items int, outcomes []Outcome, write func(out []byte, correlation uint64) []byte,
) ([]Outcome, error) {
	if items == 0 || items > ItemsMax {
		return outcomes, ErrItems
	}
	what := call{kind: caseOutcomes, items: items, outcomes: outcomes}
	if err := c.ask(ctx, &what, write); err != nil {
		return outcomes, err
	}
	return what.outcomes, nil
}

// PutCampaign gives a campaign a plan: JSON, as the body of PUT /v1/campaigns/{id}. What is wrong with it is an *Error
// with the code that it has over HTTP, such as campaign_plan_invalid.
func (c *Conn) PutCampaign(ctx context.Context, id string, plan []byte) (CampaignPut, error) {
	what := call{kind: caseCampaignPut}
	err := c.ask(ctx, &what, func(out []byte, correlation uint64) []byte {
		return appendPut(out, correlation, id, plan)
	})
	return what.put, err
}

// EndCampaign ends a campaign: nothing more is bid on it, and its bids may still win.
func (c *Conn) EndCampaign(ctx context.Context, id string) error {
	what := call{kind: caseCampaignEnded}
	return c.ask(ctx, &what, func(out []byte, correlation uint64) []byte {
		return appendEnd(out, correlation, id)
	})
}
