"""What is in deploy/, loaded by the programs it is for, beside a running server:  run.py BINARY

promtool checks and tests the alerts; Prometheus scrapes the server, and evaluates each alert and each panel of the
dashboard without an error; its own client library parses both forms of /metrics; fail2ban finds the addresses in real
lines of the security log, in both forms of the log, and in no others; also behind a
HAProxy.
"""

import base64
import contextlib
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/doors"))

import balancer  # noqa: E402
from server import Server, free_address  # noqa: E402

SERVICE = "dev-service-token"
PATIENCE_S = 60
PROMETHEUS = ROOT / "deploy/prometheus"
# What does not fire for a server that has just begun.
SILENT = {"TidegateDown", "TidegateNotReady", "TidegateDiskFull", "TidegateDamaged", "TidegateAuditDiffers",
          "TidegateSnapshotsFail", "TidegateDirectoryFault", "TidegateCertificateExpires", "TidegateNearBound",
          "TidegateRevocationListEnds", "TidegateRevocationListOver", "TidegatePacerLedgerAway", "TidegatePacerUnpaid",
          "TidegatePacerLedgerRefuses"}
# A provider whose keys cannot be had.
AWAY = """
[[identity_provider]]
name = "away"
issuer = "https://id.invalid"
audience = ["tidegate"]
jwks_url = "http://127.0.0.1:1/keys"
role = "viewer"
wallets = ["wallet:away:{sub}"]
"""
FILTER = ROOT / "deploy/fail2ban/filter.d/tidegate.conf"


def case(name, is_ok, what=""):
    print(f"{name}: ok" if is_ok else f"{name}: FAILED: {what}")
    return bool(is_ok)


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode == 0, done.stdout + done.stderr


def wait_for(what, look):
    deadline = time.monotonic() + PATIENCE_S
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > deadline:
            sys.exit(f"deploy: FAILED: waited {PATIENCE_S} s until {what}")
        time.sleep(0.05)


def fetch(url, accept=None):
    headers = {"authorization": f"Bearer {SERVICE}"} | ({"accept": accept} if accept else {})
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=30) as answer:
        return answer.headers["content-type"], answer.read().decode()


@contextlib.contextmanager
def prometheus(folder, target):
    """A Prometheus that scrapes `target` with the rules; gives its address."""
    address = free_address()
    config = (PROMETHEUS / "prometheus.yml").read_text()
    config = config.replace("127.0.0.1:8080", target).replace("scrape_interval: 15s", "scrape_interval: 1s")
    (folder / "prometheus.yml").write_text(config)
    (folder / "tidegate.token").write_text(SERVICE)
    (folder / "tidegate.rules.yml").write_text((PROMETHEUS / "tidegate.rules.yml").read_text())
    process = subprocess.Popen(
        ["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/tsdb",
         f"--web.listen-address={address}", "--log.level=error"])
    try:
        yield address
    finally:
        process.terminate()
        process.wait(timeout=30)


def ask(address, path, **query):
    url = f"http://{address}/api/v1/{path}?{urllib.parse.urlencode(query)}"
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        # While it starts, its answer is no JSON.
        return {"status": "error", "error": error.read().decode(), "data": {}}
    except (urllib.error.URLError, OSError):
        return {"status": "no answer", "data": {}}


def is_scraped(address):
    targets = ask(address, "targets").get("data", {}).get("activeTargets", [])
    return [target for target in targets if target["health"] == "up"]


def expressions():
    """All expressions of the dashboard, with what Grafana would put in."""
    dashboard = json.loads((ROOT / "deploy/grafana/tidegate.json").read_text())
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"].replace("$instance", ".*").replace("$__rate_interval", "1m")


def check_prometheus(server, folder):
    ok = True
    with prometheus(folder, server.http) as address:
        wait_for("Prometheus has scraped the server", lambda: is_scraped(address))
        alerts = [rule for group in ask(address, "rules")["data"]["groups"] for rule in group["rules"]]
        ok &= case("prometheus loads the alerts", len(alerts) >= 15, alerts)
        for alert in alerts:
            answer = ask(address, "query", query=alert["query"])
            # Others look at the host: its clock, its disk, how busy it is.
            is_silent = answer.get("data", {}).get("result") == [] or alert["name"] not in SILENT
            ok &= case(f"alert {alert['name']} is evaluated", answer["status"] == "success" and is_silent, answer)
        for title, expression in expressions():
            answer = ask(address, "query", query=expression)
            ok &= case(f"panel {title!r} is evaluated", answer["status"] == "success", f"{expression}: {answer}")
        seen = ask(address, "query", query='tidegate_build_info')["data"]["result"]
        ok &= case("prometheus has the version", len(seen) == 1 and "version" in seen[0]["metric"], seen)
    return ok


