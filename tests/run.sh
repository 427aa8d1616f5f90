#!/bin/sh
# sh tests/run.sh [--install-only] [--all] [--release-only] [--torch] [--jobs N]
#
# Installs what is missing, builds the release preset and runs its tests; meanwhile builds core to comm,
# schedule and run under ASan+UBSan, and those of them that start threads under TSan, and then runs their tests.
#
#   --install-only   stop after the installation
#   --all            the tests labelled long, all of CUDA and, where it is there, libtorch, every folder and 4 ranks under
#                    the sanitizers, each header alone, bodies of headers one by one and through nvcc, and headers,
#                    tests and examples built by clang++ as well, and their names read by clang-tidy, and the library
#                    broken on purpose (tests/mutate.sh), if python3 and those are there
#   --release-only   no sanitizers
#   --torch          installs libtorch, and runs tests/torch too, as --all does where libtorch is there
#   --jobs N         compilers and tests at once (default: the cores, if memory allows)
#
# Ends with the ten slowest tests and ctest's closing lines, those of the release suite last. The
# exit status is 0 if and only if every build worked and every test passed.

set -u
cd "$(dirname "$0")/.." || exit 2
. cmake/packages.sh

asan_folders='support core io fuzz trace device comm schedule run'
tsan_folders='support trace device comm run'
all=no
install_only=no
sanitizers=yes
torch=no
jobs=$(reef_jobs)
while [ $# -gt 0 ]; do
  case $1 in
    --all) all=yes ;;
    --install-only) install_only=yes ;;
    --release-only) sanitizers=no ;;
    --torch) torch=yes ;;
    --jobs) shift; jobs=${1:?--jobs needs a number} ;;
    *) sed -n '2,17s/^# \{0,1\}//p' "$0"; exit 2 ;;
  esac
  shift
done

started=$(date +%s)
elapsed() { echo "$(($(date +%s) - started)) s"; }

# phase TEXT: says what begins now, here and among the closing lines
phases=
phase() {
  line="$(elapsed): $1"
  reef_say "$line"
  phases="$phases$line
"
}

reef_install tests
[ "$torch" = no ] || reef_install torch
[ "$install_only" = no ] || exit 0

