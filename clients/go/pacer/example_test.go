package pacer_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"tidegate/client/pacer"
)

// Gives a campaign a plan, asks for bids until there is one, and says that it has won.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pacer.Dial(ctx, os.Getenv("TIDEGATE_BINARY"), pacer.Options{Token: "dev-service-token"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	plan := `{"account": "campaign:go", "spend": "spend:go", "budget_micros": 1000000, "price_micros": 2500,
		"strategy": {"name": "as_fast_as_possible"}, "flights": [{"starts_ms": 0, "ends_ms": 4102444800000}]}`
	campaign, err := conn.PutCampaign(ctx, "example", []byte(plan))
	if err != nil {
		fmt.Println(err)
		return
	}
	// Reused from packet to packet, so that nothing is allocated.
	requests, bids := make([]pacer.BidRequest, 10), make([]pacer.Bid, 0, 10)
	for auction := uint64(1); ; auction++ {
		for index := range requests {
			requests[index] = pacer.BidRequest{ID: auction*10 + uint64(index), Campaign: campaign.Number}
		}
		if bids, err = conn.Bids(ctx, requests, bids[:0]); err != nil {
			fmt.Println(err)
			return
		}
		// Money is leased when it is asked for, so the first requests find none.
		if bids[0].IsBid {
			break
		}
	}
	fmt.Println("bid", bids[0].PriceMicros, "micros")
	wins := []pacer.Win{{Token: bids[0].Token, PriceMicros: 2100}}
	for try := 0; try < 2; try++ { // as if the first answer had been lost: it counts once
		outcomes, err := conn.Wins(ctx, wins, nil)
		fmt.Println("win:", outcomes, err)
	}
	// Output:
	// bid 2500 micros
	// win: [taken] <nil>
	// win: [duplicate] <nil>
}
