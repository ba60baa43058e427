"""Against the real server at TIDEGATE_URL, which is started again when it is killed (tests/clients/run.py)."""

import os
import pathlib
import signal
import threading
import unittest

from tidegate import AccountRequest, Client, HoldRequest, Retry, TidegateError, TransferRequest, new_id

URL = os.environ["TIDEGATE_URL"]
SERVICE = "dev-service-token"
LARGE = 2**62 + 1  # not a double


def open_pair(client, credits):
    """A wallet with credits, and a collector, both new."""
    name = new_id()
    wallet, collector, source = f"wallet:{name}", f"candidate:{name}", f"source:{name}"
    for id, kind in ((source, "source"), (wallet, "wallet"), (collector, "collector")):
        client.open_account(id, asset=name, kind=kind)
    client.transfer(debit=source, credit=wallet, amount=credits)
    return wallet, collector


class Ledger(unittest.TestCase):
    def setUp(self):
        self.client = Client(URL, SERVICE)
        self.addCleanup(self.client.close)

    def refused(self, code, status, call, *arguments, **named):
        with self.assertRaises(TidegateError) as raised:
            call(*arguments, **named)
        self.assertEqual((raised.exception.code, raised.exception.status), (code, status))
        return raised.exception

    def test_a_viewer_votes(self):
        with Client(URL) as viewer:
            viewer.log_in("dave", "dave")
            before = viewer.account("wallet:dave")
            outcome = viewer.transfer(debit="wallet:dave", credit="candidate:3", amount=2, memo="bravo")
            self.assertEqual((outcome.outcome, len(outcome.id)), ("applied", 26))
            self.assertEqual(viewer.account("wallet:dave").balance, before.balance - 2)
            row = next(viewer.history("wallet:dave"))
            self.assertEqual((row.id, row.amount, row.memo, row.kind), (outcome.id, 2, "bravo", "transfer"))
            self.refused("forbidden", 403, viewer.audit)

    def test_an_id_is_applied_once(self):
        wallet, collector = open_pair(self.client, 10)
        id = new_id()
        vote = {"id": id, "debit": wallet, "credit": collector}
        self.assertEqual(self.client.transfer(**vote, amount=6).outcome, "applied")
        self.assertEqual(self.client.transfer(**vote, amount=6).outcome, "duplicate")
        self.refused("id_reused", 409, self.client.transfer, **vote, amount=7)
        error = self.refused("insufficient_funds", 409, self.client.transfer, **{**vote, "id": new_id()}, amount=5)
        self.assertEqual(error.members["available"], 4)
        self.assertIn("4", error.detail)
        self.assertFalse(error.is_transient)

    def test_lists_go_on_over_pages(self):
        tag = new_id()
        wanted = [f"wallet:{tag}:{number:02}" for number in range(25)]
        opened = self.client.open_accounts([AccountRequest(id=id, asset=tag, kind="wallet") for id in wanted])
        self.assertEqual([(line.id, line.outcome) for line in opened], [(id, "applied") for id in wanted])
        self.assertEqual([account.id for account in self.client.accounts(f"wallet:{tag}", page_rows=10)], wanted)
        wallet, collector = open_pair(self.client, 25)
        for number in range(25):
            self.client.transfer(id=f"{tag}:{number}", debit=wallet, credit=collector, amount=1)
        rows = list(self.client.history(collector, page_rows=10))
        self.assertEqual([row.id for row in rows], [f"{tag}:{number}" for number in reversed(range(25))])
        self.assertEqual(self.client.balance_at(collector, rows[0].time_ms).balance, 25)
        self.assertEqual(self.client.balance_at(collector, "2001-01-01T00:00:00Z").balance, 0)

    def test_batches_and_linked_groups(self):
        wallet, collector = open_pair(self.client, 10)
        votes = [TransferRequest(debit=wallet, credit=collector, amount=amount) for amount in (4, 9)]
        outcomes = self.client.transfers(votes, linked=True)
        self.assertEqual([line.code for line in outcomes], ["linked_failed", "insufficient_funds"])
        self.assertEqual(self.client.account(wallet).balance, 10)
        again = [TransferRequest(debit=wallet, credit=collector, amount=amount) for amount in (4, 9)]
        self.assertEqual([line.outcome for line in self.client.transfers(again)], ["applied", "refused"])
        self.assertEqual(self.client.account(wallet).balance, 6)

    def test_holds(self):
        wallet, collector = open_pair(self.client, 10)
        place = {"debit": wallet, "credit": collector, "expires_in_ms": 60_000}
        first, second = (self.client.place_hold(amount=amount, **place) for amount in (6, 3))
        account = self.client.account(wallet)
        self.assertEqual((account.balance, account.held, account.available), (10, 9, 1))
        self.assertEqual(self.client.post_hold(first.id, 5).outcome, "applied")
        self.assertEqual(self.client.post_hold(first.id, 5).outcome, "duplicate")
        self.assertEqual(self.client.void_hold(second.id).outcome, "applied")
        self.refused("hold_voided", 409, self.client.post_hold, second.id)
        account = self.client.account(wallet)
        self.assertEqual((account.balance, account.held, account.available), (5, 0, 5))

    def test_batches_of_holds_and_what_became_of_them(self):
        wallet, collector = open_pair(self.client, 10)
        terms = {"debit": wallet, "credit": collector, "expires_in_ms": 60_000, "code": 7, "user_data": "seat-12"}
        first, second, third = holds = [HoldRequest(amount=amount, **terms) for amount in (5, 3, 1)]
        too_many = [HoldRequest(amount=9, **terms), HoldRequest(amount=9, **terms)]
        self.assertEqual([line.outcome for line in self.client.place_holds(too_many, linked=True)], ["refused"] * 2)
        self.assertEqual([line.outcome for line in self.client.place_holds(holds)], ["applied"] * 3)
        listed = list(self.client.open_holds(wallet, page_rows=2))
        self.assertEqual([(hold.id, hold.remaining) for hold in listed], [(first.id, 5), (second.id, 3), (third.id, 1)])
        self.assertEqual({(hold.code, hold.user_data) for hold in listed}, {(7, "seat-12")})
        posted = self.client.post_holds({first.id: 4, second.id: None})
        self.assertEqual([line.outcome for line in posted], ["applied"] * 2)
        self.assertEqual([line.outcome for line in self.client.void_holds([third.id])], ["applied"])
        state = self.client.hold(first.id)
        self.assertEqual((state.state, state.posted, state.code, state.user_data), ("posted", 4, 7, "seat-12"))
        self.assertEqual([self.client.hold(hold.id).state for hold in (second, third)], ["posted", "voided"])
        self.assertEqual(self.client.account(collector).balance, 7)

    def test_what_a_viewer_made_is_found_in_its_id_space(self):
        with Client(URL) as carol:
            carol.log_in("carol", "carol")
            terms = {"debit": "wallet:carol", "credit": "candidate:1", "expires_in_ms": 60_000}
            voided, posted, in_batch = (carol.place_hold(amount=1, **terms) for _ in range(3))
            vote = carol.transfer(debit="wallet:carol", credit="candidate:1", amount=1)
        self.refused("transfer_not_found", 404, self.client.transfer_state, vote.id)
        self.refused("transfer_not_found", 404, self.client.transfer_state, vote.id, id_space="")
        self.assertEqual(self.client.transfer_state(vote.id, id_space="carol").id_space, "carol")
        self.refused("hold_not_found", 404, self.client.void_hold, voided.id)
        self.assertEqual(self.client.void_hold(voided.id, id_space="carol").outcome, "applied")
        self.assertEqual(self.client.post_hold(posted.id, id_space="carol").outcome, "applied")
        self.assertEqual(self.client.hold(posted.id, id_space="carol").state, "posted")
        voids = self.client.void_holds([in_batch.id], id_space="carol")
        self.assertEqual([line.outcome for line in voids], ["applied"])
        posts = self.client.post_holds({in_batch.id: None}, id_space="carol")
        self.assertEqual([line.code for line in posts], ["hold_voided"])

    def test_accounts_change_and_transfers_are_found(self):
        wallet, collector = open_pair(self.client, 10)
        account = self.client.change_account(wallet, status="frozen", metadata={"seat": "12"}, if_revision=0)
        self.assertEqual((account.status, account.metadata, account.revision), ("frozen", {"seat": "12"}, 1))
        vote = {"id": new_id(), "debit": wallet, "credit": collector, "amount": 3}
        error = self.refused("debit_account_frozen", 409, self.client.transfer, **vote)
        self.assertEqual(error.members["id"], vote["id"])
        self.assertEqual(self.client.transfer_state(vote["id"]).refusal, "debit_account_frozen")
        account = self.client.change_account(wallet, status="open", balance_min=8, metadata={"seat": None})
        self.assertEqual((account.status, account.balance_min, account.metadata), ("open", 8, None))
        again = {**vote, "id": new_id()}
        self.refused("balance_below_min", 409, self.client.transfer, **again)
        self.assertIsNone(self.client.change_account(wallet, balance_min=None).balance_min)
        again["id"] = new_id()
        self.assertEqual(self.client.transfer(**again, code=9).outcome, "applied")
        state = self.client.transfer_state(again["id"])
        self.assertEqual((state.outcome, state.amount, state.code), ("applied", 3, 9))
        freeze = lambda: self.client.change_account(wallet, status="frozen", if_revision=1)
        self.assertEqual(self.refused("revision_stale", 409, freeze).members["revision"], 3)

    def test_assets(self):
        name = new_id()
        self.client.declare_asset(name, 2)
        self.client.declare_asset(name, 2)
        self.refused("asset_exists", 409, self.client.declare_asset, name, 3)
        self.assertEqual([asset.decimals for asset in self.client.assets() if asset.name == name], [2])

    def test_large_amounts_are_exact(self):
        wallet, collector = open_pair(self.client, LARGE)
        self.client.transfer(debit=wallet, credit=collector, amount=LARGE)
        account = self.client.account(collector)
        self.assertEqual((account.balance, account.credited), (LARGE, LARGE))
        self.assertEqual(next(self.client.history(collector)).amount, LARGE)

    def test_audit(self):
        audit = self.client.audit()
        self.assertEqual([shard.shard for shard in audit.shards], [0])

    def test_errors_name_what_went_wrong(self):
        with Client(URL, "wrong") as wrong:
            self.refused("token_invalid", 401, wrong.audit)
        self.refused("account_not_found", 404, self.client.account, "wallet:nobody/at all")
        nobody = Client("http://127.0.0.1:1", SERVICE, retry=Retry(deadline_s=0.3))
        self.assertTrue(self.refused("no_answer", None, nobody.audit).is_transient)

    def test_kill_in_the_middle_of_200_transfers(self):
        wallet, collector = open_pair(self.client, 200)
        pid_file = pathlib.Path(os.environ["TIDEGATE_PID_FILE"])
        killed_pid = int(pid_file.read_text())
        followed, ids = [], [new_id() for _ in range(200)]
        reading = threading.Event()

        def follow():
            for change in Client(URL, SERVICE).changes(started, accounts=collector):
                reading.set()
                followed.append((change.id, change.amount, change.credit_balance_after))
                if change.id == ids[-1]:
                    return

        started = [change.cursor for change in self.client.changes(accounts=collector, follow=False)][-1]
        follower = threading.Thread(target=follow, daemon=True)
        follower.start()
        for number, id in enumerate(ids):
            if number == 100:
                self.assertTrue(reading.wait(30))
                # While transfers go on: it dies between two requests, or within one.
                threading.Timer(0.003, os.kill, (killed_pid, signal.SIGKILL)).start()
            self.client.transfer(id=id, debit=wallet, credit=collector, amount=1)
        self.assertNotEqual(int(pid_file.read_text()), killed_pid)
        self.assertEqual(self.client.account(collector).balance, 200)
        self.assertEqual(self.client.account(wallet).balance, 0)
        follower.join(60)
        self.assertEqual(followed, [(id, 1, number + 1) for number, id in enumerate(ids)])
        self.assertEqual([row.id for row in self.client.history(collector)], ids[::-1])
        page = [change.id for change in self.client.changes(started, accounts=collector, follow=False)]
        self.assertEqual(page, ids)


if __name__ == "__main__":
    unittest.main()
