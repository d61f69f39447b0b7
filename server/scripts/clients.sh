#!/usr/bin/env bash
# Runs clients that others wrote, as their registries have them, against "rlxc serve", and compares what they get with "rlxc embed" and
# "rlxc rerank", and with what transformers answered (pipeline/testdata). It needs Python, Node, Go and the registries; what it installs goes to $RLXC_CLIENTS (default /tmp/rlxc-clients).
#   server/scripts/clients.sh
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
work=${RLXC_CLIENTS:-/tmp/rlxc-clients}
mkdir -p "$work"
[ -x "$work/venv/bin/python" ] || python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check uv==0.13.9 # which resolves these within seconds
"$work/venv/bin/uv" pip install --quiet --python "$work/venv/bin/python" -r "$here/clients/requirements.txt"
[ -x "$work/apart/bin/python" ] || python3 -m venv "$work/apart"
"$work/venv/bin/uv" pip install --quiet --python "$work/apart/bin/python" -r "$here/clients/apart.txt"
[ -x "$work/own/bin/python" ] || python3 -m venv "$work/own"
"$work/venv/bin/uv" pip install --quiet --python "$work/own/bin/python" -r "$here/clients/own.txt"
npm install --silent --no-audit --no-fund --prefix "$work" openai@6
go -C "$root" build -o "$work/rlxc" ./cmd/rlxc
go -C "$here/clients" build -o "$work/openai-go" .

data=$root/pipeline/testdata
"$work/rlxc" serve "$data"/{minilm,rerank,classify,splade,nli,ner,qa,colbert,prompts} --address 127.0.0.1:0 --grpc-address 127.0.0.1:0 --api-key secret 2>"$work/log" &
server=$!
trap 'kill $server; wait $server || true' EXIT
for _ in $(seq 200); do
  grep -q msg=serving "$work/log" && break
  sleep 0.1
done
SERVED_URL=$(sed -n 's/.* url=\([^ ]*\).*/\1/p' "$work/log")
SERVED_GRPC=$(sed -n 's/.* grpc=\([^ ]*\).*/\1/p' "$work/log")
export SERVED_URL SERVED_GRPC SERVED_ANSWERS=$data
texts=("a cat sits on the mat" "where does the cat sit?" "the stock market fell today" "ein Text mit Umlauten: äöü")
"$work/rlxc" embed "$data/minilm" --json "${texts[@]}" >"$work/vectors.jsonl"
"$work/rlxc" rerank "$data/rerank" --json --query "${texts[0]}" "${texts[@]:1}" >"$work/ranks.jsonl"

curl --silent --fail "$SERVED_URL/v1/embeddings" -H 'Authorization: Bearer secret' -d '{"model": "minilm", "input": "a cat sits on the mat"}' |
  "$work/venv/bin/python" "$here/clients/same.py" "$work/vectors.jsonl" curl
for names in "openai huggingface tasks cohere weaviate vllm langchain llamaindex ollama infinity triton" kserve; do # the last two cannot be in one process
  # shellcheck disable=SC2086
  "$work/venv/bin/python" "$here/clients/clients.py" "$work" $names
done
"$work/apart/bin/python" "$here/clients/clients.py" "$work" huggingface tasks litellm
"$work/own/bin/python" "$here/clients/clients.py" "$work" infinity_client # which requires an older httpx than the others
"$work/apart/bin/python" "$here/clients/clients.py" "$work" voyage
cp "$here/clients/openai.mjs" "$work"
node "$work/openai.mjs" "$work/vectors.jsonl"
"$work/openai-go" "$work/vectors.jsonl"
"$here/schema.sh"
echo "all clients agree"
