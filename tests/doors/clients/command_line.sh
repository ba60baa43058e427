#!/bin/bash
# mosquitto_pub, mosquitto_sub and mosquitto_rr with the options that people use:  command_line.sh HOST PORT HTTP
# Each check prints what a terminal would show and compares it.
set -euo pipefail

host=$1 port=$2 http=$3
broker=(-h "$host" -p "$port")
topic=line/$$
seconds_max=20
failed=0

# expect NAME WANTED FOUND
expect() {
    if [ "$2" = "$3" ]; then
        echo "mosquitto clients: $1: ok"
    else
        printf 'mosquitto clients: %s: FAILED: got\n%s\nnot\n%s\n' "$1" "$3" "$2"
        failed=1
    fi
}

# listen FILE OPTIONS...: a subscriber in the background, ready when it says that it is subscribed (-d shows SUBACK; by
# line).
listen() {
    local into=$1
    shift
    # Before the background does it, or we read what an earlier listener said.
    : >"$into"
    stdbuf -oL mosquitto_sub "${broker[@]}" -d -W "$seconds_max" "$@" >"$into" 2>&1 &
    listener=$!
    until grep -q 'SUBACK\|Subscribed' "$into"; do
        kill -0 "$listener" 2>/dev/null || { cat "$into"; exit 1; }
        sleep 0.02
    done
}

# ended FILE: waits until the listener has ended by itself (-C) and leaves what it printed besides its protocol in
# $heard.
ended() {
    wait "$listener" || true
    heard=$(said "$1")
}

# said FILE: what mosquitto_sub printed besides its protocol.
said() {
    grep -v '^Client \|^Subscribed ' "$1" || true
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for version in mqttv311 mqttv5; do
    for qos in 0 1 2; do
        listen "$work/out" -V $version -q $qos -t "$topic/q$qos" -C 3
        printf 'one\ntwo\nthree\n' | mosquitto_pub "${broker[@]}" -V $version -q $qos -t "$topic/q$qos" -l
        ended "$work/out"
        expect "$version QoS $qos, lines from stdin" $'one\ntwo\nthree' "$heard"
    done

    mosquitto_pub "${broker[@]}" -V $version -q 1 -r -t "$topic/retained" -m kept
    found=$(mosquitto_sub "${broker[@]}" -V $version -q 1 -t "$topic/#" -C 1 -W $seconds_max -F '%t %r %q %p')
    expect "$version retained, with a format" "$topic/retained 1 1 kept" "$found"
    mosquitto_pub "${broker[@]}" -V $version -q 1 -r -n -t "$topic/retained"
    mosquitto_pub "${broker[@]}" -V $version -q 1 -r -t "$topic/next" -m next
    found=$(mosquitto_sub "${broker[@]}" -V $version -q 1 -t "$topic/#" -C 1 -W $seconds_max)
    expect "$version retained and cleared with -n" next "$found"
    mosquitto_pub "${broker[@]}" -V $version -q 1 -r -n -t "$topic/next"

    listen "$work/out" -V $version -t "$topic/will" -C 1
    : >"$work/mortal"
    stdbuf -oL mosquitto_sub "${broker[@]}" -V $version -d -i "mortal-$$-$version" -t "$topic/none" \
        --will-topic "$topic/will" \
        --will-payload 'I was killed' --will-qos 1 >"$work/mortal" &
    mortal=$!
    until grep -q SUBACK "$work/mortal"; do sleep 0.02; done
    # Or bash tells us that it was killed.
    disown $mortal
    kill -9 $mortal
    ended "$work/out"
    expect "$version will of a killed client" 'I was killed' "$heard"

    asleep=(-V "$version" -i "sleeper-$$-$version" -c -q 1 -t "$topic/sleep")
    [ $version = mqttv311 ] || asleep+=(-x 3600)
    mosquitto_sub "${broker[@]}" "${asleep[@]}" -E
    mosquitto_pub "${broker[@]}" -V $version -q 1 -t "$topic/sleep" -m 'while you slept'
    found=$(mosquitto_sub "${broker[@]}" "${asleep[@]}" -C 1 -W $seconds_max)
    expect "$version a session that slept" 'while you slept' "$found"
    mosquitto_sub "${broker[@]}" -V $version -i "sleeper-$$-$version" -t "$topic/sleep" -E
done

head -c 200000 /dev/urandom >"$work/file"
mosquitto_pub "${broker[@]}" -q 2 -r -t "$topic/file" -f "$work/file"
mosquitto_sub "${broker[@]}" -q 2 -t "$topic/file" -C 1 -N -W $seconds_max >"$work/copy"
expect "a file of 200,000 bytes" "$(sha256sum <"$work/file")" "$(sha256sum <"$work/copy")"
mosquitto_pub "${broker[@]}" -q 1 -r -n -t "$topic/file"

listen "$work/out" -V mqttv5 -t "$topic/properties" -C 1 -F '%p %P %C %D %R'
mosquitto_pub "${broker[@]}" -V mqttv5 -t "$topic/properties" -m body -D publish user-property who tide \
    -D publish content-type text/plain -D publish correlation-data c7 -D publish response-topic "$topic/answer"
ended "$work/out"
expect "properties" "body who:tide text/plain c7 $topic/answer" "$heard"

: >"$work/asked"
stdbuf -oL mosquitto_sub "${broker[@]}" -V mqttv5 -d -t "$topic/ask" -C 1 -W $seconds_max -F '%R' >"$work/asked" 2>&1 &
answerer=$!
until grep -q SUBACK "$work/asked"; do sleep 0.02; done
mosquitto_rr "${broker[@]}" -V mqttv5 -t "$topic/ask" -e "$topic/reply" -m question -W $seconds_max >"$work/reply" &
asker=$!
wait $answerer
mosquitto_pub "${broker[@]}" -V mqttv5 -t "$(said "$work/asked")" -m 'the answer'
wait $asker
expect "mosquitto_rr asks and is answered" 'the answer' "$(cat "$work/reply")"

# A queue: what is published is kept until somebody has it.
token=dev-service-token
service=("${broker[@]}" -u dev -P "$token")
curl -sf -X PUT "http://$http/v1/queues/line-$$" -H "authorization: Bearer $token" \
    -H 'content-type: application/json' -d '{}' >/dev/null
for version in mqttv311 mqttv5; do
    printf 'one\ntwo\nthree\n' | mosquitto_pub "${service[@]}" -V $version -q 1 -t "\$queue-in/line-$$" -l
    found=$(mosquitto_sub "${service[@]}" -V $version -q 1 -t "\$queue-out/line-$$" -C 3 -W $seconds_max)
    expect "$version a queue, lines from stdin" $'one\ntwo\nthree' "$found"
done
mosquitto_pub "${service[@]}" -V mqttv5 -q 2 -t "\$queue-in/line-$$" -m job -D publish user-property priority 9
found=$(mosquitto_sub "${service[@]}" -V mqttv5 -q 1 -t "\$queue-out/line-$$" -C 1 -W $seconds_max -F '%t %q %p %P')
key=$(sed -n 's/.* key:\([0-9A-Z]*\) .*/\1/p' <<<"$found")
expect "a queue, with properties" "\$queue-out/line-$$ 1 job key:$key attempts:1 priority:9" "$found"
refused=$(mosquitto_pub "${broker[@]}" -V mqttv5 -q 1 -t "\$queue-in/line-$$" -m x 2>&1 || true)
warning=$'Warning: Publish 1 failed: Not authorized.\nno right to publish on this topic'
expect "a queue, without a right" "$warning" "$refused"

exit $failed
