#!/bin/sh
# sh examples/swarm.sh [--etcd] [PROGRAM]
#
# Five peers of this machine train one model. One is killed with -9, another one joins; at the end their weights are
# compared with each other, and with those of a replay of the job's log. Builds nothing: PROGRAM is reef-swarm, by default
# that of build/release. Ends the processes that it has started, and no others.
#
# --etcd: three keepers have the log in place of a log server, all is encrypted, and one keeper is killed with -9, too.
# Needs etcd (apt-get install etcd-server).

set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
keepers=
if [ "${1:-}" = --etcd ]; then
  keepers="k1 k2 k3"
  shift
fi
program=${1:-$root/build/release/examples/reef-swarm}
me=swarm
. "$root/examples/support/local_processes.sh"

# A peer of 80 rounds, of a small model and this repository's documentation.
options="--rounds 80 --global-batch 12 --layers 2 --heads 2 --channels 64 --context 64 --batch 4 --threads 1"
start() {
  "$program" train $job $options --data "$root"/docs/*.md --job example $safety --members 5 --pace 0.05 --name "$1" \
    --export "$folder/$1/model.safetensors" --metrics "$folder/$1.jsonl" 2> "$folder/$1.log" &
  eval "process_$1=$!"
  started="$started $!"
}
rounds_of() { if [ -f "$folder/$1.jsonl" ]; then wc -l < "$folder/$1.jsonl"; else echo 0; fi; }
has_rounds() { [ "$(rounds_of "$1")" -ge "$2" ]; }
has_port() { [ -s "$folder/$1.port" ]; }
is_over() { ! kill -0 "$1" 2>/dev/null; }

for name in a b c d e f; do mkdir "$folder/$name"; done
if [ -n "$keepers" ]; then
  say "the keepers k1, k2 and k3, and the peers a, b, c, d and e"
  "$program" keys make --dir "$folder/keys" --job example > "$folder/keys.log"
  for name in $keepers; do "$program" keys issue --dir "$folder/keys" --name "$name" --role keeper >> "$folder/keys.log"; done
  for name in a b c d e f; do "$program" keys issue --dir "$folder/keys" --name "$name" >> "$folder/keys.log"; done
  "$program" keys issue --dir "$folder/keys" --name reader --role client >> "$folder/keys.log"
  # Ports of this shell's number, for the etcds to find each other: below those that connections get by themselves.
  base=$((10000 + $$ % 7000 * 3))
  cluster="k1=127.0.0.1:$base,k2=127.0.0.1:$((base + 1)),k3=127.0.0.1:$((base + 2))"
  job=
  for name in $keepers; do
    "$program" keeper --name "$name" --listen 127.0.0.1:0 --cluster "$cluster" --dir "$folder/$name" --keys "$folder/keys" \
      > "$folder/$name.port" 2> "$folder/$name.log" &
    eval "process_$name=$!"
    started="$started $!"
    until_so has_port "$name" || fail "the keeper $name does not start"
    job="$job${job:+,}https://127.0.0.1:$(cat "$folder/$name.port")"
  done
  job="--keepers $job --keys $folder/keys"
  safety=
  reader="--name reader"
else
  say "a log server, and the peers a, b, c, d and e"
  "$program" log-server --listen 127.0.0.1:0 --dir "$folder/log" > "$folder/log.port" 2> "$folder/log-server.log" &
  started="$started $!"
  until_so has_port log || fail "the log server does not start"
  job="--log http://127.0.0.1:$(cat "$folder/log.port")"
  safety=--plain-loopback
  reader=
fi
for name in a b c d e; do start "$name"; done

until_so has_rounds a 8 || fail "the peers do not come to round 8"
say "c is killed with -9 in round $(rounds_of a); f joins"
kill -9 "$process_c"
start f
if [ -n "$keepers" ]; then
  say "k1 is killed with -9"
  kill -9 "$process_k1"
fi

for name in a b d e f; do
  eval "process=\$process_$name"
  until_so is_over "$process" || fail "$name does not come to an end"
  wait "$process" || fail "$name ends with an error"
done

for name in b d e f; do
  cmp "$folder/a/model.safetensors" "$folder/$name/model.safetensors" || fail "the weights of a and $name differ"
done
say "a, b, d, e and f have the same weights, byte by byte. The log's account:"
"$program" log $job $reader | grep -v '^round'

"$program" replay $job $reader $options --data "$root"/docs/*.md --export "$folder/replay.safetensors" 2> "$folder/replay.log" ||
  fail "the replay ends with an error"
cmp "$folder/a/model.safetensors" "$folder/replay.safetensors" || fail "the weights of the replay differ"
say "a replay of the log, alone, has the same weights"
stop
started=
rm -r "$folder"
