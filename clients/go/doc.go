// Package tidegate is a client of the Tidegate ledger: transfers that are applied exactly once, also when an answer was
// lost.
//
// Promise: a request whose outcome is unknown is sent again, with the same ids and content, until it has an answer or
// its deadline passes. The ledger applies an id once, so nothing is done twice. A request whose ID is empty gets a new
// id at each call: give an id to what you may send again yourself.
//
// What the server refuses is returned as *Error; in a batch it stands in the line of its outcome.
package tidegate
