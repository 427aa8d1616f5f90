#!/bin/sh
# sh examples/serve.sh [MODEL [PROGRAM]]
#
# Four servers of this machine compute the blocks of one model, and a client continues a text over them. One server is
# killed with -9 in the middle; the text is that of a client whose servers are all well. Builds nothing: PROGRAM is
# reef-swarm, by default that of build/release; MODEL a folder of Hugging Face, by default a tiny one of two blocks.
# Ends the processes that it has started, and no others.

set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
model=${1:-$root/tests/data/bloom_alibi}
program=${2:-$root/build/release/examples/reef-swarm}
me=serve
. "$root/examples/support/local_processes.sh"
says() { grep -q "$2" "$folder/$1.log"; }
has_text() { [ "$(wc -c < "$folder/$1.txt")" -gt 100 ]; }

"$program" log-server --listen 127.0.0.1:0 --dir "$folder/store" > "$folder/port" 2> "$folder/store.log" &
started="$started $!"
until_so test -s "$folder/port" || fail "the store did not start"
common="--log http://127.0.0.1:$(cat "$folder/port") --plain-loopback --threads 1"
for server in a:0:2 b:0:1 c:1:2 d:0:2; do
  name=${server%%:*}
  "$program" serve $common --model "$model" --name "$name" --blocks "${server#*:}" 2> "$folder/$name.log" &
  eval "process_$name=$!"
  started="$started $!"
done
for name in a b c d; do until_so says "$name" "serves blocks" || fail "server $name did not start"; done
say "servers a and d have both blocks, b the first, c the second"

generate() {
  "$program" generate $common --model "$model" --tokens "5 17 30 3" --new 3000 --seed 7 > "$folder/$1.txt" 2> "$folder/$1.log"
}
generate well || fail "the text without failures has failed"
generate killed &
text=$!
started="$started $text"
until_so has_text killed || fail "the second text did not begin"
# Of the servers that the client has chosen, the first.
first=$(sed -n 's/.*: \[0, [0-9]*) \([abcd]\)\/.*/\1/p' "$folder/killed.log" | tail -n 1)
eval "kill -9 \"\$process_$first\""
say "server $first, which computes the text, is killed with -9"
wait "$text" || fail "the text has failed"
sed -n 's/^reef-swarm: /serve: /; /lost\|done/p' "$folder/killed.log"
says killed "with 0 repairs" && fail "the text was done before the server was killed"
cmp "$folder/well.txt" "$folder/killed.txt" || fail "the texts differ"
say "the text has the $(wc -w < "$folder/killed.txt") tokens of the one without failures"
rm -r "$folder"
