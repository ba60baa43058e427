module tidegate/client

go 1.19
