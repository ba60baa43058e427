// Package pacer is a client of Tidegate's pacer over the binary port: bids, wins, losses, and plans of campaigns.
//
// A Conn is one connection, good for many goroutines: each call sends one packet and waits for its answer, and what
// other goroutines ask meanwhile is in flight beside it.
//
//	Bids ─┐                ┌─▶ writer ─▶ socket
//	Wins ─┼─▶ slot ─▶ out ─┘
//	Bids ─┘    ▲                         socket ─▶ reader ─▶ the caller's slice
//	           └──────────────── free ◀──────────────┘
//
// Promise: an answer has as many items as were asked for, or the call fails. A call that fails may have been served:
// what may be sent again, with the same content, are wins and losses (each counts once), plans and ends of campaigns.
// Bid requests are never sent again: their auction is over, and what they reserved returns by itself. Nothing is sent
// again by this package.
//
// Prices are in micros, millionths of the campaign's currency, for one impression. docs/formats/pacer.md has the bytes.
package pacer
