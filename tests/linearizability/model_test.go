package main

import (
	"math"
	"testing"

	"github.com/anishathalye/porcupine"
)

var begin = []figures{{balance: 5}, {balance: 5}, {}}

type told struct {
	asked        request
	reply        reply
	call, answer int64
}

func legal(shards int, history ...told) bool {
	var operations []porcupine.Operation
	for client, op := range history {
		operations = append(operations, porcupine.Operation{
			ClientId: client, Input: op.asked, Output: op.reply, Call: op.call, Return: op.answer,
		})
	}
	return porcupine.CheckOperations(model(begin, shards), operations)
}

func transfer(id string, amount int64) request {
	return request{kind: opTransfer, id: id, debit: 0, credit: 2, amount: amount}
}

func read(account int) request { return request{kind: opRead, debit: account} }

func TestWhatClientsMayBeTold(t *testing.T) {
	cases := map[string][]told{
		"an unknown transfer was done": {
			{transfer("a", 3), reply{outcome: unknown}, 1, math.MaxInt64},
			{read(0), reply{outcome: applied, balance: 2}, 3, 4},
			{transfer("a", 3), reply{outcome: duplicate}, 5, 6},
		},
		"an unknown transfer was not done": {
			{transfer("a", 3), reply{outcome: unknown}, 1, math.MaxInt64},
			{read(0), reply{outcome: applied, balance: 5}, 3, 4},
		},
		"two under way are in either order": {
			{transfer("a", 3), reply{outcome: "insufficient_funds", available: 2}, 1, 9},
			{transfer("b", 3), reply{outcome: applied}, 2, 8},
		},
		"a hold is posted": {
			{request{kind: opHold, id: "h", debit: 0, credit: 2, amount: 4}, reply{outcome: applied}, 1, 2},
			{transfer("a", 2), reply{outcome: "insufficient_funds", available: 1}, 3, 4},
			{request{kind: opPost, id: "h"}, reply{outcome: applied}, 5, 6},
			{request{kind: opVoid, id: "h"}, reply{outcome: "hold_posted"}, 7, 8},
			{read(2), reply{outcome: applied, balance: 4}, 9, 10},
		},
	}
	for name, history := range cases {
		for _, shards := range []int{1, 2} {
			if !legal(shards, history...) {
				t.Errorf("%s, %d shards: may be, but is refused", name, shards)
			}
		}
	}
}

func TestWhatClientsMustNotBeTold(t *testing.T) {
	cases := map[string][]told{
		"an acknowledged transfer is lost": {
			{transfer("a", 3), reply{outcome: applied}, 1, 2},
			{read(0), reply{outcome: applied, balance: 5}, 3, 4},
		},
		"a transfer is applied twice": {
			{transfer("a", 2), reply{outcome: applied}, 1, 2},
			{transfer("a", 2), reply{outcome: applied}, 3, 4},
		},
		"a stale read": {
			{transfer("a", 2), reply{outcome: applied}, 1, 2},
			{read(2), reply{outcome: applied, balance: 2}, 3, 4},
			{read(2), reply{outcome: applied, balance: 0}, 5, 6},
		},
		"a wrongful refusal": {
			{transfer("a", 5), reply{outcome: "insufficient_funds", available: 5}, 1, 2},
		},
		"more is spent than there is": {
			{transfer("a", 3), reply{outcome: applied}, 1, 9},
			{transfer("b", 3), reply{outcome: applied}, 1, 9},
		},
		"what is held is spent": {
			{request{kind: opHold, id: "h", debit: 0, credit: 2, amount: 4}, reply{outcome: applied}, 1, 2},
			{transfer("a", 2), reply{outcome: applied}, 3, 4},
		},
		"a hold is posted and voided": {
			{request{kind: opHold, id: "h", debit: 0, credit: 2, amount: 4}, reply{outcome: applied}, 1, 2},
			{request{kind: opPost, id: "h"}, reply{outcome: applied}, 3, 9},
			{request{kind: opVoid, id: "h"}, reply{outcome: applied}, 3, 9},
		},
	}
	for name, history := range cases {
		for _, shards := range []int{1, 2} {
			if legal(shards, history...) {
				t.Errorf("%s, %d shards: must not be, but is accepted", name, shards)
			}
		}
	}
}

// An id is claimed before the transfer is decided: other content is refused meanwhile, and a reader sees nothing yet.
func TestAClaimIsSeenBeforeItsDecisionOnlyWithSeveralShards(t *testing.T) {
	history := []told{
		{transfer("a", 3), reply{outcome: unknown}, 1, math.MaxInt64},
		{transfer("a", 2), reply{outcome: "id_reused"}, 3, 4},
		{read(0), reply{outcome: applied, balance: 5}, 5, 6},
		{transfer("a", 3), reply{outcome: applied}, 7, 8},
	}
	if legal(1, history...) || !legal(2, history...) {
		t.Error("one shard decides at once, several in two steps")
	}
	lost := append(history, told{read(0), reply{outcome: applied, balance: 5}, 9, 10})
	if legal(2, lost...) {
		t.Error("what was claimed and decided is seen by later readers")
	}
	stolen := append(history, told{transfer("a", 2), reply{outcome: applied}, 9, 10})
	if legal(2, stolen...) {
		t.Error("who was refused an id never gets it")
	}
}
