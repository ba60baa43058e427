package main

import (
	"context"
	"errors"
	"fmt"

	tidegate "tidegate/client"
)

func main() {
	ctx, client := context.Background(), tidegate.New("http://localhost:8080", tidegate.Options{})
	if _, err := client.LogIn(ctx, "dave", "dave"); err != nil {
		panic(err)
	}
	vote := tidegate.TransferRequest{ID: tidegate.NewID(), Debit: "wallet:dave", Credit: "candidate:3", Amount: 6}
	for _, id := range []string{vote.ID, vote.ID, tidegate.NewID()} {
		vote.ID = id
		outcome, err := client.Transfer(ctx, vote)
		var refused *tidegate.Error
		if errors.As(err, &refused) {
			fmt.Println(refused.Code, string(refused.Members["available"]))
		} else if err == nil {
			fmt.Println(outcome.Outcome)
		}
	}
	// prints: applied
	// prints: duplicate
	// prints: insufficient_funds 4
}