logs=build/logs
mkdir -p "$logs"
rm -f "$logs"/*.log
status=0

# Warnings are errors with the compilers that the project is developed with; a newer one may know
# warnings that nobody has seen yet, and must not stop a build for them.
werror=OFF
case $(${CXX:-g++} -dumpversion 2>/dev/null) in 12*) werror=ON ;; esac

# configure PRESET [OPTION...]
configure() {
  phase "configuring build/$1"
  preset=$1
  shift
  cmake --preset "$preset" -DREEF_BUILD_TESTS=ON -DREEF_BUILD_EXAMPLES=ON -DREEF_ENABLE_SWARM=ON -DREEF_WERROR=$werror "$@" \
    >"$logs/$preset.configure.log" 2>&1 || {
    cat "$logs/$preset.configure.log"
    reef_say "build/$preset cannot be configured."
    exit 1
  }
}

# build PRESET [TARGET...]
nicely=
build() {
  phase "building build/$1"
  preset=$1
  shift
  if ! $nicely cmake --build "build/$preset" -j "$jobs" ${1:+--target} "$@"; then
    reef_say "build/$preset cannot be built."
    exit 1
  fi
}

# run PRESET [CTEST OPTION...]: leaves the output in a log, remembers a failure and goes on.
run() {
  phase "testing build/$1"
  preset=$1
  shift
  {
    # More than compilers: tests wait for clocks and messages most of their time.
    ctest --test-dir "build/$preset" -j "$((5 * jobs))" --output-on-failure --no-tests=error "$@" 2>&1
    echo $? >"$logs/$preset.status"
  } | tee "$logs/$preset.log"
  [ "$(cat "$logs/$preset.status")" = 0 ] || status=1
}

has_torch=OFF
if [ "$torch$all" = nono ]; then
  reef_say "tests/torch is left out: --torch runs it."
elif reef_has_torch; then
  has_torch=ON
else
  reef_say "no libtorch for this compiler: tests/torch is left out. --torch installs it."
fi
if [ "$all" = yes ]; then
  configure release -DREEF_ENABLE_TORCH=$has_torch -DREEF_CHECK_HEADERS_ALONE=ON -DREEF_CHECK_CUDA_HEADERS=ON -DREEF_ALL_CUDA_TESTS=ON \
    -DREEF_CHECK_BODIES=ON
else
  configure release -DREEF_ENABLE_TORCH=$has_torch -DREEF_CHECK_HEADERS_ALONE=OFF
fi
build release

# What the sanitizers get: all with --all.
folders_of() { # PRESET
  if [ "$1" = asan ]; then echo "$asan_folders"; else echo "$tsan_folders"; fi
}
targets_of() { # PRESET
  [ "$all" = yes ] || for folder in $(folders_of "$1"); do
    [ ! -f "tests/$folder/CMakeLists.txt" ] || echo "tests-$folder"
  done
}

# Compilers take the time that the release tests leave.
if [ "$sanitizers" = yes ]; then
  trap 'trap - INT TERM; kill 0' INT TERM
  (
    nicely='nice -n 10'
    for preset in asan tsan; do
      if [ "$all" = yes ]; then configure $preset -DREEF_SANITIZE_ALL_RANKS=ON; else configure $preset; fi
      # shellcheck disable=SC2046
      build "$preset" $(targets_of "$preset")
    done
  ) >"$logs/sanitizers.build.log" 2>&1 &
  builder=$!
fi
if [ "$all" = yes ]; then
  run release
else
  run release -LE '^long$'
fi
if [ "$sanitizers" = yes ]; then
  phase "waiting for build/asan and build/tsan"
  if ! wait "$builder"; then
    tail -n 100 "$logs/sanitizers.build.log"
    exit 1
  fi
  for preset in asan tsan; do
    if [ "$all" = yes ]; then
      run $preset
    else
      run $preset -L "^($(folders_of $preset | tr ' ' '|'))\$"
    fi
  done
fi

if [ "$all" = yes ] && command -v clang++ >/dev/null 2>&1; then
  phase "building all through clang++ in build/clang"
  werror=OFF
  case $(clang++ -dumpversion) in 14*) werror=ON ;; esac
  if ! { cmake --preset dev -B build/clang -DCMAKE_CXX_COMPILER=clang++ -DREEF_BUILD_TESTS=ON \
      -DREEF_BUILD_EXAMPLES=ON -DREEF_WERROR=$werror >"$logs/clang.configure.log" 2>&1 &&
      cmake --build build/clang -j "$jobs"; }; then
    reef_say "build/clang cannot be built."
    status=1
  fi
  if command -v clang-tidy >/dev/null 2>&1; then
    phase "names through clang-tidy"
    if ! clang-tidy --quiet -p build/clang '--checks=-*,readability-identifier-naming' \
        examples/reef_train/*.cpp examples/*.cpp 2>"$logs/tidy.log"; then
      reef_say "names break the style."
      status=1
    fi
  fi
fi

if [ "$all" = yes ] && command -v python3 >/dev/null 2>&1; then
  phase "breaking the library on purpose in build/mutate"
  if ! sh tests/mutate.sh --jobs "$jobs"; then
    reef_say "too many mutations are noticed by no test, or tests/mutations needs a hand."
    status=1
  fi
fi

echo
echo "The ten slowest tests:"
for log in "$logs"/release.log "$logs"/asan.log "$logs"/tsan.log; do
  [ -f "$log" ] || continue
  preset=$(basename "$log" .log)
  sed -n 's/^ *[0-9]*\/[0-9]* Test *#[0-9]*: \([^ ]*\) .* \([0-9.]*\) sec.*$/\2 \1/p' "$log" |
    sed "s/\$/ $preset/"
done | sort -rn | head -n 10 | awk '{printf "%9.2f s  %-8s %s\n", $1, $3, $2}'
echo
printf '%s' "$phases"
reef_say "$(elapsed) in all; logs are in $logs"

for preset in asan tsan release; do
  [ -f "$logs/$preset.log" ] || continue
  printf '\n-- %s\n' "$preset"
  sed -n '/tests passed, .* tests failed out of/p; /^The following tests FAILED/,/^Errors while/p; /^No tests were found/p' \
    "$logs/$preset.log"
done
exit $status
