"""Measures 1 to 4 processes of "rlxc serve" on one machine, each loaded by 64 connections of its own, in turns: processes.py RLXC FOLDER
LENGTHS [SECONDS [ROUNDS]]. It prints what they answer together, and what of their memory they share."""
import atexit
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

rlxc, folder, lengths = sys.argv[1:4]
seconds, rounds = (int(x) for x in (sys.argv[4:] + ["5", "3"][len(sys.argv) - 4:]))
cores = os.cpu_count()


def serve(threads):
    log = tempfile.TemporaryFile("w+")
    p = subprocess.Popen([rlxc, "serve", f"m={folder}", "--address", "127.0.0.1:0", "--sessions", "1", "--threads", str(threads)], stderr=log)
    atexit.register(p.kill)
    while True:
        log.seek(0)
        if found := re.search(r"msg=serving url=(\S+)", log.read()):
            return p, found[1] + "/v1/embeddings"
        time.sleep(0.02)


def resident(pid, kind):
    return sum(int(n) for n in re.findall(rf"^{kind}:\s+(\d+) kB", open(f"/proc/{pid}/smaps_rollup").read(), re.M)) * 1024


rates, memory = {}, {}
for _ in range(rounds):
    for n in range(1, 5):
        servers = [serve(max(1, cores // n)) for _ in range(n)]
        loads = [subprocess.Popen([rlxc, "bench", "--serve", url, "--throughput", lengths, "--duration", f"{seconds}s", "--connections", "64", "--json"],
                                  stdout=subprocess.PIPE) for _, url in servers]
        reports = [json.loads(load.communicate()[0]) for load in loads]
        rates.setdefault(n, []).append(sum(r["texts_per_second"] for r in reports))
        memory[n] = [sum(resident(p.pid, kind) for p, _ in servers) / 1e6 for kind in ("Rss", "Pss")]
        for p, _ in servers:
            p.terminate()
            p.wait(60)
for n, list_ in rates.items():
    print(f"{n} processes of {max(1, cores // n)} threads on {cores} processors: {statistics.median(list_):.0f} texts/s ({min(list_):.0f} to {max(list_):.0f}), "
          f"resident {memory[n][0]:.0f} MB, {memory[n][1]:.0f} MB with what is shared counted once")
