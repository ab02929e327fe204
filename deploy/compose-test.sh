#!/usr/bin/env bash
# Proves docker-compose.yml: builds the images from source, starts coordinator and workers, waits until they are healthy,
# starts a generation, attaches to it from outside as a client does, moves it by gRPC, follows it to where the old owner says
# it went, checks that no token is missing or doubled, and takes everything down.   deploy/compose-test.sh [--short] [--no-build] [--keep]
#   --short     one exact move, no calibration, images around the binaries this machine has built where it has (what CI
#               runs); without it images from source, and also a lossy move back over a calibrated set
#   --no-build  the images riskkv:local and riskkv-init:local as they are
#   --keep      leave the services (and dockerd) running, to look around
# Needs root, or a docker engine that is running and may be used.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/lib/common.sh"
source "$here/lib/docker.sh"
source "$here/lib/rpc.sh"

short=0 keep=0 build=1
for argument in "$@"; do
  case $argument in
    --short) short=1 ;;
    --keep) keep=1 ;;
    --no-build) build=0 ;;
    *) die "unknown argument $argument" "deploy/compose-test.sh [--short] [--no-build] [--keep]" ;;
  esac
done

"$here/setup.sh" --docker
source "$here/lib/env.sh"
rpc_setup
"$here/lib/docker_stage.sh"
if [ $short = 1 ] && [ $build = 1 ] && "$here/lib/docker_stage_host.sh"; then
  export RISKKV_DOCKERFILE=deploy/Dockerfile.host
fi

# Ports and a project of its own, so that it does not meet an installation that is in use.
export COMPOSE_PROJECT_NAME=riskkv-test DOCKER_BUILDKIT=0 COMPOSE_DOCKER_CLI_BUILD=0
export RISKKV_COORDINATOR_PORT=17070 RISKKV_WORKER_A_PORT=17071 RISKKV_WORKER_B_PORT=17072
if [ $short = 1 ]; then export RISKKV_CALIBRATE_SECONDS=0; fi
coordinator=localhost:$RISKKV_COORDINATOR_PORT worker_a=localhost:$RISKKV_WORKER_A_PORT worker_b=localhost:$RISKKV_WORKER_B_PORT
work=$(mktemp -d "${TMPDIR:-/tmp}/riskkv-compose.XXXXXX")

compose() {
  if have docker-compose; then
    (cd "$repo_root" && docker-compose "$@")
  else
    (cd "$repo_root" && docker compose "$@")
  fi
}

started=0
cleanup() {
  local rc=$?
  trap - EXIT
  if [ $rc != 0 ] && [ $started = 1 ]; then
    say "what the services said last"
    compose ps >&2 || true
    compose logs --no-color --tail=40 >&2 || true
  fi
  if [ $keep = 1 ]; then
    say "left running: COMPOSE_PROJECT_NAME=$COMPOSE_PROJECT_NAME docker-compose ps; coordinator at $coordinator"
    exit $rc
  fi
  if [ $started = 1 ]; then
    compose down --volumes --remove-orphans >"$work/down.log" 2>&1 || { cat "$work/down.log" >&2; rc=1; }
  fi
  docker_stop
  rm -rf "$work"
  exit $rc
}
trap cleanup EXIT

docker_start "$work/docker"
docker_base_image

if [ $build = 1 ]; then
  say "building the images (from source: about ten minutes the first time); the log is build/image-build.log"
  began=$SECONDS
  quiet "$repo_root/build/image-build.log" compose build
  say "images built in $((SECONDS - began)) s"
fi

started=1
quiet "$work/down.log" compose down --volumes --remove-orphans
began=$SECONDS
compose up -d
wait_healthy() {  # SERVICE
  local id state waited
  for ((waited = 0; waited < 240; ++waited)); do
    id=$(compose ps -q "$1")
    state=$(docker inspect -f '{{.State.Status}} {{if .State.Health}}{{.State.Health.Status}}{{end}}' "$id" 2>/dev/null || true)
    case $state in
      *" healthy") return ;;
      exited*) break ;;
    esac
    sleep 1
  done
  die "service $1 is not healthy (${state:-absent})" "its log is above"
}
for service in coordinator worker-a worker-b; do
  wait_healthy $service
done
say "all services are healthy after $((SECONDS - began)) s"

rpc "$coordinator" grpc.health.v1.Health/Check '{}' | grep -q SERVING || die "the coordinator does not answer its health check"
for ((waited = 0; waited < 60; ++waited)); do
  rpc "$coordinator" riskkv.v1.Coordinator/ListWorkers '{}' > "$work/workers.json"
  [ "$(grep -o '"worker-[ab]"' "$work/workers.json" | sort -u | wc -l)" != 2 ] || break
  sleep 1
done
[ "$(grep -o '"worker-[ab]"' "$work/workers.json" | sort -u | wc -l)" = 2 ] ||
  die "the coordinator does not list both workers" "$(cat "$work/workers.json")"

check="$(python_with_pip) $here/lib/compose_check.py"
tokens=1500  # half a minute, so that it still runs when a busy machine gets round to moving it
say "starting a generation of $tokens tokens on worker-a"
rpc "$worker_a" riskkv.v1.Generation/Generate "{
  \"prompt\": \"The history of the railway in the north of England begins with the horse-drawn waggonways of the collieries.\",
  \"sampling\": {\"temperature\": 0}, \"stop\": {\"max_tokens\": $tokens, \"ignore_eos\": true}, \"detached\": true}" > "$work/started.json"
read -r request epoch <<< "$($check started "$work/started.json")"

move() {  # ID TO EPOCH MODE EXTRA_FIELDS
  say "moving $request to $2"
  rpc "$coordinator" riskkv.v1.Coordinator/Migrate "{\"migration_id\": \"$1\", \"request_id\": \"$request\",
    \"expected_epoch\": \"$3\", \"destination\": \"$2\", \"mode\": \"$4\", \"on_failure\": \"FAIL\"$5}" > "$work/$1.json" ||
    { cat "$work/$1.json" >&2; die "Migrate failed"; }
  $check migrated "$work/$1.json" "$2" "$4" || { cat "$work/$1.json" >&2; die "the move to $2 did not succeed"; }
}
# A client outside: attaches with the next index it lacks, and goes where Moved says, until the end.
follow() {  # ADDRESS
  local address=$1 next=0 part=0
  while [ "$address" != end ]; do
    [ $((++part)) -le 9 ] || die "the client was sent on $part times"
    rpc "$address" riskkv.v1.Generation/Attach "{\"request_id\": \"$request\", \"next_index\": \"$next\"}" > "$work/stream-$part.json" ||
      die "the client cannot attach at $address"
    read -r address next <<< "$($check next "$work"/stream-*.json)"
    say "the client has $next tokens; next: $address"
  done
}
say "following it from outside, at $worker_a"
follow "$worker_a" &
follower=$!
sleep 1
move compose-exact worker-b "$epoch" MODE_FULL ''
if [ $short = 0 ]; then
  sleep 3
  epoch=$($check epoch "$work/compose-exact.json")
  move compose-lossy worker-a "$epoch" MODE_RISK ', "allow_lossy": true, "allow_ungated": true'
fi

wait "$follower" || die "the client lost the request" "its streams are $work/stream-*.json (set --keep)"
$check stream $tokens "$work"/stream-*.json || die "the stream is not whole" "set --keep and look at it"
say "compose test passed"
