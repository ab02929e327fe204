#!/usr/bin/env bash
# Builds the pinned llama.cpp as static libraries and installs them under $RISKKV_LLAMA_ROOT. Does nothing when they are there.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/common.sh"
source "$here/env.sh"

# One builds, others that were started meanwhile wait for it.
mkdir -p "$RISKKV_CACHE"
exec 9>"$RISKKV_CACHE/.llama.lock"
flock 9
if [ -f "$RISKKV_LLAMA_ROOT/lib/cmake/llama/llama-config.cmake" ]; then
  say "llama.cpp is at $RISKKV_LLAMA_ROOT"
  exit 0
fi

# The source package: kept under downloads/, where the image build finds it too.
sdist=$RISKKV_CACHE/downloads/llama_cpp_python-$llama_version.tar.gz
work=$(mktemp -d "${TMPDIR:-/tmp}/riskkv-llama.XXXXXX")
trap 'rm -rf "$work"' EXIT
if ! check_sha256 "$sdist" "$llama_sha256"; then
  say "fetching llama.cpp (the source package llama-cpp-python $llama_version, 77 MB)"
  pip_fetch "$work/fetch" "llama-cpp-python==$llama_version --no-binary=llama-cpp-python" "$llama_sha256"
  check_sha256 "$work/fetch/${sdist##*/}" "$llama_sha256" ||
    die "the fetched ${sdist##*/} is not the pinned one" "look at what your package index serves; wanted sha256 $llama_sha256"
  mkdir -p "${sdist%/*}"
  mv "$work/fetch/${sdist##*/}" "$sdist.part"
  mv "$sdist.part" "$sdist"
fi

say "building llama.cpp for $([ "${RISKKV_PORTABLE:-0}" = 1 ] && echo "any x86-64-v3 processor" || echo "this processor") (3.5 CPU minutes)"
tar -xzf "$sdist" -C "$work" "llama_cpp_python-$llama_version/vendor/llama.cpp"
mapfile -t flags < <(llama_flags)
if have ccache; then
  flags+=(-DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
fi
# ggml reads SOURCE_DATE_EPOCH as "reproducible" and then leaves the processor's instructions out.
unset SOURCE_DATE_EPOCH
quiet "$work/configure.log" cmake -S "$work/llama_cpp_python-$llama_version/vendor/llama.cpp" -B "$work/build" -G Ninja \
  "${flags[@]}" -DCMAKE_INSTALL_PREFIX="$RISKKV_LLAMA_ROOT"
mkdir -p "$RISKKV_CACHE/logs"
# Its folder has another name each time; without this no cached object would fit.
export CCACHE_BASEDIR=$work CCACHE_NOHASHDIR=1
quiet "$RISKKV_CACHE/logs/llama-build.log" cmake --build "$work/build"

# Installed beside its place and moved there, so that a half-made one is never found.
DESTDIR=$work/stage quiet "$work/install.log" cmake --install "$work/build"
mkdir -p "$(dirname "$RISKKV_LLAMA_ROOT")"
rm -rf "$RISKKV_LLAMA_ROOT" "$RISKKV_LLAMA_ROOT.part"
mv "$work/stage$RISKKV_LLAMA_ROOT" "$RISKKV_LLAMA_ROOT.part"
cp "$work/llama_cpp_python-$llama_version/vendor/llama.cpp/LICENSE" "$RISKKV_LLAMA_ROOT.part/"
mapfile -t recorded < <(llama_flags)
printf '%s\n' "${recorded[@]}" > "$RISKKV_LLAMA_ROOT.part/build-flags.txt"
mv "$RISKKV_LLAMA_ROOT.part" "$RISKKV_LLAMA_ROOT"
say "llama.cpp is at $RISKKV_LLAMA_ROOT"
