# What examples/serve.sh and examples/swarm.sh share, which read this file: a folder, and processes that end with the
# script. Before it, `me` is the script's name and `program` the one that is run.

if [ ! -x "$program" ]; then
  echo "$me: there is no program '$program'." >&2
  echo "  fix: cmake --preset release -DREEF_ENABLE_SWARM=ON, cmake --build build/release --target reef-swarm" >&2
  exit 2
fi

folder=$(mktemp -d "${TMPDIR:-/tmp}/reef-$me.XXXXXX")
started=
stop() {
  for process in $started; do kill "$process" 2>/dev/null || true; done
  for process in $started; do wait "$process" 2>/dev/null || true; done
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

say() { echo "$me: $*"; }
fail() {
  echo "$me: $*" >&2
  echo "  what the processes said is in $folder" >&2
  exit 1
}

# Waits until a command succeeds, 300 seconds at most.
until_so() {
  tries=0
  until "$@"; do
    tries=$((tries + 1))
    [ $tries -lt 3000 ] || return 1
    sleep 0.1
  done
}
