#!/usr/bin/env bash
# Debian packages, in sets: apt.sh SET...   Installs only what is missing.
#   build    compiler, build tools, the model checker spin, and the libraries' development files
#   test     servers that tests start themselves; a test is skipped where its server is missing
#   clang    for the fuzz preset and clang-tidy
#   runtime  the libraries that riskkv, riskkv-worker and riskkv-coordinator need to run; what the images install
#   docker   the engine, docker-compose and what makes a base image
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/common.sh"

packages_of() {
  case $1 in
    build) echo g++ cmake ninja-build ccache git pkg-config curl ca-certificates unzip spin python3 python3-pip python3-venv perl perl-doc \
      libgrpc++-dev libgrpc-dev protobuf-compiler-grpc libprotobuf-dev protobuf-compiler libabsl-dev libspdlog-dev libfmt-dev \
      libgtest-dev libgmock-dev libbenchmark-dev libopenblas-dev libsqlite3-dev prometheus-cpp-dev nlohmann-json3-dev \
      libcli11-dev libssl-dev libzstd-dev libxxhash-dev libcurl4-openssl-dev gnuplot-nox ;;
    test) echo etcd-server ;;
    clang) echo clang-14 clang-tidy-14 clang-format-14 libclang-rt-14-dev llvm-14 ;;
    runtime) echo libgrpc++1.51 libprotobuf32 libabsl20220623 libspdlog1.10 libfmt9 libopenblas0-pthread libsqlite3-0 libssl3 \
      libzstd1 libxxhash0 libcurl4 libprometheus-cpp-core1.0 libprometheus-cpp-pull1.0 ca-certificates ;;
    docker) echo docker.io docker-compose debootstrap iptables ;;
    *) die "no such set of packages: $1" "the sets are build, test, clang, runtime and docker" ;;
  esac
}

wanted=()
for set in "$@"; do
  read -ra packages <<< "$(packages_of "$set")"
  wanted+=("${packages[@]}")
done
missing=()
for package in "${wanted[@]}"; do
  status=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$status" = installed ] || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
  say "Debian packages ($*): all there"
  exit 0
fi
have apt-get || die "no apt-get, and these are missing: ${missing[*]}" "riskkv is built on Debian 12; elsewhere install their counterparts by hand"
say "installing ${#missing[@]} Debian packages ($*): ${missing[*]}"
log=$(mktemp "${TMPDIR:-/tmp}/riskkv-apt.XXXXXX")
export DEBIAN_FRONTEND=noninteractive
apt_install() {
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends -o DPkg::Lock::Timeout=300 \
    -o Dpkg::Options::=--force-confold "${missing[@]}"
}
# The package lists are fetched always when something is missing: old lists name files the mirror no longer has.
as_root apt-get update -o DPkg::Lock::Timeout=300 >"$log" 2>&1 || warn "apt-get update failed in part; going on with the lists there are ($log)"
quiet "$log" apt_install
rm -f "$log"
