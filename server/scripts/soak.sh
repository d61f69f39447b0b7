#!/usr/bin/env bash
# Loads a server with twice as many requests as it can answer, for SECONDS, while clients vanish, send slowly and send nonsense, its models
# are opened anew, and its page and metrics are read. Afterwards its memory, goroutines and open files are where they were, it ends with
# success on SIGTERM, and every request that was answered was answered once.
#   server/scripts/soak.sh FOLDER LENGTHS SECONDS
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
go -C "$root" build -o "$work/rlxc" ./cmd/rlxc
python3 "$root/server/scripts/soak.py" "$work/rlxc" "$@"
