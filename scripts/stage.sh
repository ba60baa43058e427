#!/bin/bash
# Runs one stage of `make test` and says how long it took:  stage.sh NAME COMMAND...
set -euo pipefail

name=$1
shift
echo "=== $name"
if "$@"; then
    echo "=== $name: passed in ${SECONDS}s"
else
    status=$?
    echo "=== $name: FAILED (exit $status) after ${SECONDS}s. To see it alone: $*" >&2
    exit "$status"
fi