def check_forms(server):
    url = f"http://{server.http}/metrics"
    kind, text = fetch(url)
    plain = {family.name: family for family in text_string_to_metric_families(text)}
    ok = case("plain metrics are parsed", kind.startswith("text/plain") and len(plain) > 100, kind)
    kind, text = fetch(url, "application/openmetrics-text;version=1.0.0,text/plain;q=0.5")
    families = {family.name: family for family in openmetrics.text_string_to_metric_families(text)}
    ok &= case("openmetrics is parsed", kind.startswith("application/openmetrics-text"), kind)
    ok &= case("both forms have the same metrics", set(plain) == set(families), set(plain) ^ set(families))
    return ok


def token_of_nobody_known():
    """A token of the provider that is away."""
    def part(value):
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    head = {"alg": "RS256", "typ": "JWT", "kid": "1"}
    claims = {"iss": "https://id.invalid", "aud": "tidegate", "sub": "42", "exp": 4102444800}
    return ".".join((part(head), part(claims), "AAAA"))


def check_security(binary, data, log_format):
    """Real refusals, and lines that a user name tries to forge."""
    config = (ROOT / "config/dev.toml").read_text().replace('format = "text"', f'format = "{log_format}"') + AWAY
    file = data / "tidegate.toml"
    file.write_text(config)
    with tempfile.NamedTemporaryFile("w+") as log:
        server = Server(binary, str(data / "data"), log, config=str(file))
        server.wait_until_ready()
        forged = 'eve" WARN tidegate::security: log-in refused address=192.0.2.66 door="http" detail="" principal="'
        for user, password in (("dave", "wrong"), (forged, "x"), ("e\nve", "x"), ("dave", "dave")):
            body = json.dumps({"user": user, "password": password}).encode()
            server.request("/v1/login", body)
        server.request("/v1/audit", token="no-such-token")
        server.request("/v1/audit", token=token_of_nobody_known())
        wait_for("the log has all", lambda: server.said().count("token refused") == 2)
        server.stop()
        lines = pathlib.Path(data / f"{log_format}.log")
        lines.write_text(server.said())
    refused = len(re.findall(r"(?:log-in|token) refused", lines.read_text().replace(forged, "").replace(
        json.dumps(forged)[1:-1], "")))
    # One token may be good: the keys of its provider are not there.
    refused -= len(re.findall("the provider.s keys are not known", lines.read_text()))
    is_run, said = run("fail2ban-regex", "--print-all-matched", str(lines), str(FILTER))
    found = re.search(r"Lines: \d+ lines, \d+ ignored, (\d+) matched", said)
    ok = case(f"fail2ban finds refusals in {log_format}", is_run and found and int(found[1]) == 4 == refused,
              f"{refused} refused, {said}")
    return ok & case(f"no name forges an address in {log_format}", "192.0.2.66" not in addresses(lines), said)


def addresses(lines):
    """What fail2ban would ban."""
    _, said = run("fail2ban-regex", "--out", "ip", str(lines), str(FILTER))
    return said


def main(binary):
    ok = case("promtool takes the alerts", *run("promtool", "check", "rules", str(PROMETHEUS / "tidegate.rules.yml")))
    tests = PROMETHEUS / "tidegate.rules.test.yml"
    ok &= case("the alerts pass their tests", *run("promtool", "test", "rules", str(tests)))
    with tempfile.TemporaryDirectory() as folder, tempfile.NamedTemporaryFile("w+") as log:
        folder = pathlib.Path(folder)
        server = Server(binary, str(folder / "data"), log)
        server.wait_until_ready()
        ok &= check_forms(server)
        ok &= check_prometheus(server, folder)
        server.stop()
    for log_format in ("text", "json"):
        with tempfile.TemporaryDirectory() as folder:
            ok &= check_security(binary, pathlib.Path(folder), log_format)
    ok &= balancer.check(binary, ROOT, case, wait_for, addresses)
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main(sys.argv[1])
