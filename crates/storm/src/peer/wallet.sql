-- A wallet in PostgreSQL as one would write it: accounts with balances, one row per transfer with both balances after
-- it (the history of both accounts), and a function that decides a batch row by row.
CREATE TABLE account (
    id text PRIMARY KEY,
    balance bigint NOT NULL,
    may_overdraw boolean NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE transfer (
    id text PRIMARY KEY,
    debit text NOT NULL,
    credit text NOT NULL,
    amount bigint NOT NULL,
    debit_balance_after bigint,
    credit_balance_after bigint
);

-- One outcome per transfer: 'a' applied, 'd' duplicate, 'r' refused, 'i' the id stands for another transfer.
CREATE FUNCTION pay(ids text[], debits text[], credits text[], amounts bigint[]) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    outcomes text := '';
    debit_after bigint;
    credit_after bigint;
    same boolean;
BEGIN
    FOR i IN 1 .. cardinality(ids) LOOP
        SELECT t.debit = debits[i] AND t.credit = credits[i] AND t.amount = amounts[i]
            INTO same FROM transfer t WHERE t.id = ids[i];
        IF FOUND THEN
            outcomes := outcomes || CASE WHEN same THEN 'd' ELSE 'i' END;
            CONTINUE;
        END IF;
        UPDATE account SET balance = balance - amounts[i]
            WHERE id = debits[i] AND (may_overdraw OR balance >= amounts[i]) RETURNING balance INTO debit_after;
        IF NOT FOUND THEN
            outcomes := outcomes || 'r';
            CONTINUE;
        END IF;
        UPDATE account SET balance = balance + amounts[i] WHERE id = credits[i] RETURNING balance INTO credit_after;
        INSERT INTO transfer VALUES (ids[i], debits[i], credits[i], amounts[i], debit_after, credit_after);
        outcomes := outcomes || 'a';
    END LOOP;
    RETURN outcomes;
END
$$;
