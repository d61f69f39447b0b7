#!/usr/bin/env bash
# Measures "rlxc serve" beside infinity-emb (its torch and optimum engines) and, if RLXC_TEI names its program text-embeddings-router,
# text-embeddings-inference, on one model and the same texts. FOLDER holds an ONNX export of all-MiniLM-L6-v2 with its tokenizer, of
# which the checkpoint for torch is made; each LENGTHS is a file for "rlxc bench --serve", which takes $SECONDS_EACH (default 10) a load.
# It needs Python, Go and PyPI; what it installs goes to $RLXC_BESIDE (default /tmp/rlxc-beside). All traffic is on the loopback device.
#   server/scripts/beside.sh FOLDER ROUNDS LENGTHS…
set -euo pipefail
folder=$1
shift
here=$(cd "$(dirname "$0")" && pwd)
work=${RLXC_BESIDE:-/tmp/rlxc-beside}
mkdir -p "$work"
if [ ! -x "$work/venv/bin/infinity_emb" ]; then
  python3 -m venv "$work/uv"
  "$work/uv/bin/pip" install --quiet --disable-pip-version-check uv==0.13.9
  "$work/uv/bin/uv" venv --quiet "$work/venv"
  # What infinity-emb 0.0.77 runs with: later versions of these lack what it imports.
  "$work/uv/bin/uv" pip install --quiet --python "$work/venv/bin/python" "infinity-emb[torch,optimum,server]==0.0.77" \
    "optimum[onnxruntime]==1.24.0" transformers==4.48.3 click==8.1.8 "pyarrow<22" "datasets<4"
fi
go -C "$here/../.." build -tags grpcnotrace -o "$work/rlxc" ./cmd/rlxc
[ -e "$work/minilm" ] || "$work/venv/bin/python" "$here/beside/checkpoint.py" "$folder" "$work/minilm"
"$work/venv/bin/python" "$here/beside/measure.py" "$work" "$folder" "$@"
