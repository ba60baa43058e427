#!/bin/bash
# Plays a small show against a server that serves config/dev.toml (`make run`):  vote.sh [URL]
#
#   the shop sells credits ─▶ dave and carol log in ─▶ vote ─▶ a reply gets lost ─▶ too many votes ─▶ tally
#
# Every answer is compared with what it must be; the first that differs ends the script. Each run is a show of its own,
# so it can be played again on the same data. SHOW=name plays one show twice: all its ids are the same, so all is
# `duplicate`.
set -euo pipefail

url=${1:-http://localhost:8080}
show=${SHOW:-$(date +%s)-$$}
shop_token=${SHOP_TOKEN:-dev-service-token}

# ask TOKEN PATH [BODY]: GET, or POST when there is a body. An answer of 4xx is an answer, too.
ask() {
    local token=$1 path=$2 body=${3:-}
    curl -sS "$url$path" -H "Authorization: Bearer $token" -H 'content-type: application/json' ${body:+-d "$body"}
}

# field NAME: its value in a flat JSON object; enough for a script without jq.
field() {
    sed -n "s/.*\"$1\":\"\{0,1\}\([^\",}]*\).*/\1/p"
}

# log_in USER PASSWORD: prints a token.
log_in() {
    local token
    token=$(curl -sS "$url/v1/login" -H 'content-type: application/json' \
        -d "{\"user\":\"$1\",\"password\":\"$2\"}" | field token)
    [ -n "$token" ] || { echo "cannot log in as $1 at $url: does \`make run\` serve there?" >&2; exit 1; }
    echo "$token"
}

# pay TOKEN ID FROM TO AMOUNT EXPECTED...: one transfer, whose outcome or code must be one of EXPECTED.
pay() {
    local token=$1 id=$2 from=$3 to=$4 amount=$5 answer outcome
    shift 5
    answer=$(ask "$token" /v1/transfers "{\"id\":\"$id\",\"debit\":\"$from\",\"credit\":\"$to\",\"amount\":$amount}")
    outcome=$(field code <<<"$answer")
    outcome=${outcome:-$(field outcome <<<"$answer")}
    printf '  %-34s %-12s -> %-12s %3d  %s\n' "$id" "$from" "$to" "$amount" "$outcome"
    for expected in "$@"; do
        [ "$outcome" = "$expected" ] && return
    done
    echo "expected $*, but the server said: $answer" >&2
    exit 1
}

# available TOKEN ACCOUNT: credits that can be spent.
available() {
    ask "$1" "/v1/accounts/$2" | field available
}

# tally TOKEN: votes and candidate, most votes first.
tally() {
    ask "$1" '/v1/accounts?prefix=candidate:' | tr '{' '\n' |
        sed -n 's/.*"id":"\([^"]*\)".*"balance":\([0-9]*\).*/\2 \1/p' | sort -k1,1nr -k2
}

# votes_of TOKEN CANDIDATE
votes_of() {
    ask "$1" "/v1/accounts/$2" | field balance
}

echo "$show on $url"
dave=$(log_in dave dave)
carol=$(log_in carol carol)
before=$(votes_of "$dave" candidate:3)

echo "the shop sells ten credits each"
pay "$shop_token" "$show-order-dave" source:shop wallet:dave 10 applied duplicate
pay "$shop_token" "$show-order-carol" source:shop wallet:carol 10 applied duplicate

echo "the audience votes"
pay "$dave" "$show-dave-1" wallet:dave candidate:3 3 applied duplicate
pay "$carol" "$show-carol-1" wallet:carol candidate:3 2 applied duplicate
pay "$carol" "$show-carol-2" wallet:carol candidate:7 1 applied duplicate

echo "dave's connection broke: he sends the same vote again, and it counts once"
pay "$dave" "$show-dave-1" wallet:dave candidate:3 3 duplicate

echo "carol wants to spend more than she has, and dave wants to spend what is hers"
all=$(available "$carol" wallet:carol)
pay "$carol" "$show-carol-$((all + 1))-credits" wallet:carol candidate:3 $((all + 1)) insufficient_funds
pay "$dave" "$show-dave-2" wallet:carol candidate:3 1 forbidden

echo "the tally"
tally "$dave" | while read -r votes candidate; do
    printf '  %-12s %4d %s\n' "$candidate" "$votes" "$(printf '%*s' $((votes > 60 ? 60 : votes)) '' | tr ' ' '#')"
done

after=$(votes_of "$dave" candidate:3)
# Somebody else may be voting, too; and in a show that is played again nothing is added.
if [ -z "${SHOW:-}" ] && [ $((after - before)) -lt 5 ]; then
    echo "candidate:3 had $before votes and has $after: our five are not all there" >&2
    exit 1
fi
echo "dave has $(available "$dave" wallet:dave) credits left, carol $(available "$carol" wallet:carol)"
