package pacer_test

// Against the real server at TIDEGATE_BINARY, which is started again when it is killed (tests/clients/run.py).

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	tidegate "tidegate/client"
	"tidegate/client/pacer"
)

const (
	token    = "dev-service-token"
	patience = time.Minute
)

func environment(t *testing.T, name string) string {
	t.Helper()
	found := os.Getenv(name)
	if found == "" {
		t.Fatalf("%s is not set: run `make client-libraries`", name)
	}
	return found
}

func deadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func dial(t *testing.T, token string) (*pacer.Conn, error) {
	t.Helper()
	conn, err := pacer.Dial(deadline(t), environment(t, "TIDEGATE_BINARY"), pacer.Options{Token: token})
	if err == nil {
		t.Cleanup(func() { conn.Close() })
	}
	return conn, err
}

// soon dials until the server serves.
func soon(t *testing.T) *pacer.Conn {
	t.Helper()
	for until := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		conn, err := dial(t, token)
		if err == nil {
			return conn
		}
		if time.Now().After(until) {
			t.Fatal(err)
		}
	}
}

// must ends the test if there is an error.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func same(t *testing.T, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("got %v, want %v", got, want)
	}
}

func refused(t *testing.T, err error, code string) {
	t.Helper()
	var said *pacer.Error
	if !errors.As(err, &said) || said.Code != code {
		t.Fatalf("got %v, want %s", err, code)
	}
}

func plan(id string, priceMicros int) []byte {
	return []byte(fmt.Sprintf(`{"account": "campaign:%s", "spend": "spend:%s", "budget_micros": 1000000000,
		"price_micros": %d, "strategy": {"name": "as_fast_as_possible"},
		"flights": [{"starts_ms": 0, "ends_ms": 4102444800000}]}`, id, id, priceMicros))
}

// campaign makes one with money, and gives its id and number.
func campaign(t *testing.T, conn *pacer.Conn) (string, uint32) {
	ctx, id := deadline(t), strings.ToLower(tidegate.NewID())
	ledger := tidegate.New(environment(t, "TIDEGATE_URL"), tidegate.Options{Token: token})
	for account, kind := range map[string]tidegate.AccountKind{
		"source:" + id:   tidegate.AccountKindSource,
		"campaign:" + id: tidegate.AccountKindWallet,
		"spend:" + id:    tidegate.AccountKindCollector,
	} {
		must(ledger.OpenAccount(ctx, tidegate.AccountRequest{ID: account, Asset: "usd_micros", Kind: kind}))
	}
	must(ledger.Transfer(ctx, tidegate.TransferRequest{
		Debit: "source:" + id, Credit: "campaign:" + id, Amount: 1_000_000_000,
	}))
	put := must(conn.PutCampaign(ctx, id, plan(id, 1000)))
	same(t, put, pacer.CampaignPut{Number: put.Number, Version: 1, IsNew: true})
	return id, put.Number
}

// offers asks with many goroutines until there are so many bids.
func offers(t *testing.T, conn *pacer.Conn, number uint32, wanted int) []pacer.Bid {
	t.Helper()
	ctx := deadline(t)
	var mutex sync.Mutex
	var offered []pacer.Bid
	var all sync.WaitGroup
	for asker := 0; asker < 16; asker++ {
		asker := asker
		all.Add(1)
		go func() {
			defer all.Done()
			requests, bids := make([]pacer.BidRequest, pacer.ItemsMax), make([]pacer.Bid, 0, pacer.ItemsMax)
			for packet := 0; ; packet++ {
				for index := range requests {
					id := uint64(asker<<32 | packet<<8 | index)
					requests[index] = pacer.BidRequest{ID: id, Campaign: number}
				}
				var err error
				if bids, err = conn.Bids(ctx, requests, bids[:0]); err != nil {
					t.Error(err)
					return
				}
				mutex.Lock()
				for _, bid := range bids {
					if bid.IsBid != (bid.PriceMicros == 1000) || bid.IsBid != (bid.NoBid == pacer.NoBidUnspecified) {
						t.Errorf("%+v", bid)
					}
					if bid.IsBid {
						offered = append(offered, bid)
					}
				}
				isEnough := len(offered) >= wanted
				mutex.Unlock()
				if isEnough {
					return
				}
			}
		}()
	}
	all.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return offered
}

