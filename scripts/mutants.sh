#!/bin/bash
# Tries the mutants of cargo-mutants with one build for all of them: mutants.sh PACKAGES [FILES]
#
#   mutants.sh "journal shard"                       all of these two
#   mutants.sh machines "ledger/apply.rs hold.rs"    those whose names hold one of these words
#
#   cargo mutants --list ─▶ woven into a copy of the tree ─▶ which tests reach which mutants
#                        ─▶ each mutant: those tests, the quickest first ─▶ those that live: simulator
#
# Tests are those of the package and of the packages that are built on it, or of those that MUTANT_TESTS names. One that
# lives is printed; all are in target/mutants/results-PACKAGE.txt. A second start goes on where the first one stopped,
# as long as the list of mutants is the same.
#
#   MUTANT_AGAIN=1       try those again that live or ran out of time: after new tests
#   MUTANT_TESTS_S=60    processor time of the tests of one mutant, in seconds: the quickest of them run
#   MUTANT_SEEDS=20      seeds of each world of the simulator; 0 for no simulator
#   MUTANT_JOBS=1        mutants tried at the same time
#
# A mutant that this cannot weave (in a constant, a deleted field) is in target/mutants/left-out.txt; for those and for
# one alone: cargo mutants -p tidegate-PACKAGE -F NAME.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=${1:-journal shard ledger machines}
files=${2:-}
seeds=${MUTANT_SEEDS:-20}
work=$(realpath -m "${CARGO_TARGET_DIR:-target}")/mutants
tree=$work/tree
mkdir -p "$tree"

# Nothing here is debugged, and what is optimised is as `cargo test` has it.
export CARGO_PROFILE_DEV_DEBUG=false CARGO_PROFILE_TEST_DEBUG=false
cargo build -q --manifest-path tests/mutants/Cargo.toml --target-dir "$work/tool"
tool=$work/tool/debug/mutants

# The package and those that are built on it.
tested_by() {
    case ${MUTANT_TESTS:+named}$1 in
    named*) echo "$MUTANT_TESTS" ;;
    journal) echo journal shard ledger backup ;;
    shard) echo shard ledger broker ;;
    machines) echo machines ledger broker ;;
    *) echo "$1" ;;
    esac
}

# All four packages are listed and woven, whichever are tried: one list, one build, one set of numbers. Text for people
# is left out.
woven=(-p tidegate-journal -p tidegate-shard -p tidegate-ledger -p tidegate-machines)
cargo mutants --list --json --exclude-re '(Display|Debug) for' "${woven[@]}" >"$work/list.new"
touch "$work/unviable.txt" "$work/list.json"
names() {
    grep '"name":' "$1" || true
}
if cmp -s <(names "$work/list.new") <(names "$work/list.json"); then
    mv "$work/list.new" "$work/list.json"
else
    # What did not build does not build elsewhere; what was killed there is tried again.
    if [ -s "$work/list.json" ]; then
        "$tool" carry --from "$work/list.json" --to "$work/list.new" --numbers "$work/unviable.txt" >"$work/carried.txt"
        mv "$work/carried.txt" "$work/unviable.txt"
        mkdir -p "$work/before"
        mv "$work/list.json" "$work"/results-*.txt "$work/before/" 2>/dev/null || true
        echo "the list of mutants has changed: results so far are in $work/before"
    fi
    mv "$work/list.new" "$work/list.json"
fi

# Weaves without what the compiler refuses, until it refuses nothing.
export CARGO_TARGET_DIR=$work/target
builds=false
for round in $(seq 1 60); do
    "$tool" weave --list "$work/list.json" --root . --tree "$tree" --without "$work/unviable.txt" >"$work/left-out.txt"
    if (cd "$tree" && cargo check "${woven[@]}" --message-format=json 2>"$work/check.err" >"$work/check.json"); then
        builds=true
        break
    fi
    "$tool" blame --tree "$tree" <"$work/check.json" >"$work/blamed.txt"
    if [ ! -s "$work/blamed.txt" ]; then
        break
    fi
    echo "round $round: $(wc -l <"$work/blamed.txt") mutants do not build"
    sort -un "$work/unviable.txt" "$work/blamed.txt" -o "$work/unviable.txt"
done
if ! $builds; then
    tail -20 "$work/check.err" >&2
    exit 1
fi
cut -d ' ' -f 1 "$work/left-out.txt" | sort -un - "$work/unviable.txt" -o "$work/without.txt"

# A test binary or the simulator of the woven tree.
build() {
    (cd "$tree" && cargo -q "$@" --message-format=json-render-diagnostics) |
        sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | tail -1
}
# Builds and runs see different variables: those of a run would build all libraries again.
# RUSTC_BOOTSTRAP: a binary that ends at the first test that fails (still unstable) costs half.
# What fails with a mutant is not to be tried again without it: no proptest-regressions/ in this tree.
running() {
    RUSTC_BOOTSTRAP=1 RUST_BACKTRACE=0 PROPTEST_CASES=${PROPTEST_CASES:-24} \
        PROPTEST_RNG_SEED=${PROPTEST_RNG_SEED:-20261122} PROPTEST_DISABLE_FAILURE_PERSISTENCE=true "$@"
}
bounds=(--bounds "ulimit -v 8000000;")

stages=()
if [ "$seeds" -gt 0 ]; then
    sim="$(build build -p tidegate-sim --bin tidegate-sim) --quiet --seeds 0..$seeds --world"
    stages=(--stage "$sim ledger && $sim gateway")
fi
only=()
for part in $files; do
    only+=(--only "$part")
done
for package in $packages; do
    reach=()
    for by in $(tested_by "$package"); do
        binary=$(build test -p "tidegate-$by" --lib --no-run)
        # As long as the tests are the same, they reach the same mutants.
        if ! [ "$work/reach-$by.txt" -nt "$binary" ]; then
            echo "which mutants the tests of $by reach"
            running "$tool" reach --binary "$binary" --folder "crates/$by" --out "$work/reach-$by.txt" \
                --processor-s 120 "${bounds[@]}"
        fi
        reach+=(--reach "$work/reach-$by.txt")
    done
    echo "$package: those that live"
    running "$tool" try --list "$work/list.json" --results "$work/results-$package.txt" \
        --without "$work/without.txt" "${only[@]}" --only-package "$package" ${MUTANT_AGAIN:+--again} \
        --tests-s "${MUTANT_TESTS_S:-60}" --jobs "${MUTANT_JOBS:-1}" --processor-s 60 "${bounds[@]}" "${reach[@]}" \
        "${stages[@]}"
done
