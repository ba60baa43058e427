from tidegate import Client, TidegateError, new_id

with Client("http://localhost:8080") as client:
    client.log_in("dave", "dave")
    print(client.account("wallet:dave").balance)
    # prints: 10

    vote = {"id": new_id(), "debit": "wallet:dave", "credit": "candidate:3", "amount": 6}
    print(client.transfer(**vote).outcome, client.transfer(**vote).outcome)
    # prints: applied duplicate

    try:
        client.transfer(debit="wallet:dave", credit="candidate:3", amount=6)
    except TidegateError as error:
        print(error.code, error.members["available"])
    # prints: insufficient_funds 4

    for row in client.history("wallet:dave"):
        print(row.kind, row.amount, row.balance_after)
    # prints: transfer 6 4
    # prints: transfer 10 10
