#!/bin/bash
# Counts what the stages of `make test` printed:  summary.sh LOGS The last line counts what no `cargo test` has counted:
# the README's commands, the operations of the OpenAPI document, the cases of MQTT clients, and a stage that failed
# without a failed test (lint, a build).
set -euo pipefail

cat "$1"/*.log* | awk -v stages="$(find "$1" -name '*.log' | wc -l)" -v broken="$(find "$1" -name '*.failed' | wc -l)" '
    /^test result: /                    { passed += $4; failed += $6; ignored += $8 }
    /^README.md:[0-9]+: ok: /           { commands++ }
    /^README.md:[0-9]+: / && !/: ok: /  { wrong++ }
    /^ *Tested: [0-9]+$/                { operations = $2 }
    /^[a-z].*: ok$/                     { cases++ }
    /^[a-z].*: FAILED: /                { wrong++ }
    END {
        printf "=== %d stages passed, %d failed\n", stages, broken
        printf "    cargo test: %d passed, %d failed, %d ignored\n", passed, failed, ignored
        printf "    besides, %d README commands, %d HTTP operations and %d cases of clients:\n",
            commands, operations, cases
        if (broken && failed + wrong == 0) wrong = 1
        if (broken && operations) operations = 0
        printf "%d passed, %d failed\n", commands + operations + cases, wrong
    }'
