"""Segments of a serving data directory are moved to a real S3 server, and read from there.

moto, from the requirements, is the S3 server. The story: fill several segments, archive them while the server serves,
page a history back to its first row, retry an old id, `kill -9`, start again without snapshots, audit. Then the bucket
loses an object, and the audit says which.

Usage: archive.py BINARY
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import boto3

from server import free_address, serve

TOKEN = "dev-service-token"
SEGMENT_BYTES = 16 << 20
BATCH, BATCHES = 1_000, 190
ARCHIVE_SECONDS_MAX = 120


def check(holds, what):
    if not holds:
        sys.exit(f"archive: {what}")


def post(server, path, body):
    status, answer = server.request(path, json.dumps(body).encode(), TOKEN)
    check(status in (200, 201), f"{path}: {status} {answer[:300]!r}")
    return json.loads(answer)


def fill(server):
    for kind in ("source", "wallet", "collector"):
        post(server, "/v1/accounts", {"id": f"{kind}:archive", "asset": "credit", "kind": kind})
    sale = {"id": "archive-sale", "debit": "source:archive", "credit": "wallet:archive", "amount": BATCH * BATCHES}
    post(server, "/v1/transfers", sale)
    for batch in range(BATCHES):
        post(server, "/v1/transfers", {"transfers": [vote(batch * BATCH + number) for number in range(BATCH)]})


def vote(number):
    votes = {"debit": "wallet:archive", "credit": "collector:archive", "amount": 1, "memo": "." * 256}
    return {"id": f"archive-{number}", **votes}


def reads_everything(server):
    """The history streams back to its first row, and an id from the first segment is known."""
    asked = "/v1/accounts/wallet:archive/transfers"
    rows, before = 0, ""
    while before is not None:
        status, answer = server.request(f"{asked}?limit=1000{before}", token=TOKEN)
        check(status == 200, f"history: {status} {answer[:300]!r}")
        page = json.loads(answer)
        rows += len(page["transfers"])
        last = page["transfers"][-1]["id"] if page["transfers"] else last
        before = f"&before={page['next']}" if page.get("next") else None
    check((rows, last) == (BATCH * BATCHES + 1, "archive-sale"), f"the history has {rows} rows and ends with {last}")
    answer = post(server, "/v1/transfers", vote(0))
    check(answer["outcome"] == "duplicate", f"an old id is decided again: {answer}")


def main():
    binary = str(Path(sys.argv[1]).resolve())
    address = free_address()
    environment = {
        "AWS_ENDPOINT": f"http://{address}",
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "archive",
        "AWS_SECRET_ACCESS_KEY": "archive",
    }
    os.environ.update(environment)
    store = subprocess.Popen(
        [str(Path(sys.executable).with_name("moto_server")), "-H", "127.0.0.1", "-p", address.split(":")[1]],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    bucket = boto3.client("s3", endpoint_url=f"http://{address}")
    try:
        with tempfile.TemporaryDirectory(prefix="tidegate-archive-") as root:
            story(binary, bucket, Path(root))
    finally:
        store.terminate()
        store.wait()
    print("archive: everything was read back from the store")


def story(binary, bucket, root):
    deadline = time.monotonic() + 30
    while True:
        try:
            bucket.create_bucket(Bucket="shop")
            break
        except Exception as error:  # It may not listen yet.
            check(time.monotonic() < deadline, f"the store does not start: {error}")
            time.sleep(0.2)
    config = root / "config.toml"
    text = Path("config/dev.toml").read_text()
    check("segment_bytes" in text, "config/dev.toml names no segment_bytes")
    lines = [f"segment_bytes = {SEGMENT_BYTES}" if "segment_bytes =" in line else line for line in text.splitlines()]
    config.write_text("\n".join(lines) + "\n")
    data = root / "data"
    journal = data / "journal" / "ledger-0"
    with serve(binary, str(data), config=str(config)) as server:
        fill(server)
        sealed = len(list(journal.glob("segment-*"))) - 1
        check(sealed >= 3, f"only {sealed} segments are sealed")
        told = subprocess.run(
            [binary, "archive", "--data", str(data), "--to", "s3://shop/ledgers", "--keep-segments", "0"],
            capture_output=True,
            text=True,
            timeout=ARCHIVE_SECONDS_MAX,
        )
        check(told.returncode == 0, f"{told.stdout}{told.stderr}")
        objects = [entry["Key"] for entry in bucket.list_objects_v2(Bucket="shop")["Contents"]]
        check(len(objects) == sealed, f"{len(objects)} objects of {sealed} segments: {objects}")
        check(len(list(journal.glob("segment-*"))) == 1, "sealed segments are left in the directory")
        reads_everything(server)
        server.kill()
        server.process.returncode = 0
    for derived in ("snapshots", "ids", "archive-cache"):
        shutil.rmtree(data / derived, ignore_errors=True)
    with serve(binary, str(data), config=str(config)) as server:
        reads_everything(server)
        kept = len(list((data / "archive-cache").glob("*.tgj")))
        check(kept <= 4, f"{kept} fetched segments are kept")
    audit = [binary, "audit", "--data", str(data)]
    told = subprocess.run(audit, capture_output=True, text=True)
    check(told.returncode == 0, f"{told.stdout}{told.stderr}")
    bucket.delete_object(Bucket="shop", Key=objects[0])
    shutil.rmtree(data / "archive-cache", ignore_errors=True)
    told = subprocess.run(audit, capture_output=True, text=True)
    check(told.returncode != 0 and objects[0] in told.stderr, f"a lost object is not named: {told.stdout}{told.stderr}")


if __name__ == "__main__":
    main()
