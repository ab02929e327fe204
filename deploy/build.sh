#!/usr/bin/env bash
# Configures and builds one preset:   deploy/build.sh [PRESET] [CMAKE ARGUMENTS...]
#   PRESET  release (default, into build/), dev, asan, tsan, cuda, fuzz: CMakePresets.json
# Uses what deploy/setup.sh brought, and the CUDA toolkit where setup brought one. RISKKV_NO_CUDA=1 leaves CUDA out;
# RISKKV_JOBS is the number of compilers at a time (default: the cores); RISKKV_TARGETS builds only these.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/lib/common.sh"
source "$here/lib/env.sh"

preset=release
if [ $# -gt 0 ] && [ "${1#-}" = "$1" ]; then
  preset=$1
  shift
fi
[ -d "$RISKKV_LLAMA_ROOT/lib/cmake/llama" ] || die "no llama.cpp at $RISKKV_LLAMA_ROOT" "run deploy/setup.sh first"
arguments=(-DRISKKV_LLAMA_ROOT="$RISKKV_LLAMA_ROOT")
case $preset in
  asan | tsan | fuzz) ;;  # these presets are without CUDA
  *)
    if [ "${RISKKV_NO_CUDA:-0}" = 1 ]; then
      arguments+=(-DRISKKV_CUDA=OFF)
    elif [ -x "$RISKKV_CACHE/cuda-13.0/bin/nvcc" ]; then
      arguments+=(-DCMAKE_CUDA_COMPILER="$RISKKV_CACHE/cuda-13.0/bin/nvcc" -DCUDAToolkit_ROOT="$RISKKV_CACHE/cuda-13.0")
    fi
    ;;
esac
# Clones in different folders share cached objects.
export CCACHE_BASEDIR=$repo_root CCACHE_NOHASHDIR=1

cd "$repo_root"
say "configuring preset $preset"
mkdir -p build
if ! cmake --preset "$preset" "${arguments[@]}" "$@" >"build/configure-$preset.log" 2>&1; then
  tail -n 30 "build/configure-$preset.log" >&2
  die "preset $preset does not configure" "the whole output is in build/configure-$preset.log; after a change of tools remove the build folder"
fi
targets=()
if [ -n "${RISKKV_TARGETS:-}" ]; then
  read -ra targets <<< "--target $RISKKV_TARGETS"
  # Loaded at run time, so no program depends on it.
  build_dir=build
  [ "$preset" = release ] || build_dir=build/$preset
  if grep -q 'riskkv_kernels_cuda:' "$build_dir/build.ninja"; then targets+=(riskkv_kernels_cuda); fi
fi
say "building preset $preset"
cmake --build --preset "$preset" --parallel "${RISKKV_JOBS:-$(nproc)}" "${targets[@]}"