func TestWhoMayNotAndWhatCannotBe(t *testing.T) {
	_, err := dial(t, "no-such-token")
	refused(t, err, "unauthenticated")
	_, err = pacer.Dial(deadline(t), "127.0.0.1:1", pacer.Options{Token: token})
	var lost *pacer.LostError
	if !errors.As(err, &lost) || !errors.Is(err, syscall.ECONNREFUSED) {
		t.Fatal(err)
	}
	conn := soon(t)
	id, _ := campaign(t, conn)
	_, err = conn.PutCampaign(deadline(t), id, plan(id, 0))
	refused(t, err, "campaign_plan_invalid")
	_, err = conn.PutCampaign(deadline(t), id, []byte("{"))
	refused(t, err, "json_invalid")
	refused(t, conn.EndCampaign(deadline(t), "no-such-campaign"), "campaign_not_found")
	_, err = conn.PutCampaign(deadline(t), id, make([]byte, 5<<20))
	if err == nil || !strings.Contains(err.Error(), "make it shorter") {
		t.Fatal(err)
	}
	same(t, must(conn.Bids(deadline(t), []pacer.BidRequest{{Campaign: 999_999}}, nil)),
		[]pacer.Bid{{NoBid: pacer.CampaignUnknown}})
	same(t, conn.Lost(), nil)
}

func TestBidsWinsAndLosses(t *testing.T) {
	conn := soon(t)
	ctx := deadline(t)
	id, number := campaign(t, conn)
	bids := offers(t, conn, number, 300)
	won, lost := bids[0].Token, bids[1].Token
	forged := won
	forged[31] ^= 1
	outcomes, err := conn.Wins(ctx, []pacer.Win{{won, 1001}, {won, 700}, {won, 700}, {forged, 700}}, nil)
	same(t, err, nil)
	same(t, outcomes, []pacer.Outcome{pacer.PriceAboveBid, pacer.Taken, pacer.Duplicate, pacer.TokenInvalid})
	outcomes, err = conn.Losses(ctx, []pacer.Token{won, lost, lost}, outcomes[:0])
	same(t, err, nil)
	same(t, outcomes, []pacer.Outcome{pacer.Won, pacer.Taken, pacer.Duplicate})
	outcomes, err = conn.Wins(ctx, []pacer.Win{{lost, 1}}, outcomes[:0])
	same(t, err, nil)
	same(t, outcomes, []pacer.Outcome{pacer.Lost})
	same(t, conn.EndCampaign(ctx, id), nil)
}

// A server that is told of a frame that it does not read says so, and closes; all calls end with that.
func TestAFrameThatIsTooLong(t *testing.T) {
	socket := must(net.Dial("tcp", environment(t, "TIDEGATE_BINARY")))
	conn := must(pacer.Over(deadline(t), socket, pacer.Options{Token: token}))
	defer conn.Close()
	must(socket.Write([]byte{0x81, 0x80, 0x80, 0x02}))
	_, err := conn.Bids(deadline(t), make([]pacer.BidRequest, 1), nil)
	refused(t, err, "frame_too_large")
	refused(t, conn.Lost(), "frame_too_large")
}

func kill(t *testing.T) {
	t.Helper()
	text := must(os.ReadFile(environment(t, "TIDEGATE_PID_FILE")))
	same(t, syscall.Kill(must(strconv.Atoi(string(text))), syscall.SIGKILL), nil)
}

// The server is killed while goroutines tell of wins. Those without an answer are told again, and none counts twice.
func TestWinsThatAreToldAgainCountOnceOverAKill(t *testing.T) {
	conn := soon(t)
	ctx := deadline(t)
	_, number := campaign(t, conn)
	bids := offers(t, conn, number, 200)[:200]
	taken, unknown := make(chan pacer.Win, len(bids)), make(chan pacer.Win, len(bids))
	todo := make(chan pacer.Win)
	var all sync.WaitGroup
	for teller := 0; teller < 4; teller++ {
		all.Add(1)
		go func() {
			defer all.Done()
			for win := range todo {
				outcomes, err := conn.Wins(ctx, []pacer.Win{win}, nil)
				switch {
				case err == nil && outcomes[0] == pacer.Taken:
					taken <- win
				case errors.As(err, new(*pacer.LostError)):
					unknown <- win
				default:
					t.Errorf("a win is %v, %v", outcomes, err)
				}
			}
		}()
	}
	for index, bid := range bids {
		if index == len(bids)/2 {
			kill(t)
		}
		todo <- pacer.Win{Token: bid.Token, PriceMicros: 10}
	}
	close(todo)
	all.Wait()
	if len(taken) == 0 || len(unknown) == 0 {
		t.Fatalf("%d were taken, %d are unknown", len(taken), len(unknown))
	}
	conn = soon(t)
	for len(unknown) > 0 {
		win := <-unknown
		outcomes, err := conn.Wins(ctx, []pacer.Win{win}, nil)
		if err != nil || (outcomes[0] != pacer.Taken && outcomes[0] != pacer.Duplicate) {
			t.Fatalf("a win that is told again is %v, %v", outcomes, err)
		}
		taken <- win
	}
	same(t, len(taken), len(bids))
	for len(taken) > 0 {
		same(t, must(conn.Wins(ctx, []pacer.Win{<-taken}, nil)), []pacer.Outcome{pacer.Duplicate})
	}
	offers(t, conn, number, 1)
}
