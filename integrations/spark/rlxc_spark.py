"""Vectors, scores and entities for columns of Spark, by the rlxc binary on the executors.

    from rlxc_spark import embed
    embed(df, "text", "/models/minilm").write.parquet("vectors")

Each task runs one process of the binary and streams its rows through it as lines of JSON; Arrow carries them to and from Spark. A process
that dies fails its task, which Spark runs again. Models that are paths have to be on every executor; ids of the hub are downloaded
to each executor's cache once.
"""
import base64
import json
import os
import subprocess
import threading
from collections import deque

import numpy as np
import pyarrow as pa
from pyspark.sql.types import ArrayType, DoubleType, FloatType, IntegerType, StringType, StructField, StructType

# The rows that a process holds: more than the 4,096 that it reads before it answers.
UNDER_WAY = 16384

ENTITY = StructType([StructField("label", StringType()), StructField("score", DoubleType()), StructField("text", StringType()),
                     StructField("char_start", IntegerType()), StructField("char_end", IntegerType())])


def _vector(line):
    return np.frombuffer(base64.b64decode(line["embedding_base64"]), dtype="<f4")


def _entities(line):
    return [{k: e[k] for k in ENTITY.names} for e in line["entities"]]


def embed(df, column, model, output="embedding", options=(), **more):
    """Adds a column of vectors of a column of texts. Options are those of "rlxc embed"; a null has no vector."""
    return _run(df, [column], output, ArrayType(FloatType()), _vector, ["embed", model, "--base64", *options], **more)


def rerank(df, query, document, model, output="score", options=(), **more):
    """Adds how well a column of documents answers a column of queries."""
    return _run(df, [query, document], output, DoubleType(), lambda line: line["score"], ["rerank", model, *options], **more)


def tag(df, column, model, output="entities", options=(), **more):
    """Adds the entities of a column of texts."""
    return _run(df, [column], output, ArrayType(ENTITY), _entities, ["tag", model, *options], **more)


def _run(df, columns, output, kind, parse, command, binary="rlxc", threads=1):
    """threads is how many processors a process takes: 1 where each core has a task."""
    schema = StructType([*df.schema.fields, StructField(output, kind)])
    command = [binary, *command, "--json", "--input", "-", "--field", "0", "--threads", str(threads), "--sessions", "1"]
    if len(columns) == 2:
        command += ["--second-field", "1"]
    return df.mapInArrow(lambda batches: _stream(batches, columns, output, parse, command), schema)


def _stream(batches, columns, output, parse, command):
    # The process ends with its standard input, whatever becomes of Spark's worker.
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ)
    pending, failure, said = deque(), [], []
    ready, room = threading.Semaphore(0), threading.Condition()
    under_way = 0

    def feed():
        nonlocal under_way
        try:
            for batch in batches:
                with room:
                    room.wait_for(lambda: under_way < UNDER_WAY)
                    under_way += batch.num_rows
                texts = [batch.column(batch.schema.get_field_index(c)).to_pylist() for c in columns]
                pending.append((batch, [all(t is not None for t in row) for row in zip(*texts)]))
                ready.release()
                for row in zip(*texts):
                    line = json.dumps({str(i): t or "" for i, t in enumerate(row)})
                    process.stdin.write(line.encode() + b"\n")
        except BrokenPipeError:
            pass  # the process has said why
        except BaseException as e:
            failure.append(e)
        finally:
            try:
                process.stdin.close()
            except BrokenPipeError:
                pass
            pending.append(None)
            ready.release()

    threading.Thread(target=feed, daemon=True).start()
    listener = threading.Thread(target=lambda: said.append(process.stderr.read()), daemon=True)
    listener.start()

    def ended():
        """The error of a process that ended too early or not well, with the end of what it said."""
        code = process.wait()
        listener.join()
        return RuntimeError(f"rlxc ended with {code}: {b''.join(said)[-2000:].decode(errors='replace').strip()}")

    try:
        while True:
            ready.acquire()
            item = pending.popleft()
            if item is None:
                break
            batch, there = item
            values = []
            for present in there:
                line = process.stdout.readline()
                if not line.endswith(b"\n"):  # it ended, perhaps within a line
                    raise ended()
                values.append(parse(json.loads(line)) if present else None)
            with room:
                under_way -= batch.num_rows
                room.notify()
            yield pa.RecordBatch.from_arrays([*batch.columns, _array(values)], [*batch.schema.names, output])
        if failure:
            raise failure[0]
        if process.wait() != 0:
            raise ended()
    finally:
        process.kill()
        process.wait()


def _array(values):
    first = next((v for v in values if v is not None), None)
    if isinstance(first, np.ndarray):
        return pa.array(values, pa.list_(pa.float32()))
    if isinstance(first, float):
        return pa.array(values, pa.float64())
    entity = pa.struct([("label", pa.string()), ("score", pa.float64()), ("text", pa.string()), ("char_start", pa.int32()), ("char_end", pa.int32())])
    return pa.array(values, pa.list_(entity))
