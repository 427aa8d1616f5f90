#!/bin/sh
# sh bench/bare_machine.sh [quickstart] [tests]
#
# Proves that the two commands of README work on a machine that has nothing but Debian: makes a
# minimal Debian root with debootstrap, clones the committed state of this repository into it, and
# runs each command twice in a copy of its own: cold (nothing installed, nothing built) and warm.
# Needs root and debootstrap; about 8 GB under TMPDIR, which are removed at the end, as are all mounts.
# Writes bench/results/bare_machine_COMMAND.log: figures first, then what the command printed, each
# line with its second; apt's and ninja's lines of progress are left out.
#
#   MIRROR   a Debian mirror (http://deb.debian.org/debian)
#   SUITE    bookworm

set -eu
cd "$(dirname "$0")/.."
mirror=${MIRROR:-http://deb.debian.org/debian}
suite=${SUITE:-bookworm}

if [ "${REEF_BARE_NAMESPACE:-}" != yes ]; then
  [ "$(id -u)" = 0 ] || { echo "bare_machine.sh: run it as root." >&2; exit 2; }
  command -v debootstrap >/dev/null || { echo "bare_machine.sh: install debootstrap." >&2; exit 2; }
  # What is mounted in here is gone when the namespace ends, however it ends.
  REEF_BARE_NAMESPACE=yes exec unshare --mount --propagation private sh "$0" "$@"
fi

work=$(mktemp -d "${TMPDIR:-/tmp}/reef-bare.XXXXXX")
finish() {
  for root in "$work"/*/; do
    for point in dev/shm dev/pts dev proc sys; do
      umount "$root$point" 2>/dev/null || umount -l "$root$point" 2>/dev/null || true
    done
  done
  # Never through a mount that is still there.
  rm -rf --one-file-system "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM

echo "bare_machine.sh: debootstrap $suite"
debootstrap --variant=minbase --include=ca-certificates,git "$suite" "$work/base" "$mirror" >"$work/debootstrap.log" 2>&1 ||
  { tail -n 20 "$work/debootstrap.log" >&2; exit 1; }
cp /etc/resolv.conf /etc/hosts "$work/base/etc/"
git clone -q . "$work/base/reef"
git -C "$work/base/reef" remote remove origin
revision=$(git rev-parse --short HEAD)

enter() {
  root=$1
  mount --bind /proc "$root/proc"
  mount --bind /sys "$root/sys"
  mount -t tmpfs -o mode=755 tmpfs "$root/dev"
  for node in null zero random urandom full tty; do
    : >"$root/dev/$node"
    mount --bind "/dev/$node" "$root/dev/$node"
  done
  mkdir "$root/dev/shm" "$root/dev/pts"
  mount -t tmpfs tmpfs "$root/dev/shm"
  mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
  ln -s pts/ptmx "$root/dev/ptmx"
  ln -s /proc/self/fd "$root/dev/fd"
}

# timed LOG COMMAND...: each line with its second; the exit status is the command's.
timed() {
  log=$1
  shift
  {
    status=0
    env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 TERM=dumb \
      chroot "$root" sh -c 'cd /reef && exec sh "$@"' sh "$@" 2>&1 </dev/null || status=$?
    echo "exit status $status"
  } | perl -ne 'BEGIN { $| = 1; $t = time } printf "%5d  %s", time - $t, $_' >"$log"
  tail -n 1 "$log" | grep -q 'exit status 0$'
}

first() { grep -m 1 -E "$2" "$1" | awk '{print $1 " s"}' | grep . || echo "never"; }
last() { tail -n 1 "$1" | awk '{print $1 " s"}'; }

report() {
  name=$1 script=$2 pattern=$3 what=$4
  cp -a "$work/base" "$work/$name"
  enter "$work/$name"
  verdict=passed
  for run in cold warm; do
    echo "bare_machine.sh: $script, $run"
    timed "$work/$name.$run" "$script" || verdict=FAILED
  done
  result=bench/results/bare_machine_$name.log
  {
    echo "sh $script in a minimal Debian $suite (debootstrap), at $revision: $verdict"
    echo "$(getconf _NPROCESSORS_ONLN) cores,$(sed -n 's/^model name[^:]*://p' /proc/cpuinfo | head -n 1)"
    echo
    printf '%-6s %-14s %s\n' run "$what" "end"
    for run in cold warm; do
      printf '%-6s %-14s %s\n' $run "$(first "$work/$name.$run" "$pattern")" "$(last "$work/$name.$run")"
    done
    for run in cold warm; do
      printf '\n---- %s ----\n' $run
      grep -v -E '^ *[0-9]+  (\[[0-9]+/[0-9]+\]|Get:|Hit:|Ign:|Fetched|Selecting|Preparing|Unpacking|Setting up|\(Reading|update-alternatives|Processing triggers|debconf|Need to get|After this|Building dep|Reading|invoke-rc|Created symlink|  [a-z])' \
        "$work/$name.$run" | perl -pe 's/\x1b\[[0-9;]*m//g'
    done
  } >"$result"
  sed -n '1,6p' "$result"
  [ $verdict = passed ] || failed=yes
}

failed=no
[ $# -gt 0 ] || set -- quickstart tests
for command in "$@"; do
  case $command in
    quickstart) report quickstart examples/quickstart.sh '^ *[0-9]+  .*step +[0-9]' 'first step' ;;
    tests) report tests tests/run.sh '^ *[0-9]+  .*(Start +[0-9]+:|Test +#)' 'first test' ;;
    *) echo "bare_machine.sh: quickstart or tests, not $command" >&2; exit 2 ;;
  esac
done
[ $failed = no ]
