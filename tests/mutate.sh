#!/bin/sh
# sh tests/mutate.sh [--only N[,N...]] [--list] [--jobs N]
#
# Breaks the library on purpose, in one place at a time, and says which tests notice.
#
#   --only N[,N...]  these mutations alone
#   --list           says what is broken where, and ends
#   --jobs N         compilers, and tests, at once (default: the cores, if memory allows)
#
# tests/mutations has the places, a file for each folder of include/reef: README.md there says how one is written.
# All of them are compiled at once, into build/mutate, and the environment variable REEF_MUTATION=N chooses one.
#
# Ends with a table, survivors last. The exit status is 0 if and only if 95 of 100 are noticed, every text that is to be
# changed is found, and no test fails where nothing is broken.

set -u
cd "$(dirname "$0")/.." || exit 2
. cmake/packages.sh

if ! command -v python3 >/dev/null 2>&1; then
  reef_say "tests/mutate.sh needs python3, which is not here."
  exit 3
fi
jobs=$(reef_jobs)
only=
list=
while [ $# -gt 0 ]; do
  case $1 in
    --only) shift; only=${1:?--only needs numbers} ;;
    --list) list=--list ;;
    --jobs) shift; jobs=${1:?--jobs needs a number} ;;
    --help) sed -n '2,15s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) sed -n '2,15s/^# \{0,1\}//p' "$0"; exit 2 ;;
  esac
  shift
done
exec python3 tests/mutations/mutate.py --jobs "$jobs" ${only:+--only "$only"} $list
