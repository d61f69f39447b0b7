"""Writes hub/testdata/python-cache.tar: a cache as the real huggingface_hub lays it out, from a hub on loopback.

    pip install huggingface_hub==2.4.0
    python models/scripts/hubcache.py

acme/tiny is downloaded as a snapshot, after a question for a file that does not exist; the large file of acme/shared lies in the
cache's shared store, into which huggingface_hub's own function puts it.
"""
import hashlib
import http.server
import io
import json
import os
import pathlib
import tarfile
import tempfile
import threading

COMMIT = "0123456789abcdef0123456789abcdef01234567"
FILES = {
    "README.md": b"# tiny\n",
    "config.json": b'{"model_type": "bert"}\n',
    "onnx/model.onnx": b"weights " * 1000,
}
LARGE = {"onnx/model.onnx"}
XET = hashlib.sha256(b"a hash of its own").hexdigest()


def sha(data): return hashlib.sha256(data).hexdigest()
def git(data): return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class Hub(http.server.BaseHTTPRequestHandler):
    def answer(self, status, headers, body=b""):
        self.send_response(status)
        for k, v in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(k, v)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_GET(self):
        path = self.path.split("?")[0]
        kind, _, rest = path.partition("/resolve/")
        if path.startswith("/api/models/acme/"):
            if "/tree/" in path:
                body = [{"type": "file", "path": p, "size": len(d), "oid": git(d),
                         **({"lfs": {"oid": sha(d), "size": len(d), "pointerSize": 100}} if p in LARGE else {})} for p, d in FILES.items()]
            else:
                body = {"id": path.split("/")[3] + "/" + path.split("/")[4], "sha": COMMIT, "siblings": [], "tags": []}
            return self.answer(200, {"Content-Type": "application/json"}, json.dumps(body).encode())
        if path.startswith("/cdn/"):
            return self.answer(200, {}, FILES[path.removeprefix("/cdn/")])
        name = rest.partition("/")[2]
        headers = {"X-Repo-Commit": COMMIT}
        if name not in FILES:
            return self.answer(404, {**headers, "X-Error-Code": "EntryNotFound"})
        data = FILES[name]
        if name in LARGE:
            host = f"http://127.0.0.1:{self.server.server_port}"
            return self.answer(302, {**headers, "X-Linked-Etag": f'"{sha(data)}"', "X-Linked-Size": str(len(data)),
                                     "Location": f"{host}/cdn/{name}"})
        return self.answer(200, {**headers, "ETag": f'"{git(data)}"'}, data)

    do_HEAD = do_GET
    def log_message(self, *_): pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
threading.Thread(target=server.serve_forever, daemon=True).start()
os.environ.update(HF_ENDPOINT=f"http://localhost:{server.server_port}", HF_HUB_DISABLE_TELEMETRY="1", HF_HUB_DISABLE_PROGRESS_BARS="1")
cache = pathlib.Path(tempfile.mkdtemp())

import huggingface_hub  # after the environment is set
from huggingface_hub.utils import _shared_blobs

try:
    huggingface_hub.hf_hub_download("acme/tiny", "modules.json", cache_dir=cache)
except huggingface_hub.errors.EntryNotFoundError:
    pass
huggingface_hub.snapshot_download("acme/tiny", cache_dir=cache)
huggingface_hub.snapshot_download("acme/shared", cache_dir=cache)
blob = cache / "models--acme--shared" / "blobs" / sha(FILES["onnx/model.onnx"])
assert _shared_blobs.publish_blob_to_shared_store(blob_path=str(blob), xet_hash=XET, cache_dir=cache, expected_size=blob.stat().st_size)
server.shutdown()

target = pathlib.Path(__file__).parents[2] / "hub" / "testdata" / "python-cache.tar"
target.parent.mkdir(exist_ok=True)


def plain(info):
    info.uid = info.gid = info.mtime = 0
    info.uname = info.gname = ""
    return info


buffer = io.BytesIO()
with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as tar:
    for path in sorted(cache.rglob("*")):
        tar.add(path, path.relative_to(cache), recursive=False, filter=plain)
target.write_bytes(buffer.getvalue())
print(f"{target}: {len(buffer.getvalue())} bytes, huggingface_hub {huggingface_hub.__version__}")
