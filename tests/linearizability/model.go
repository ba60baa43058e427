// What a ledger promises, as a sequential machine: Porcupine looks for an order of the operations, within the times at
// which they were under way, in which this machine gives the answers that clients got.
//
// With one shard a transfer is one step. With several, the home of its id may be another shard than that of its debit
// account, and it is two: first the id is claimed for this content, then the transfer is decided. Between the two (and,
// after a kill, until somebody asks again) other content is refused with id_reused, although nothing was decided yet.
package main

import (
	"fmt"
	"sort"
	"strings"

	"github.com/anishathalye/porcupine"
)

// Kinds of operations.
const (
	opTransfer = "transfer"
	opHold     = "hold"
	opPost     = "post"
	opVoid     = "void"
	opRead     = "read"
)

// Outcomes. Unknown: the server was killed, or refused for now, and nobody knows whether it was done.
const (
	applied   = "applied"
	duplicate = "duplicate"
	unknown   = "unknown"
)

// What a client asked. Accounts of one history are numbered.
type request struct {
	show   int
	kind   string
	id     string
	debit  int
	credit int
	amount int64
}

func (r request) claims() bool { return r.kind == opTransfer || r.kind == opHold }

// What it was told: an outcome or the code of a refusal; figures of a read; what was available at a refusal.
type reply struct {
	outcome   string
	balance   int64
	held      int64
	available int64
}

// The first step of a transfer or a hold where there are several shards, with what was told in the end.
type claim struct{ request }

// The second.
type decision struct{ request }

// The state: figures by account, and the first answer to each id. Values are never changed once made.
type ledger struct {
	accounts []figures
	ids      map[string]entry
}

type figures struct{ balance, held int64 }

type entry struct {
	asked request
	// Empty while the id is claimed, but nothing is decided.
	outcome string
	// At a refusal for want of funds.
	available int64
	// Of a hold that was placed: open, posted or voided.
	hold string
}

func (l ledger) with(change func(*ledger)) ledger {
	next := ledger{append([]figures(nil), l.accounts...), make(map[string]entry, len(l.ids)+1)}
	for id, entry := range l.ids {
		next.ids[id] = entry
	}
	change(&next)
	return next
}

func (l ledger) String() string {
	ids := make([]string, 0, len(l.ids))
	for id, entry := range l.ids {
		ids = append(ids, fmt.Sprintf("%s:%s%d%s", id, entry.outcome, entry.available, entry.hold))
	}
	sort.Strings(ids)
	return fmt.Sprintf("%v %s", l.accounts, strings.Join(ids, " "))
}

// The answer to a request in a state, and the state behind it.
func (l ledger) step(asked request) (reply, ledger) {
	switch asked.kind {
	case opRead:
		account := l.accounts[asked.debit]
		return reply{outcome: applied, balance: account.balance, held: account.held}, l
	case opTransfer, opHold:
		return l.decide(asked)
	default:
		return l.end(asked)
	}
}

// A transfer, or the placing of a hold.
func (l ledger) decide(asked request) (reply, ledger) {
	if before, used := l.ids[asked.id]; used {
		if before.asked != asked {
			return reply{outcome: "id_reused"}, l
		}
		if before.outcome != applied {
			return reply{outcome: before.outcome, available: before.available}, l
		}
		return reply{outcome: duplicate}, l
	}
	debit := l.accounts[asked.debit]
	available := debit.balance - debit.held
	if available < asked.amount {
		refused := entry{asked: asked, outcome: "insufficient_funds", available: available}
		next := l.with(func(next *ledger) { next.ids[asked.id] = refused })
		return reply{outcome: refused.outcome, available: available}, next
	}
	next := l.with(func(next *ledger) {
		if asked.kind == opHold {
			next.accounts[asked.debit].held += asked.amount
			next.ids[asked.id] = entry{asked: asked, outcome: applied, hold: "open"}
			return
		}
		next.accounts[asked.debit].balance -= asked.amount
		next.accounts[asked.credit].balance += asked.amount
		next.ids[asked.id] = entry{asked: asked, outcome: applied}
	})
	return reply{outcome: applied}, next
}

