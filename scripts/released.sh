#!/bin/bash
# Fails if a released binary would contain what tests break on purpose: the features of tidegate-planted.
set -euo pipefail
cd "$(dirname "$0")/.."

PLANTED='tidegate-planted feature "(bugs|tampering)"'

planted() { # PACKAGE EDGES
    cargo tree --package "$1" --edges "$2,features" --quiet | grep -E "$PLANTED"
}

for package in tidegate storm counter; do
    if planted "$package" normal,build; then
        echo "released: $package would have the features above; only [dev-dependencies] may turn them on" >&2
        exit 1
    fi
done

# The same question must be answered with yes where it should, or a new name of the features would go unnoticed.
for package in tidegate tidegate-sim; do
    if ! planted "$package" normal,build,dev >/dev/null; then
        echo "released: the tests of $package have no feature like $PLANTED; correct the names in this script" >&2
        exit 1
    fi
done
