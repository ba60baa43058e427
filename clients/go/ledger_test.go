package tidegate_test

// Against the real server at TIDEGATE_URL, which is started again when it is killed (tests/clients/run.py).

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"syscall"
	"testing"
	"time"

	tidegate "tidegate/client"
)

const large = 1<<62 + 1 // not a double

var ctx = context.Background()

func service(t *testing.T) *tidegate.Client {
	t.Helper()
	return tidegate.New(address(t), tidegate.Options{Token: "dev-service-token"})
}

func address(t *testing.T) string {
	t.Helper()
	found := os.Getenv("TIDEGATE_URL")
	if found == "" {
		t.Fatal("TIDEGATE_URL is not set: run `make client-libraries`")
	}
	return found
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

func refused(t *testing.T, err error, code string, status int) *tidegate.Error {
	t.Helper()
	var failed *tidegate.Error
	if !errors.As(err, &failed) || failed.Code != code || failed.Status != status {
		t.Fatalf("got %v, want %s with status %d", err, code, status)
	}
	return failed
}

// openPair opens a wallet with credits, and a collector, both new.
func openPair(client *tidegate.Client, credits int64) (wallet, collector string) {
	name := tidegate.NewID()
	source := "source:" + name
	wallet, collector = "wallet:"+name, "candidate:"+name
	kinds := map[string]tidegate.AccountKind{
		source: tidegate.AccountKindSource, wallet: tidegate.AccountKindWallet, collector: tidegate.AccountKindCollector,
	}
	for id, kind := range kinds {
		must(client.OpenAccount(ctx, tidegate.AccountRequest{ID: id, Asset: name, Kind: kind}))
	}
	must(client.Transfer(ctx, tidegate.TransferRequest{Debit: source, Credit: wallet, Amount: credits}))
	return wallet, collector
}

func read[T any](t *testing.T, pages *tidegate.Pages[T], id func(T) string) (ids []string) {
	t.Helper()
	for pages.Next() {
		ids = append(ids, id(pages.Value()))
	}
	same(t, pages.Err(), nil)
	return ids
}

func accountID(account tidegate.Account) string { return account.ID }
func rowID(row tidegate.HistoryRow) string      { return row.ID }

func reversed(ids []string) []string {
	turned := make([]string, len(ids))
	for place, id := range ids {
		turned[len(ids)-1-place] = id
	}
	return turned
}

func TestAViewerVotes(t *testing.T) {
	viewer := tidegate.New(address(t), tidegate.Options{})
	must(viewer.LogIn(ctx, "dave", "dave"))
	before := must(viewer.Account(ctx, "wallet:dave"))
	vote := tidegate.TransferRequest{Debit: "wallet:dave", Credit: "candidate:3", Amount: 2, Memo: "bravo"}
	outcome := must(viewer.Transfer(ctx, vote))
	same(t, outcome.Outcome, tidegate.OutcomeKindApplied)
	same(t, len(outcome.ID), 26)
	same(t, must(viewer.Account(ctx, "wallet:dave")).Balance, before.Balance-2)
	history := viewer.History(ctx, "wallet:dave", tidegate.HistoryQuery{})
	same(t, history.Next(), true)
	row := history.Value()
	same(t, []any{row.ID, row.Amount, row.Memo, row.Kind}, []any{outcome.ID, int64(2), "bravo", tidegate.RowKindTransfer})
	_, err := viewer.Audit(ctx)
	refused(t, err, "forbidden", 403)
}

func TestAnIDIsAppliedOnce(t *testing.T) {
	client := service(t)
	wallet, collector := openPair(client, 10)
	vote := tidegate.TransferRequest{ID: tidegate.NewID(), Debit: wallet, Credit: collector, Amount: 6}
	same(t, must(client.Transfer(ctx, vote)).Outcome, tidegate.OutcomeKindApplied)
	same(t, must(client.Transfer(ctx, vote)).Outcome, tidegate.OutcomeKindDuplicate)
	vote.Amount = 7
	_, err := client.Transfer(ctx, vote)
	refused(t, err, "id_reused", 409)
	vote.ID, vote.Amount = tidegate.NewID(), 5
	_, err = client.Transfer(ctx, vote)
	failed := refused(t, err, "insufficient_funds", 409)
	same(t, string(failed.Members["available"]), "4")
	same(t, failed.IsTransient(), false)
}

func TestListsGoOnOverPages(t *testing.T) {
	client, tag := service(t), tidegate.NewID()
	var wallets []tidegate.AccountRequest
	var ids, transfers []string
	for number := 0; number < 25; number++ {
		id := fmt.Sprintf("wallet:%s:%02d", tag, number)
		ids, transfers = append(ids, id), append(transfers, fmt.Sprintf("%s:%d", tag, number))
		wallets = append(wallets, tidegate.AccountRequest{ID: id, Asset: tag, Kind: tidegate.AccountKindWallet})
	}
	for place, line := range must(client.OpenAccounts(ctx, wallets)) {
		same(t, line, tidegate.Outcome{ID: ids[place], Outcome: tidegate.OutcomeKindApplied})
	}
	same(t, read(t, client.Accounts(ctx, "wallet:"+tag, 10), accountID), ids)
	wallet, collector := openPair(client, 25)
	for _, id := range transfers {
		must(client.Transfer(ctx, tidegate.TransferRequest{ID: id, Debit: wallet, Credit: collector, Amount: 1}))
	}
	history := client.History(ctx, collector, tidegate.HistoryQuery{PageRows: 10})
	same(t, read(t, history, rowID), reversed(transfers))
	same(t, must(client.BalanceAt(ctx, collector, time.Now())).Balance, int64(25))
	same(t, must(client.BalanceAt(ctx, collector, time.Unix(978307200, 0))).Balance, int64(0))
}

func TestBatchesAndLinkedGroups(t *testing.T) {
	client := service(t)
	wallet, collector := openPair(client, 10)
	votes := []tidegate.TransferRequest{
		{Debit: wallet, Credit: collector, Amount: 4}, {Debit: wallet, Credit: collector, Amount: 9},
	}
	linked := must(client.LinkedTransfers(ctx, votes))
	same(t, []string{linked[0].Code, linked[1].Code}, []string{"linked_failed", "insufficient_funds"})
	same(t, must(client.Account(ctx, wallet)).Balance, int64(10))
	single := must(client.Transfers(ctx, votes))
	want := []tidegate.OutcomeKind{tidegate.OutcomeKindApplied, tidegate.OutcomeKindRefused}
	same(t, []tidegate.OutcomeKind{single[0].Outcome, single[1].Outcome}, want)
	same(t, must(client.Account(ctx, wallet)).Balance, int64(6))
}

func TestHolds(t *testing.T) {
	client := service(t)
	wallet, collector := openPair(client, 10)
	hold := tidegate.HoldRequest{Debit: wallet, Credit: collector, Amount: 6, ExpiresInMS: 60_000}
	first := must(client.PlaceHold(ctx, hold))
	hold.Amount = 3
	second := must(client.PlaceHold(ctx, hold))
	account := must(client.Account(ctx, wallet))
	same(t, []int64{account.Balance, account.Held, account.Available}, []int64{10, 9, 1})
	same(t, must(client.PostHoldPart(ctx, first.ID, 5)).Outcome, tidegate.OutcomeKindApplied)
	same(t, must(client.PostHoldPart(ctx, first.ID, 5)).Outcome, tidegate.OutcomeKindDuplicate)
	same(t, must(client.VoidHold(ctx, second.ID)).Outcome, tidegate.OutcomeKindApplied)
	_, err := client.PostHold(ctx, second.ID)
	refused(t, err, "hold_voided", 409)
	account = must(client.Account(ctx, wallet))
	same(t, []int64{account.Balance, account.Held, account.Available}, []int64{5, 0, 5})
}

func words(outcomes []tidegate.Outcome) (words []tidegate.OutcomeKind) {
	for _, line := range outcomes {
		words = append(words, line.Outcome)
	}
	return words
}

func TestBatchesOfHoldsAndWhatBecameOfThem(t *testing.T) {
	client := service(t)
	wallet, collector := openPair(client, 10)
	hold := func(amount int64) tidegate.HoldRequest {
		return tidegate.HoldRequest{
			ID: tidegate.NewID(), Debit: wallet, Credit: collector, Amount: amount, ExpiresInMS: 60_000,
			Code: 7, UserData: "seat-12",
		}
	}
	applied, refused := tidegate.OutcomeKindApplied, tidegate.OutcomeKindRefused
	tooMany := must(client.PlaceLinkedHolds(ctx, []tidegate.HoldRequest{hold(9), hold(9)}))
	same(t, words(tooMany), []tidegate.OutcomeKind{refused, refused})
	holds := []tidegate.HoldRequest{hold(5), hold(3), hold(1)}
	same(t, words(must(client.PlaceHolds(ctx, holds))), []tidegate.OutcomeKind{applied, applied, applied})
	listed := read(t, client.OpenHolds(ctx, wallet, 2), func(hold tidegate.HoldState) string { return hold.ID })
	same(t, listed, []string{holds[0].ID, holds[1].ID, holds[2].ID})
	written := read(t, client.OpenHolds(ctx, wallet, 2), func(hold tidegate.HoldState) string { return hold.UserData })
	same(t, written, []string{"seat-12", "seat-12", "seat-12"})
	posted := must(client.PostHolds(ctx, []tidegate.Post{{ID: holds[0].ID, Amount: 4}, {ID: holds[1].ID}}))
	same(t, words(posted), []tidegate.OutcomeKind{applied, applied})
	same(t, words(must(client.VoidHolds(ctx, listed[2:]))), []tidegate.OutcomeKind{applied})
	state := must(client.Hold(ctx, listed[0]))
	same(t, []any{state.State, *state.Posted, state.UserData}, []any{tidegate.HoldStatusPosted, int64(4), "seat-12"})
	same(t, must(client.Hold(ctx, listed[2])).State, tidegate.HoldStatusVoided)
	same(t, must(client.Account(ctx, collector)).Balance, int64(7))
}

func TestWhatAViewerMadeIsFoundInItsIDSpace(t *testing.T) {
	client, carol := service(t), tidegate.New(address(t), tidegate.Options{})
	must(carol.LogIn(ctx, "carol", "carol"))
	hold := func() string {
		terms := tidegate.HoldRequest{
			Debit: "wallet:carol", Credit: "candidate:1", Amount: 1, ExpiresInMS: 60_000,
		}
		return must(carol.PlaceHold(ctx, terms)).ID
	}
	voided, posted, inBatch := hold(), hold(), hold()
	vote := must(carol.Transfer(ctx, tidegate.TransferRequest{Debit: "wallet:carol", Credit: "candidate:1", Amount: 1}))
	space := client.IDSpace("carol")
	_, err := client.TransferState(ctx, vote.ID)
	refused(t, err, "transfer_not_found", 404)
	_, err = client.IDSpace("").TransferState(ctx, vote.ID)
	refused(t, err, "transfer_not_found", 404)
	same(t, must(space.TransferState(ctx, vote.ID)).IDSpace, "carol")
	_, err = client.VoidHold(ctx, voided)
	refused(t, err, "hold_not_found", 404)
	same(t, must(space.VoidHold(ctx, voided)).Outcome, tidegate.OutcomeKindApplied)
	same(t, must(space.PostHoldPart(ctx, posted, 1)).Outcome, tidegate.OutcomeKindApplied)
	same(t, must(space.Hold(ctx, posted)).State, tidegate.HoldStatusPosted)
	same(t, must(space.VoidHolds(ctx, []string{inBatch}))[0].Outcome, tidegate.OutcomeKindApplied)
	same(t, must(space.PostHolds(ctx, []tidegate.Post{{ID: inBatch}}))[0].Code, "hold_voided")
	_, err = space.PostHold(ctx, inBatch)
	refused(t, err, "hold_voided", 409)
}

func TestAccountsChangeAndTransfersAreFound(t *testing.T) {
	client := service(t)
	wallet, collector := openPair(client, 10)
	seat, never, eight := "12", int64(0), int64(8)
	freeze := tidegate.AccountChange{
		Status: tidegate.AccountStatusFrozen, Metadata: map[string]*string{"seat": &seat}, IfRevision: &never,
	}
	account := must(client.ChangeAccount(ctx, wallet, freeze))
	same(t, []any{account.Status, account.Metadata["seat"], *account.Revision}, []any{freeze.Status, "12", int64(1)})
	vote := tidegate.TransferRequest{ID: tidegate.NewID(), Debit: wallet, Credit: collector, Amount: 3, Code: 9}
	_, err := client.Transfer(ctx, vote)
	refused(t, err, "debit_account_frozen", 409)
	same(t, must(client.TransferState(ctx, vote.ID)).Refusal, "debit_account_frozen")
	_, err = client.ChangeAccount(ctx, wallet, freeze)
	same(t, string(refused(t, err, "revision_stale", 409).Members["revision"]), "1")
	account = must(client.ChangeAccount(ctx, wallet, tidegate.AccountChange{
		Status: tidegate.AccountStatusOpen, BalanceMin: &eight, Metadata: map[string]*string{"seat": nil},
	}))
	same(t, []any{account.Status, *account.BalanceMin, len(account.Metadata)},
		[]any{tidegate.AccountStatusOpen, int64(8), 0})
	vote.ID = tidegate.NewID()
	_, err = client.Transfer(ctx, vote)
	refused(t, err, "balance_below_min", 409)
	account = must(client.ChangeAccount(ctx, wallet, tidegate.AccountChange{NoBalanceMin: true}))
	same(t, account.BalanceMin == nil, true)
	vote.ID = tidegate.NewID()
	same(t, must(client.Transfer(ctx, vote)).Outcome, tidegate.OutcomeKindApplied)
	state := must(client.TransferState(ctx, vote.ID))
	same(t, []any{state.Outcome, *state.Amount, state.Code}, []any{tidegate.OutcomeKindApplied, int64(3), int64(9)})
}

func TestAssets(t *testing.T) {
	client, name := service(t), tidegate.NewID()
	same(t, client.DeclareAsset(ctx, name, 2), nil)
	same(t, client.DeclareAsset(ctx, name, 2), nil)
	refused(t, client.DeclareAsset(ctx, name, 3), "asset_exists", 409)
	found := int64(-1)
	for _, asset := range must(client.Assets(ctx)) {
		if asset.Name == name {
			found = asset.Decimals
		}
	}
	same(t, found, int64(2))
}

func TestLargeAmountsAreExact(t *testing.T) {
	client := service(t)
	wallet, collector := openPair(client, large)
	must(client.Transfer(ctx, tidegate.TransferRequest{Debit: wallet, Credit: collector, Amount: large}))
	account := must(client.Account(ctx, collector))
	same(t, account.Balance, int64(large))
	same(t, account.Credited.String(), strconv.FormatInt(large, 10))
}

func TestAudit(t *testing.T) {
	audit := must(service(t).Audit(ctx))
	same(t, len(audit.Shards), 1)
}

func TestErrorsNameWhatWentWrong(t *testing.T) {
	_, err := tidegate.New(address(t), tidegate.Options{Token: "wrong"}).Audit(ctx)
	refused(t, err, "token_invalid", 401)
	_, err = service(t).Account(ctx, "wallet:nobody/at all")
	refused(t, err, "account_not_found", 404)
	retry := tidegate.Retry{Deadline: 300 * time.Millisecond}
	_, err = tidegate.New("http://127.0.0.1:1", tidegate.Options{Retry: retry}).Audit(ctx)
	same(t, refused(t, err, tidegate.NoAnswer, 0).IsTransient(), true)
	done, cancel := context.WithCancel(ctx)
	cancel()
	_, err = service(t).Audit(done)
	same(t, errors.Is(err, context.Canceled), true)
}

func TestKillInTheMiddleOf200Transfers(t *testing.T) {
	client := service(t)
	wallet, collector := openPair(client, 200)
	var ids, followed []string
	for number := 0; number < 200; number++ {
		ids = append(ids, tidegate.NewID())
	}
	opened := client.Changes(ctx, tidegate.ChangesQuery{Accounts: collector, IsToEnd: true})
	for opened.Next() {
	}
	same(t, opened.Err(), nil)
	started := opened.Value().Cursor
	reading, done := make(chan struct{}), make(chan error, 1)
	go func() {
		changes := client.Changes(ctx, tidegate.ChangesQuery{After: started, Accounts: collector})
		defer changes.Close()
		for len(followed) < len(ids) && changes.Next() {
			if followed = append(followed, changes.Value().ID); len(followed) == 1 {
				close(reading)
			}
		}
		done <- changes.Err()
	}()
	killed := pid(t)
	for number, id := range ids {
		if number == 100 {
			<-reading
			// While transfers go on: it dies between two requests, or within one.
			time.AfterFunc(3*time.Millisecond, func() { _ = syscall.Kill(killed, syscall.SIGKILL) })
		}
		must(client.Transfer(ctx, tidegate.TransferRequest{ID: id, Debit: wallet, Credit: collector, Amount: 1}))
	}
	if pid(t) == killed {
		t.Fatal("the server was not killed")
	}
	same(t, must(client.Account(ctx, collector)).Balance, int64(200))
	same(t, must(client.Account(ctx, wallet)).Balance, int64(0))
	same(t, <-done, nil)
	same(t, followed, ids)
	same(t, read(t, client.History(ctx, collector, tidegate.HistoryQuery{}), rowID), reversed(ids))
}

func pid(t *testing.T) int {
	t.Helper()
	return must(strconv.Atoi(string(must(os.ReadFile(os.Getenv("TIDEGATE_PID_FILE"))))))
}
