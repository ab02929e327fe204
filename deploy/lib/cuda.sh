#!/usr/bin/env bash
# A CUDA 13.0 toolkit (nvcc, runtime, cuBLAS, CCCL) under $RISKKV_CACHE/cuda-13.0, from the wheels NVIDIA puts on PyPI:
# enough to compile and link, and to run where there is a driver. Its last line is the prefix. x86-64 only.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/common.sh"
source "$here/env.sh"

prefix=$RISKKV_CACHE/cuda-13.0
pins="nvidia-cuda-nvcc==13.0.88 --hash=sha256:56fe502eb77625a12f25172caa3cdddb4e4c8ba2c8c17dba44b164761b380f03
nvidia-cuda-crt==13.0.88 --hash=sha256:2c8043c7c9e02492716426e9919fc78d2c5b3b2a7a768a88e952676b08aa55a4
nvidia-nvvm==13.0.88 --hash=sha256:c5f41ffeb6466944a026dfa5317d7d85355c119bbec279205d22f1869d1054e0
nvidia-cuda-cccl==13.0.85 --hash=sha256:e0da7ad981f3a8aff08241b5bfc1af868742a63e2762f53a5171c492ef242649
nvidia-cuda-runtime==13.0.96 --hash=sha256:7f82250d7782aa23b6cfe765ecc7db554bd3c2870c43f3d1821f1d18aebf0548
nvidia-cublas==13.1.0.3 --hash=sha256:ee8722c1f0145ab246bccb9e452153b5e0515fd094c3678df50b2a0888b8b171"
stamp=$prefix/riskkv-pins.txt
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$pins" ]; then
  say "the CUDA toolkit is at $prefix"
  echo "$prefix"
  exit 0
fi
[ "$(uname -m)" = x86_64 ] || die "the pinned CUDA wheels are for x86-64" "install NVIDIA's toolkit and set CUDACXX, or set RISKKV_NO_CUDA=1"

say "fetching the CUDA 13.0 toolkit (528 MB of wheels)"
mkdir -p "$RISKKV_CACHE"
work=$(mktemp -d "$RISKKV_CACHE/.cuda.XXXXXX")
trap 'rm -rf "$work"' EXIT
printf '%s\n' "$pins" > "$work/requirements.txt"
# All in one call: the wheels share one folder, and pip does not merge into what an earlier --target call left.
quiet "$work/pip.log" "$(python_with_pip)" -m pip install --disable-pip-version-check --root-user-action=ignore --no-cache-dir \
  --no-deps --no-compile --only-binary=:all: --require-hashes --target "$work/wheels" --requirement "$work/requirements.txt"
root=$work/wheels/nvidia/cu13
[ -x "$root/bin/nvcc" ] || chmod -R u+x "$root/bin" "$root/nvvm/bin"
# Two things wheels cannot carry and CMake looks for: lib64, and library names without a version.
ln -s lib "$root/lib64"
for library in "$root"/lib/lib*.so.*; do
  plain=${library%%.so.*}.so
  [ -e "$plain" ] || ln -s "${library##*/}" "$plain"
done
printf '%s\n' "$pins" > "$root/${stamp##*/}"
rm -rf "$prefix"
mv "$root" "$prefix"
"$prefix/bin/nvcc" --version >/dev/null || die "nvcc does not run" "remove $prefix and run this again"
say "the CUDA toolkit is at $prefix"
echo "$prefix"