// The posting (of all) or voiding of a hold.
func (l ledger) end(asked request) (reply, ledger) {
	placed, used := l.ids[asked.id]
	if !used || placed.hold == "" {
		return reply{outcome: "hold_not_found"}, l
	}
	ends := map[string]string{opPost: "posted", opVoid: "voided"}[asked.kind]
	if placed.hold == ends {
		return reply{outcome: duplicate}, l
	}
	if placed.hold != "open" {
		return reply{outcome: "hold_" + placed.hold}, l
	}
	next := l.with(func(next *ledger) {
		hold := placed.asked
		next.accounts[hold.debit].held -= hold.amount
		if ends == "posted" {
			next.accounts[hold.debit].balance -= hold.amount
			next.accounts[hold.credit].balance += hold.amount
		}
		placed.hold = ends
		next.ids[asked.id] = placed
	})
	return reply{outcome: applied}, next
}

// The claim of an id. Only other content that has it is told so.
func (l ledger) claim(asked request, told reply) (bool, ledger) {
	before, used := l.ids[asked.id]
	if used && before.asked != asked {
		return told.outcome == unknown || told.outcome == "id_reused", l
	}
	if !used {
		l = l.with(func(next *ledger) { next.ids[asked.id] = entry{asked: asked} })
	}
	return told.outcome != "id_reused", l
}

// The decision of what was claimed.
func (l ledger) decideClaimed(asked request, told reply) (bool, ledger) {
	before, used := l.ids[asked.id]
	if !used || before.asked != asked {
		return told.outcome == unknown || told.outcome == "id_reused", l
	}
	if before.outcome == "" {
		l = l.with(func(next *ledger) { delete(next.ids, asked.id) })
	}
	want, next := l.decide(asked)
	return told.outcome == unknown || told == want, next
}

// What has two steps as two operations, each at any time while the whole was under way. An id whose first decision was
// known before anybody was refused it stays one step, which is quicker to check: nobody saw its claim.
func inSteps(operations []porcupine.Operation) []porcupine.Operation {
	decided, refused := map[string]int64{}, map[string]int64{}
	for _, operation := range operations {
		asked, told := operation.Input.(request), operation.Output.(reply).outcome
		switch {
		case told == unknown || !asked.claims():
		case told == "id_reused":
			refused[asked.id] = earlier(refused, asked.id, operation.Call)
		default:
			decided[asked.id] = earlier(decided, asked.id, operation.Return)
		}
	}
	steps := make([]porcupine.Operation, 0, 2*len(operations))
	for _, operation := range operations {
		asked := operation.Input.(request)
		end, known := decided[asked.id]
		seen, told := refused[asked.id]
		if !asked.claims() || !told || known && end < seen {
			steps = append(steps, operation)
			continue
		}
		first, second := operation, operation
		first.Input, second.Input = claim{asked}, decision{asked}
		steps = append(steps, first, second)
	}
	return steps
}

func earlier(times map[string]int64, id string, time int64) int64 {
	if before, is := times[id]; is && before < time {
		return before
	}
	return time
}

// The model of shows that begin with these figures. Each show has accounts and ids of its own, so they are checked one
// by one.
func model(begin []figures, shards int) porcupine.Model {
	return porcupine.Model{
		Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
			shows := map[int][]porcupine.Operation{}
			for _, operation := range history {
				show := operation.Input.(request).show
				shows[show] = append(shows[show], operation)
			}
			parts := make([][]porcupine.Operation, 0, len(shows))
			for _, part := range shows {
				if shards > 1 {
					part = inSteps(part)
				}
				parts = append(parts, part)
			}
			return parts
		},
		Init: func() any { return ledger{append([]figures(nil), begin...), map[string]entry{}} },
		Step: func(state, input, output any) (bool, any) {
			told := output.(reply)
			switch asked := input.(type) {
			case claim:
				return state.(ledger).claim(asked.request, told)
			case decision:
				return state.(ledger).decideClaimed(asked.request, told)
			default:
				want, next := state.(ledger).step(asked.(request))
				return told.outcome == unknown || told == want, next
			}
		},
		Equal:             func(one, other any) bool { return one.(ledger).String() == other.(ledger).String() },
		DescribeOperation: func(input, output any) string { return fmt.Sprintf("%T %+v -> %+v", input, input, output) },
		DescribeState:     func(state any) string { return state.(ledger).String() },
	}
}
