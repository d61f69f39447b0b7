"""Starts servers one after the other, loads each by "rlxc bench --serve", and prints what it saw: measure.py WORK FOLDER ROUNDS LENGTHS…"""
import base64
import importlib.metadata
import json
import os
import signal
import socket
import statistics
import struct
import subprocess
import sys
import time
import urllib.request

work, folder, rounds, files = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4:]
rlxc = f"{work}/rlxc"


def infinity(engine):
    return [f"{work}/venv/bin/infinity_emb", "v2", "--model-id", f"{work}/minilm", "--served-model-name", "m", "--engine", engine, "--device", "cpu",
            "--host", "127.0.0.1", "--port", "PORT", "--no-bettertransformer", "--pooling-method", "mean", "--no-vector-disk-cache", "--log-level", "error"]


servers = {"rlxc": [rlxc, "serve", f"m={folder}", "--address", "127.0.0.1:PORT", "--log-level", "error"],
           "infinity torch": infinity("torch"), "infinity optimum": infinity("optimum")}
if router := os.environ.get("RLXC_TEI"):
    servers["text-embeddings-inference"] = [router, "--model-id", f"{work}/minilm", "--hostname", "127.0.0.1", "--port", "PORT", "--pooling", "mean",
                                            "--max-client-batch-size", "64"]
urls = {name: "/embeddings" if name.startswith("infinity") else "/v1/embeddings" for name in servers}
shapes = {"8 x 64": ["--connections", "8", "--request-texts", "64"], "64 x 1": ["--connections", "64"], "1 x 1": ["--connections", "1"]}
loads = {f"{os.path.basename(file)} {shape}": ["--throughput", file, *flags] for file in files for shape, flags in shapes.items()}
seconds = os.environ.get("SECONDS_EACH", "10")


def memory(group):
    """Bytes that were resident at most, of all processes of a group."""
    total = 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.getpgid(int(pid)) == group:
                for line in open(f"/proc/{pid}/status"):
                    if line.startswith("VmHWM:"):
                        total += int(line.split()[1]) * 1024
        except OSError:
            pass
    return total


def embed(url, text):
    body = json.dumps({"model": "m", "input": [text]}).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    return json.load(urllib.request.urlopen(request, timeout=30))["data"][0]["embedding"]


def check(name):
    """Fails if a server makes other vectors than rlxc, which is the first."""
    a, b = vectors["rlxc"], vectors[name]
    b = struct.unpack(f"<{len(a)}f", base64.b64decode(b)) if isinstance(b, str) else b
    assert max(abs(x - y) for x, y in zip(a, b, strict=True)) < 1e-4, f"{name} makes other vectors"


seen = {name: {} for name in servers}
vectors = {}
for _ in range(rounds):
    for name, command in servers.items():
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = str(s.getsockname()[1])
        begun = time.time()
        # OPENBLAS and torch choose their threads by themselves: both processors.
        process = subprocess.Popen([a.replace("PORT", port) for a in command], start_new_session=True, stdout=subprocess.DEVNULL,
                                   env={**os.environ, "HF_HUB_OFFLINE": "1", "DO_NOT_TRACK": "1", "INFINITY_ANONYMOUS_USAGE_STATS": "0"})
        try:
            url = f"http://127.0.0.1:{port}{urls[name]}"
            while True:
                assert process.poll() is None, f"{name} ended"
                try:
                    vectors[name] = embed(url, "a cat sits on the mat")
                    break
                except OSError:
                    time.sleep(0.01)
            seen[name].setdefault("ready", []).append(time.time() - begun)
            check(name)
            for load, flags in loads.items():
                out = subprocess.run([rlxc, "bench", "--serve", url, "--serve-model", "m", "--duration", seconds + "s", "--json", *flags],
                                     capture_output=True, check=True).stdout
                report = json.loads(out)
                seen[name].setdefault(load, []).append((report["texts_per_second"], report["p50_ms"], report["p99_ms"]))
            seen[name].setdefault("memory", []).append(memory(process.pid))
            print(name, {what: values[-1] for what, values in seen[name].items()}, flush=True)
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(30)

for package in "infinity_emb", "torch", "optimum", "onnxruntime", "transformers", "sentence-transformers":
    print(package, importlib.metadata.version(package), end="; ")
print("load", os.getloadavg())
for name, results in seen.items():
    print(f"{name}: ready after {statistics.median(results['ready']) * 1000:.0f} ms, {max(results['memory']) / 1e6:.0f} MB")
    for load in loads:
        rate, p50, p99 = (statistics.median(x[i] for x in results[load]) for i in range(3))
        print(f"  {load}: {rate:.1f} texts/s, p50 {p50:.2f} ms, p99 {p99:.2f} ms")
