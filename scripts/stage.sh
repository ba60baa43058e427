#!/bin/bash
# Runs one stage of `make test`, says how long it took, and keeps what it printed for summary.sh:  stage.sh LOGS NAME
# COMMAND...
set -euo pipefail

logs=$1
name=$2
shift 2
mkdir -p "$logs"
log=$logs/${name%%/*}.log
echo "=== $name"
if "$@" 2>&1 | tee "$log"; then
    echo "=== $name: passed in ${SECONDS}s"
else
    status=$?
    echo "=== $name: FAILED (exit $status) after ${SECONDS}s. To see it alone: $*" >&2
    mv "$log" "$log.failed"
    "$(dirname "$0")/summary.sh" "$logs"
    exit "$status"
fi
