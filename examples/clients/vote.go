package main

import (
	"context"
	"fmt"
	tidegate "tidegate/client"
)

func main() {
	client := tidegate.New("http://localhost:8080", tidegate.Options{Token: "dev-service-token"})
	vote := tidegate.TransferRequest{ID: tidegate.NewID(), Debit: "wallet:dave", Credit: "candidate:3", Amount: 6}
	for _, id := range []string{vote.ID, vote.ID, tidegate.NewID()} {
		vote.ID = id
		outcome, err := client.Transfer(context.Background(), vote)
		fmt.Printf("%q %v\n", outcome.Outcome, err)
	}
	// prints: "applied" <nil>
	// prints: "duplicate" <nil>
	// prints: "" insufficient_funds: the account to debit has only 4 available
}
