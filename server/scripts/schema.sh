#!/usr/bin/env bash
# Holds "rlxc serve" to its OpenAPI document: schemathesis, from PyPI, sends bodies that the document allows and bodies that it does not,
# and compares answers with it. RLXC_SCHEMA_CASES (default 40) bounds the bodies for each route; a seed makes runs repeatable.
#   server/scripts/schema.sh
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
work=${RLXC_SCHEMA:-/tmp/rlxc-schema}
mkdir -p "$work"
[ -x "$work/venv/bin/python" ] || python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check schemathesis==4.32.5
go -C "$root" build -o "$work/rlxc" ./cmd/rlxc
data=$root/pipeline/testdata
"$work/rlxc" serve "$data"/{minilm,rerank,classify,splade,nli,ner,qa,colbert,gliner} --address 127.0.0.1:0 2>"$work/log" &
server=$!
trap 'kill $server; wait $server || true' EXIT
for _ in $(seq 200); do
  grep -q msg=serving "$work/log" && break
  sleep 0.1
done
url=$(sed -n 's/.* url=\([^ ]*\).*/\1/p' "$work/log")
cd "$work"
PYTHONPATH=$here/schema SCHEMATHESIS_HOOKS=hooks "$work/venv/bin/st" --config-file "$here/schema/schemathesis.toml" run "$url/openapi.json" --url "$url" \
  --phases examples,coverage,fuzzing --mode all --max-examples "${RLXC_SCHEMA_CASES:-40}" --seed "${RLXC_SCHEMA_SEED:-1}" --generation-database none \
  --checks all --exclude-checks positive_data_acceptance --no-color "$@"
