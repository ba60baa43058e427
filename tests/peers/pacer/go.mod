module tidegate/tests/peers/pacer

go 1.19
