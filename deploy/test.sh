#!/usr/bin/env bash
# Everything that is tested without docker: setup, build of the dev preset with CUDA compiled and linked, all tests that
# are not labelled slow, and `kernels` built and tested alone.   deploy/test.sh [--slow] [CTEST ARGUMENTS...]
# RISKKV_NO_CUDA=1 leaves CUDA out. RISKKV_TEST_JOBS is the number of tests at a time (default 1: an engine's threads spin,
# and tests that share cores with them time out).
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/lib/common.sh"

skip=(--label-exclude '^slow$')
if [ "${1:-}" = --slow ]; then
  skip=()
  shift
fi
jobs=${RISKKV_TEST_JOBS:-1}
setup=()
cuda=(-DRISKKV_CUDA=OFF)
if [ "${RISKKV_NO_CUDA:-0}" != 1 ]; then
  setup=(--cuda)
fi
"$here/setup.sh" "${setup[@]}"
source "$here/lib/env.sh"
if [ "${RISKKV_NO_CUDA:-0}" != 1 ]; then
  cuda=(-DRISKKV_CUDA=ON -DCMAKE_CUDA_COMPILER="$RISKKV_CACHE/cuda-13.0/bin/nvcc" -DCUDAToolkit_ROOT="$RISKKV_CACHE/cuda-13.0")
fi

# Some tests compare with independent programs, which live beside the repository where this project is developed.
RISKKV_PYTHON=$("$here/lib/test_python.sh")
export RISKKV_PYTHON
if [ -z "${RISKKV_SHARED:-}" ] && [ -d "$repo_root/../shared/reference" ]; then
  RISKKV_SHARED=$(cd "$repo_root/../shared" && pwd)
  export RISKKV_SHARED
fi

# The model's tests calibrate on the demonstration's texts.
RISKKV_TEXT=${RISKKV_TEXT:-$("$here/lib/demo_text.sh" | tail -1)}
export RISKKV_TEXT

# All that can fail is run, and failures are counted, so that one run shows everything.
failed=()

say "kernels, alone"
export CCACHE_BASEDIR=$repo_root CCACHE_NOHASHDIR=1
cd "$repo_root"
quiet build/configure-kernels.log cmake -S kernels -B build/kernels -G Ninja "${cuda[@]}"
quiet build/build-kernels.log cmake --build build/kernels --parallel "${RISKKV_JOBS:-$(nproc)}"
ctest --test-dir build/kernels --output-on-failure --parallel "$jobs" || failed+=("the tests of kernels alone")

if [ "${RISKKV_NO_CUDA:-0}" = 1 ]; then
  "$here/build.sh" dev
else
  "$here/build.sh" dev -DRISKKV_CUDA=ON
fi
say "tests"
ctest --preset dev --parallel "$jobs" --no-tests=error "${skip[@]}" "$@" || failed+=("the tests of the dev preset")

if [ ${#failed[@]} -gt 0 ]; then
  die "$(printf '%s; ' "${failed[@]}")" "their output is above; one alone: ctest --preset dev -R NAME --output-on-failure"
fi
say "all tests passed"
