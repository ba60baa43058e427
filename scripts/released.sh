#!/bin/bash
# Fails if a released binary would contain what only tests may turn on.
set -euo pipefail
cd "$(dirname "$0")/.."

for package in tidegate storm; do
    if cargo tree --package "$package" --edges normal,build,features --quiet | grep -E '"(fault-injection|planted-bugs)"'; then
        echo "released: $package would be released with the features above; only [dev-dependencies] may turn them on" >&2
        exit 1
    fi
done
