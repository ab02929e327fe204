# The docker engine, for compose-test.sh: started by hand where none runs, and then stopped with all it left behind.
# shellcheck shell=bash disable=SC2034
# Source it after common.sh.

docker_state=""   # folder with what is to be undone; empty: the engine was there already

docker_running() { docker info >/dev/null 2>&1; }

# docker_start DIR: DIR holds the log and what was before.
docker_start() {
  if docker_running; then
    say "using the docker engine that runs"
    return
  fi
  [ "$(id -u)" = 0 ] || die "no docker engine can be reached" "start it (systemctl start docker), join the group docker, or run this as root"
  have dockerd || die "no dockerd" "deploy/setup.sh --docker installs it"
  docker_state=$1
  mkdir -p "$docker_state"
  # dockerd adds rules, sets FORWARD to DROP and ip_forward to 1, and leaves all of it behind.
  local table
  for table in filter nat; do
    { iptables-save -t "$table" 2>/dev/null || true; } > "$docker_state/iptables-$table"
    grep -q '^\*' "$docker_state/iptables-$table" || echo "*$table" > "$docker_state/iptables-$table"
    grep -q '^COMMIT' "$docker_state/iptables-$table" || echo COMMIT >> "$docker_state/iptables-$table"
  done
  cat /proc/sys/net/ipv4/ip_forward > "$docker_state/ip_forward"
  if ip link show docker0 >/dev/null 2>&1; then touch "$docker_state/had-docker0"; fi
  say "starting dockerd"
  dockerd >"$docker_state/dockerd.log" 2>&1 &
  echo $! > "$docker_state/pid"
  local waited
  for ((waited = 0; waited < 60; ++waited)); do
    if docker_running; then return; fi
    if ! kill -0 "$(cat "$docker_state/pid")" 2>/dev/null; then break; fi
    sleep 1
  done
  tail -n 20 "$docker_state/dockerd.log" >&2
  die "dockerd does not come up" "its log is $docker_state/dockerd.log"
}

# Undoes docker_start. Images and volumes stay in /var/lib/docker: the next run is quicker.
docker_stop() {
  [ -n "$docker_state" ] && [ -f "$docker_state/pid" ] || return 0
  say "stopping dockerd"
  local pid waited
  pid=$(cat "$docker_state/pid")
  kill "$pid" 2>/dev/null || true
  for ((waited = 0; waited < 60; ++waited)); do
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.5
  done
  [ -f "$docker_state/had-docker0" ] || ip link delete docker0 2>/dev/null || true
  local table
  for table in filter nat; do
    # A table that was empty has no chains to restore: policies back to ACCEPT, docker's chains away.
    if grep -q '^:' "$docker_state/iptables-$table"; then
      iptables-restore "$docker_state/iptables-$table" || warn "the iptables rules of $table could not be restored"
    else
      [ $table != filter ] || iptables -t $table -P FORWARD ACCEPT
      iptables -t $table -F && iptables -t $table -X || warn "the iptables rules of $table could not be cleared"
    fi
  done
  cat "$docker_state/ip_forward" > /proc/sys/net/ipv4/ip_forward
  rm -f "$docker_state/pid"
  docker_state=""
}

# debian:bookworm: the one there is, else the registry's, else one made from Debian's packages.
docker_base_image() {
  if docker image inspect debian:bookworm >/dev/null 2>&1; then
    say "base image debian:bookworm: there"
    return
  fi
  if timeout 60 docker pull --quiet debian:bookworm >/dev/null 2>&1; then
    say "base image debian:bookworm: pulled"
    return
  fi
  have debootstrap || die "debian:bookworm can neither be pulled nor made" "deploy/setup.sh --docker installs debootstrap"
  [ "$(id -u)" = 0 ] || die "debian:bookworm can not be pulled, and making it needs root" "run this as root, or load the image by hand"
  say "making the base image debian:bookworm with debootstrap"
  local root
  root=$(mktemp -d "${TMPDIR:-/tmp}/riskkv-base.XXXXXX")
  quiet "$root.log" debootstrap --variant=minbase --include=ca-certificates bookworm "$root"
  rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/*
  tar -C "$root" --one-file-system -c . | docker import --change 'CMD ["bash"]' - debian:bookworm >/dev/null
  rm -rf "$root" "$root.log"
}
