package pacer

// ItemsMax is the most requests, wins or losses of one packet.
const ItemsMax = 256

// Token comes with a bid, and goes back with its win or loss.
type Token [32]byte

// BidRequest asks whether one campaign takes part in one auction.
type BidRequest struct {
	// Of the auction. The same id is decided in the same way by the same throttle.
	ID uint64
	// The campaign's number, as PutCampaign says it.
	Campaign uint32
	// Of whom the impression would be shown to: a hash that the client makes. Zero: unknown.
	User uint64
	// Of what the campaign is aimed at: a hash that the client makes. Zero: none.
	Key uint64
	// What the client would bid; zero: what the campaign bids.
	PriceMicros uint32
}

// Bid is the answer to one request: a price and a token, or a reason.
type Bid struct {
	// False: there is no bid, and NoBid says why.
	IsBid bool
	// What is to be bid.
	PriceMicros uint32
	Token       Token
	NoBid       NoBidReason
}

// Win is a bid that has won.
type Win struct {
	Token Token
	// What the impression cost, at most what was bid.
	PriceMicros uint32
}

// CampaignPut says that a campaign has a plan.
type CampaignPut struct {
	// By which bid requests name the campaign.
	Number uint32
	// The version of the plan that is in force.
	Version uint64
	// The campaign was made just now.
	IsNew bool
}

// NoBidReason says why there is no bid.
type NoBidReason uint8

// Reasons; NoBidUnspecified is one of a version to come.
const (
	NoBidUnspecified NoBidReason = iota
	CampaignUnknown
	NotInFlight
	NotTargeted
	Throttled
	FrequencyCapped
	NoLease
	PriceAboveCap
)

var noBidNames = [...]string{
	"unspecified", "campaign_unknown", "not_in_flight", "not_targeted", "throttled", "frequency_capped", "no_lease",
	"price_above_cap",
}

// String is the name that HTTP says.
func (r NoBidReason) String() string { return named(noBidNames[:], uint8(r)) }

// Outcome says what became of a win or a loss.
type Outcome uint8

// Outcomes; OutcomeUnspecified is one of a version to come.
const (
	OutcomeUnspecified Outcome = iota
	// It counts now.
	Taken
	// It counted before.
	Duplicate
	// A win came after its deadline and is not paid; or what a loss reserved had returned before.
	Late
	// The token is not one of this server.
	TokenInvalid
	// The price is above what was bid.
	PriceAboveBid
	// A win of a bid that was said to be lost before. It is not paid.
	Lost
	// A loss of a bid that has won. It changes nothing.
	Won
)

var outcomeNames = [...]string{
	"unspecified", "taken", "duplicate", "late", "token_invalid", "price_above_bid", "lost", "won",
}

// String is the name that HTTP says.
func (o Outcome) String() string { return named(outcomeNames[:], uint8(o)) }

func named(names []string, number uint8) string {
	if int(number) < len(names) {
		return names[number]
	}
	return names[0]
}
