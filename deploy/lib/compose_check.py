"""Reads what grpcurl printed for compose-test.sh:

    compose_check.py started FILE               prints request id and epoch
    compose_check.py migrated FILE WORKER MODE  the events end SUCCEEDED in MODE with WORKER as owner; prints a line for people
    compose_check.py epoch FILE                 the epoch after the move
    compose_check.py next FILE...               where the client goes next and with which index: ADDRESS INDEX, or "end INDEX"
    compose_check.py stream COUNT FILE...       COUNT tokens, each index once and in order, epochs never falling, and an end

FILE... are the streams a client read one after the other, in the order of their names.
"""
import json
import re
import sys


def snake(pairs):
    """Field names as the protos have them: grpcurl over reflection prints these, others print camelCase."""
    return {re.sub("([A-Z])", lambda m: "_" + m.group(1).lower(), name): value for name, value in pairs}


def read(path):
    text, decoder, values = open(path).read(), json.JSONDecoder(object_pairs_hook=snake), []
    while text := text.lstrip():
        value, end = decoder.raw_decode(text)
        values.append(value)
        text = text[end:]
    return values


def started(path):
    event = next(e["started"] for e in read(path) if "started" in e)
    print(event["request_id"], event["epoch"])


def outcome(path):
    events = read(path)
    if not events:
        sys.exit("no events")
    return events, events[-1].get("outcome") or {}


def migrated(path, worker, mode):
    events, result = outcome(path)
    states = [e["state"].removeprefix("MIGRATION_STATE_") for e in events]
    if states[-1] != "SUCCEEDED" or result.get("owner") != worker:
        sys.exit(f"the move ended {states[-1]} with owner {result.get('owner')}: {result.get('error')}")
    if result["mode"] != mode:
        sys.exit(f"the move was carried out as {result['mode']} instead of {mode}")
    print(f"[riskkv]   {' '.join(dict.fromkeys(states))}: {result['mode']}, {float(result.get('total_ms', 0)):.0f} ms in all, "
          f"{float(result.get('pause_ms', 0)):.0f} ms paused, epoch {result.get('epoch')}", file=sys.stderr)


def epoch(path):
    print(outcome(path)[1]["epoch"])


def next_stop(*paths):
    events = [e for path in paths for e in read(path)]
    count = sum("token" in e for e in events)
    last = events[-1] if events else {}
    if "finished" in last:
        print("end", count)
    elif "moved" in last:
        print(last["moved"]["address"], count)
    else:
        sys.exit(f"the stream ends with {last}")


def stream(count, *paths):
    events = [e for path in paths for e in read(path)]
    tokens = [e["token"] for e in events if "token" in e]
    indexes = [int(t.get("index", 0)) for t in tokens]
    epochs = [int(t.get("epoch", 0)) for t in tokens]
    if indexes != list(range(int(count))):
        odd = next((i for i, n in enumerate(indexes) if i != n), len(indexes))
        sys.exit(f"{len(indexes)} tokens instead of {count}, wrong from position {odd} on")
    if epochs != sorted(epochs) or len(set(epochs)) < 2:
        sys.exit(f"the epochs of the tokens are {sorted(set(epochs))}, in order: {epochs == sorted(epochs)}")
    if "finished" not in events[-1]:
        sys.exit(f"the stream ends with {events[-1]}")
    print(f"[riskkv]   {count} tokens, each once, from epochs {sorted(set(epochs))}", file=sys.stderr)


if __name__ == "__main__":
    {"started": started, "migrated": migrated, "epoch": epoch, "next": next_stop, "stream": stream}[sys.argv[1]](*sys.argv[2:])
