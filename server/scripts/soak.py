"""See soak.sh: soak.py RLXC FOLDER LENGTHS SECONDS."""
import atexit
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

rlxc, folder, lengths, seconds = sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4])
log = tempfile.TemporaryFile("w+")
server = subprocess.Popen([rlxc, "serve", f"m={folder}", "--address", "127.0.0.1:0", "--memory-limit", "256MiB", "--queue", "2000", "--read-timeout", "10s", "--timeout", "10m",
                           "--log-format", "json"], stderr=log)
atexit.register(server.kill)  # of no effect on one that has ended


def lines():
    log.flush()
    with open(f"/proc/{os.getpid()}/fd/{log.fileno()}") as f:
        return [json.loads(line) for line in f if line.startswith("{")]


while not any(line["msg"] == "serving" for line in lines()):
    assert server.poll() is None
    time.sleep(0.05)
url = next(line["url"] for line in lines() if line["msg"] == "serving")
address = ("127.0.0.1", int(url.rsplit(":", 1)[1]))
names = {"go_goroutines": "goroutines", "process_open_fds": "files", "process_resident_memory_bytes": "resident", "go_memstats_heap_inuse_bytes": "heap",
         "rlxc_memory_held_bytes": "arenas", "rlxc_queue_tokens": "waiting", "rlxc_queue_requests": "requests"}


def state():
    text = urllib.request.urlopen(url + "/metrics", timeout=60).read().decode()
    return {names[name]: float(value) for name, value in re.findall(r"^(\w+)(?:\{[^}]*\})? (\S+)$", text, re.M) if name in names}


def bench(duration, *flags):
    out = subprocess.run([rlxc, "bench", "--serve", url + "/v1/embeddings", "--throughput", lengths, "--duration", f"{duration:.0f}s", "--json", *flags],
                         capture_output=True)
    assert out.returncode == 0, out.stderr
    return json.loads(out.stdout)


HEAD = b"POST /v1/embeddings HTTP/1.1\r\nHost: x\r\n"
BODY = json.dumps({"input": ["a cat sits on the mat"] * 50}).encode()
stop = threading.Event()
bad = 0


def misbehave(seed):
    """Connections that no client should make."""
    global bad
    rng = random.Random(seed)
    while not stop.is_set():
        try:
            with socket.create_connection(address, timeout=5) as c:
                kind = rng.randrange(5)
                if kind == 0:  # gone before the answer
                    c.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY)
                elif kind == 1:  # gone within the body
                    c.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY[: rng.randrange(len(BODY))])
                elif kind == 2:  # slow, and without an end
                    c.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
                    for _ in range(30):
                        c.sendall(b"1\r\n \r\n")
                        time.sleep(0.1)
                elif kind == 3:  # nonsense
                    c.sendall(rng.randbytes(rng.randrange(1, 2000)))
                    c.recv(1000)
                else:  # a body of nonsense
                    body = rng.randbytes(500)
                    c.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body)
                    c.recv(1000)
        except OSError:
            pass
        bad += 1
        time.sleep(0.05)


def settled():
    """The state when nothing waits, and what the load has left idle is closed."""
    for _ in range(60):
        now = state()
        if now["waiting"] == now["requests"] == 0 and now["goroutines"] <= before.get("goroutines", 1e9) + 8:
            break
        time.sleep(0.5)
    return now


before = {}
saturated = bench(5, "--connections", "64")  # which makes the arenas too
bench(5, "--connections", "256")
server.send_signal(signal.SIGHUP)
time.sleep(2)
bench(5, "--connections", "256", "--rate", str(2 * saturated["texts_per_second"]))
before = settled()
print(f"saturation {saturated['texts_per_second']:.0f} texts/s; before: {before}", flush=True)
threads = [threading.Thread(target=misbehave, args=[i]) for i in range(4)]
most = {}


def watch():
    turns = 0
    while not stop.wait(5):
        for name, value in state().items():
            most[name] = max(most.get(name, 0), value)
        urllib.request.urlopen(url + "/", timeout=60).read()
        turns += 1
        if turns % 12 == 0:
            server.send_signal(signal.SIGHUP)


threads.append(threading.Thread(target=watch))
for t in threads:
    t.start()
load = bench(seconds, "--connections", "256", "--rate", str(2 * saturated["texts_per_second"]))
stop.set()
for t in threads:
    t.join()
after = settled()
print(f"{seconds:.0f} s at twice saturation: {load['answered']} answered, {load['refused']} refused, {bad} bad clients, p50 {load['p50_ms']:.0f} ms, "
      f"p99 {load['p99_ms']:.0f} ms\nmost: {most}\nafter: {after}")
server.send_signal(signal.SIGTERM)
assert server.wait(60) == 0, "the server did not end well"
answers = [line for line in lines() if line.get("route") == "/v1/embeddings"]
ids = [line["id"] for line in answers]
assert len(set(ids)) == len(ids), "a request was answered twice"
assert not [line for line in answers if line["status"] >= 500], [line for line in answers if line["status"] >= 500][:3]
assert after["goroutines"] <= before["goroutines"] + 8 and after["files"] <= before["files"] + 8
assert after["resident"] <= before["resident"] * 1.15 + (16 << 20), "memory"
assert most["arenas"] <= 256 << 20
print("ok:", len(answers), "lines of the log")
