#!/bin/bash
# Fails if a line of a tracked text file has more than 120 columns, the width that rustfmt is set to.
#
#   columns.sh [PATH...]      all files, or those below some paths
#
# Exceptions: files that a program writes, and rows of tables that tests parse or write or that hold names of
# mutants (their cells cannot be wrapped).
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C.UTF-8 # a column is a character, not a byte

COLUMNS_MAX=120
WRITTEN_BY_PROGRAMS=(
    ':!*.lock' ':!*/package-lock.json'  # package managers
    ':!fuzz/corpus'                     # the fuzzer
    ':!deploy/grafana/*.json'           # Grafana
    ':!docs/results/*.json' ':!docs/results/*.txt' # storm
)
PARSED_TABLES='^(ARCHITECTURE|docs/(configuration|metrics|mqtt-statements|results/[^/]+/mutants))\.md:[0-9]+:\|'

# grep finds nothing: 1, which is what is wanted here.
long=$(git ls-files -z -- "${@:-.}" "${WRITTEN_BY_PROGRAMS[@]}" |
    xargs -0 grep -HnIP "^.{$((COLUMNS_MAX + 1)),}" | grep -vE "$PARSED_TABLES" || true)
if [ -n "$long" ]; then
    cut -c 1-160 <<<"$long" >&2
    echo "columns: $(wc -l <<<"$long") lines have more than $COLUMNS_MAX columns: wrap them" >&2
    exit 1
fi
