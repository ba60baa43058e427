#!/bin/bash
# The doors as strangers use them:  run.sh BINARY
# First the README as printed, then segments in an S3 server, examples/sms and examples/pacing, then requests that
# schemathesis makes up from /openapi.json, well-formed and not.
set -euo pipefail
cd "$(dirname "$0")/../.."

binary=$1
python=.venv/bin/python
"$python" tests/doors/readme.py "$binary"
"$python" tests/doors/archive.py "$binary"
"$python" examples/sms/sms.py --tidegate "$binary" --messages 20000
"$python" examples/pacing/pacing.py --tidegate "$binary" --seconds 20
# One worker: when two threads parse code, Python 3.11 says "AST constructor recursion depth mismatch" now and then.
"$python" tests/doors/server.py "$binary" \
    .venv/bin/st --config-file tests/doors/schemathesis.toml run "http://{http}/openapi.json" \
    --header "Authorization: Bearer dev-service-token" --workers 1
