#!/usr/bin/env bash
# Brings everything a build, a test or the demonstration needs. Safe to run again: what is there is left alone.
#   deploy/setup.sh [--cuda] [--docker] [--grpcurl] [--clang]
#   --cuda      also the CUDA 13.0 toolkit (from wheels, 840 MB under $RISKKV_CACHE)
#   --docker    also the docker engine and docker-compose
#   --grpcurl   also grpcurl (needs Go 1.21 or newer)
#   --clang     also clang 14, for the fuzz preset and clang-tidy
# Environment: RISKKV_CACHE (where), RISKKV_PORTABLE=1 (for any x86-64-v3 processor), RISKKV_LLAMA_ROOT, RISKKV_MODEL
# (use these instead of the pinned ones).
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/lib/common.sh"

apt_sets=(build test) want_cuda=0 want_grpcurl=0
while [ $# -gt 0 ]; do
  case $1 in
    --cuda) want_cuda=1 ;;
    --docker) apt_sets+=(docker) ;;
    --clang) apt_sets+=(clang) ;;
    --grpcurl) want_grpcurl=1 ;;
    -h | --help) sed -n '2,10s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) die "unknown argument $1" "deploy/setup.sh --help" ;;
  esac
  shift
done

"$here/lib/apt.sh" "${apt_sets[@]}"
"$here/lib/llama.sh"
"$here/lib/model.sh"
[ $want_cuda = 0 ] || "$here/lib/cuda.sh" >/dev/null
[ $want_grpcurl = 0 ] || "$here/lib/grpcurl.sh" >/dev/null
say "setup is done"
