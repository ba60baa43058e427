// Records what concurrent clients of a real server are told while it is killed again and again, and lets Porcupine
// decide whether a ledger could have told them that:
// `linearizability --binary PATH [--shows N] [--seed N] [--workers N]`.
//
//	clients ─ HTTP ─▶ tidegate, kill -9, start, kill -9 …        history ─▶ Porcupine ─▶ linearizable, or a picture
//
// With several workers there are as many shards. The accounts of a show share a tag, and so a shard, because a credit
// to another shard arrives later and a reader may see that; their ids are anywhere, so a decision needs a claim of
// another shard, which must not show.
//
// Why a checker of others: it shares no line and no author with the ledger, so it cannot share a mistake.
package main

import (
	"flag"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"sort"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

const (
	credits    = 6
	clients    = 5
	operations = 14
	checkWait  = 2 * time.Minute
)

func main() {
	binary := flag.String("binary", "", "the server's program")
	shows := flag.Int("shows", 100, "histories to record")
	seed := flag.Int64("seed", 1, "what clients draw from")
	workers := flag.Int("workers", 1, "workers of the server, each with a shard")
	flag.Parse()
	if err := run(*binary, *shows, *seed, *workers); err != nil {
		fmt.Fprintln(os.Stderr, "linearizability:", err)
		os.Exit(1)
	}
}

func run(binary string, shows int, seed int64, workers int) error {
	folder, err := os.MkdirTemp("", "linearizability-")
	if err != nil {
		return err
	}
	server, err := newServer(binary, folder, workers)
	if err != nil {
		return err
	}
	if err := server.start(); err != nil {
		return err
	}
	defer server.kill()
	history, err := record(server, shows, seed)
	if err != nil {
		return fmt.Errorf("%w; the server's files are in %s", err, folder)
	}
	if server.kills < shows/4 || history.unknown == 0 {
		return fmt.Errorf("%d kills, %d unknown outcomes: nothing was put to the test", server.kills, history.unknown)
	}
	checked := model(begins(), workers)
	result, info := porcupine.CheckOperationsVerbose(checked, history.operations, checkWait)
	if result != porcupine.Ok {
		picture := filepath.Join(folder, "history.html")
		if err := porcupine.VisualizePath(checked, info, picture); err != nil {
			return err
		}
		tell(history.operations, workers)
		return fmt.Errorf("%s: not shown to be linearizable; seed %d, see %s", result, seed, picture)
	}
	fmt.Printf("%d workers: %d operations of %d histories, %d kills, %d unknown outcomes: linearizable\n",
		workers, len(history.operations), shows, server.kills, history.unknown)
	server.kill()
	return os.RemoveAll(folder)
}

// Prints the shows that no order explains, by the time of the call.
func tell(operations []porcupine.Operation, workers int) {
	whole := model(begins(), workers)
	for _, part := range whole.Partition(operations) {
		show := whole
		show.Partition = nil
		if porcupine.CheckOperationsTimeout(show, part, checkWait) == porcupine.Ok {
			continue
		}
		sort.Slice(part, func(one, other int) bool { return part[one].Call < part[other].Call })
		for _, operation := range part {
			fmt.Fprintf(os.Stderr, "client %d, %9d to %9d us: %s\n", operation.ClientId, operation.Call/1000,
				operation.Return/1000, whole.DescribeOperation(operation.Input, operation.Output))
		}
	}
}

func begins() []figures {
	begin := make([]figures, wallets+1)
	for wallet := 0; wallet < wallets; wallet++ {
		begin[wallet].balance = credits
	}
	return begin
}

// Plays the shows one after the other; the server is killed in the middle of some.
func record(server *server, shows int, seed int64) (*history, error) {
	history := &history{begun: time.Now()}
	chance := rand.New(rand.NewSource(seed))
	operator := &client{server: server, history: history}
	for show := 0; show < shows; show++ {
		if err := open(operator, show); err != nil {
			return nil, err
		}
		errs := make(chan error, clients+1)
		var playing sync.WaitGroup
		for number := 0; number < clients; number++ {
			player := &client{number, server, history, rand.New(rand.NewSource(chance.Int63())), operator.http}
			playing.Add(1)
			go func() {
				defer playing.Done()
				errs <- player.play(show, operations)
			}()
		}
		if chance.Intn(2) == 0 {
			// Some way into the show: it is over in some ten milliseconds.
			time.Sleep(time.Duration(chance.Intn(12)) * time.Millisecond)
			server.kill()
			errs <- server.start()
		}
		playing.Wait()
		close(errs)
		for err := range errs {
			if err != nil {
				return nil, err
			}
		}
	}
	return history, nil
}

// Opens the accounts of a show and sells credits to its wallets. Not part of the history: nobody asks meanwhile.
func open(operator *client, show int) error {
	kinds := map[string]string{shop(show): "source", account(show, wallets): "collector"}
	for wallet := 0; wallet < wallets; wallet++ {
		kinds[account(show, wallet)] = "wallet"
	}
	for id, kind := range kinds {
		body := map[string]any{"id": id, "asset": "credit", "kind": kind}
		if status, told, err := operator.send("POST", "/v1/accounts", body); err != nil || status > 201 {
			return fmt.Errorf("open %s: status %d, %s, %v", id, status, told.Code, err)
		}
	}
	for wallet := 0; wallet < wallets; wallet++ {
		id := account(show, wallet)
		body := map[string]any{"id": "sale-" + id, "debit": shop(show), "credit": id, "amount": credits}
		if status, told, err := operator.send("POST", "/v1/transfers", body); err != nil || status != 201 {
			return fmt.Errorf("sell to %s: status %d, %s, %v", id, status, told.Code, err)
		}
	}
	return nil
}
