"""Embeds 100,000 rows in Spark's local mode while a process of the binary is killed, and compares rows with what the binary makes of them
alone: python test.py RLXC FOLDER, where FOLDER is pipeline/testdata.
"""
import json
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
from pyspark.sql import SparkSession
from rlxc_spark import embed, rerank, tag

binary, folder = sys.argv[1:]
rows = int(os.environ.get("ROWS", 100_000))
here = os.path.dirname(os.path.abspath(__file__))
os.environ["PYSPARK_PYTHON"] = sys.executable  # the workers run what runs this
spark = (SparkSession.builder.master("local[2,4]").config("spark.ui.enabled", "false").config("spark.driver.bindAddress", "127.0.0.1")
         .config("spark.driver.host", "127.0.0.1").config("spark.sql.execution.arrow.maxRecordsPerBatch", "1000").getOrCreate())
spark.sparkContext.addPyFile(os.path.join(here, "rlxc_spark.py"))
texts = ["a cat sits on the mat", "where does the cat sit?", "the stock market fell today", ""]
df = spark.range(rows, numPartitions=8).selectExpr("id", f"element_at(array({', '.join(repr(t) for t in texts)}), cast(id % 4 + 1 as int)) as text")
df = df.selectExpr("id", "case when id % 1000 = 7 then null else text end as text")
killed = []


def kill():
    """Kills a child of this process's that runs the binary, once it runs for a while."""
    while not killed:
        time.sleep(0.2)
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                command = open(f"/proc/{pid}/cmdline").read()
                age = time.time() - os.stat(f"/proc/{pid}").st_ctime
            except OSError:
                continue
            if command.startswith(binary + "\0embed") and age > 1:
                os.kill(int(pid), signal.SIGKILL)
                killed.append(pid)
                return


threading.Thread(target=kill, daemon=True).start()
begun = time.time()
found = embed(df, "text", f"{folder}/minilm", binary=binary).collect()
took = time.time() - begun
assert killed, "nothing was killed: the run was too short"
assert sorted(r.id for r in found) == list(range(rows))
lines = subprocess.run([binary, "embed", f"{folder}/minilm", "--json", *texts], capture_output=True, check=True).stdout.splitlines()
want = [np.array(json.loads(line)["embedding"], np.float32) for line in lines]
for r in found:
    if r.id % 1000 == 7:
        assert r.embedding is None
    else:
        assert np.abs(np.array(r.embedding, np.float32) - want[r.id % 4]).max() < 1e-5, r
print(f"ok: {rows} rows in {took:.1f} s, with process {killed[0]} killed")
pairs = df.where("id < 100 and text is not null").selectExpr("id", "text as q", "'a cat' as d")
assert all(0 < r.score < 1 for r in rerank(pairs, "q", "d", f"{folder}/rerank", binary=binary).collect())
assert any(r.entities for r in tag(df.where("id < 8"), "text", f"{folder}/ner", binary=binary).collect())
print("ok: rerank, tag")
assert embed(df.where("id < 0"), "text", f"{folder}/minilm", binary=binary).count() == 0
few = df.where("id = 3").repartition(4)  # of which three have no rows
assert len(embed(few, "text", f"{folder}/minilm", binary=binary).collect()) == 1
nulls = embed(df.where("text is null and id < 5000"), "text", f"{folder}/minilm", binary=binary).collect()
assert len(nulls) == 5 and all(r.embedding is None for r in nulls)
print("ok: partitions without rows, and of nulls")
for found in [df.where("id < 10"), df.where("id < 0")]:
    try:
        embed(found, "text", f"{folder}/absent", binary=binary).collect()
        raise SystemExit("a model that is absent is no error")
    except Exception as e:
        assert "rlxc ended with 3: rlxc: " in str(e) and "absent" in str(e), e
print("ok: the error of a process is Spark's")
