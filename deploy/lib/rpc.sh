# rpc ADDRESS SERVICE/METHOD JSON: one call from outside, answers as JSON. grpcurl over reflection; where there is no Go to
# shellcheck shell=bash disable=SC2034
# build it, a small Python client over this repository's protos. Source it after common.sh and env.sh, call rpc_setup once.

rpc_command=()

rpc_setup() {
  local path
  if path=$("$repo_root/deploy/lib/grpcurl.sh"); then
    rpc_command=("$path" -plaintext -max-time 600 -emit-defaults)
    return
  fi
  say "using a Python client in the place of grpcurl"
  local venv=$RISKKV_CACHE/grpc-venv
  if ! "$venv/bin/python" -c 'import grpc_tools' 2>/dev/null; then
    rm -rf "$venv"
    quiet "$RISKKV_CACHE/logs/grpc-venv.log" "$(python_with_pip)" -m venv "$venv"
    quiet "$RISKKV_CACHE/logs/grpc-venv.log" "$venv/bin/python" -m pip install --disable-pip-version-check --only-binary=:all: grpcio-tools==1.71.2
  fi
  rpc_command=("$venv/bin/python" "$repo_root/deploy/lib/grpc_call.py")
}

rpc() {
  if [ "${#rpc_command[@]}" -gt 2 ]; then
    "${rpc_command[@]}" -d "$3" "$1" "$2"
  else
    "${rpc_command[@]}" "$1" "$2" "$3"
  fi
}
