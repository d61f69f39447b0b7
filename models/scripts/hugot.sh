#!/usr/bin/env bash
# Compares package pipeline with hugot 0.8.0's Go backend (gomlx, without cgo) on one model and the same texts: texts per second in
# calls of BATCH texts, alternating, each engine in a separate process; the median of the rounds' ratios; the peak memory of each
# process; and the least cosine between the engines' vectors. FOLDER holds model.onnx with its tokenizer, TEXTS has a text on each
# line, of at most the model's number of positions. hugot pools by the mean. It does not open MiniLM as torch's older exporter writes
# it; minilm_dynamo.py writes one that it opens. It needs Go 1.27 (GOTOOLCHAIN), the Go module proxy and Python.
#   models/scripts/hugot.sh FOLDER TEXTS [ROUNDS [BATCH]]
set -euo pipefail
folder=$(realpath "$1") texts=$(realpath "$2") rounds=${3:-7} batch=${4:-32}
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# An engine embeds all texts once, writes their vectors to a file, prints a line, and then prints the seconds of a round for each line that
# it reads.
engine() { # NAME IMPORTS OPEN EMBED: OPEN makes what EMBED turns texts into vectors with
	mkdir "$work/$1"
	cat >"$work/$1/main.go" <<GO
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
$2
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func main() {
	ctx, folder := context.Background(), os.Args[1]
	texts := strings.Split(strings.TrimSpace(string(must(os.ReadFile(os.Args[2])))), "\n")
	batch := must(strconv.Atoi(os.Args[3]))
	$3
	round := func() (vectors [][]float32) {
		for i := 0; i < len(texts); i += batch {
			texts := texts[i:min(i+batch, len(texts))]
			vectors = append(vectors, $4...)
		}
		return vectors
	}
	if err := os.WriteFile(os.Args[4], must(json.Marshal(round())), 0o600); err != nil {
		panic(err)
	}
	fmt.Println(len(texts))
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		begun := time.Now()
		round()
		fmt.Println(time.Since(begun).Seconds())
	}
}
GO
	go -C "$work/$1" mod init example.com/engine 2>/dev/null
}

engine rlxc '"github.com/rlxc/rlxc"; "github.com/rlxc/rlxc/pipeline"' \
	'yes := true
	m := must(pipeline.Open(ctx, folder, pipeline.Options{Pooling: "mean", Normalize: &yes, Compile: rlxc.CompileOptions{Unpad: true}}))' \
	'must(m.Embed(ctx, texts, pipeline.EmbedOptions{}))'
go -C "$work/rlxc" mod edit -require github.com/rlxc/rlxc@v0.0.0 -replace "github.com/rlxc/rlxc=$root"
engine hugot '"github.com/knights-analytics/hugot"; "github.com/knights-analytics/hugot/pipelines"' \
	'p := must(hugot.NewPipeline(must(hugot.NewGoSession(ctx)), hugot.FeatureExtractionConfig{ModelPath: folder, Name: "embed",
		Options: []hugot.FeatureExtractionOption{pipelines.WithNormalization()}}))' \
	'must(p.RunPipeline(ctx, texts)).Embeddings'
export GOTOOLCHAIN=${GOTOOLCHAIN:-go1.27.4} CGO_ENABLED=0 GOFLAGS=-mod=mod
go -C "$work/hugot" get github.com/knights-analytics/hugot@v0.8.0 2>/dev/null
for name in rlxc hugot; do
	go -C "$work/$name" mod tidy 2>/dev/null
	go -C "$work/$name" build -o engine .
done

python3 - "$work" "$folder" "$texts" "$batch" "$rounds" <<'PY'
import json, re, statistics, subprocess, sys

work, folder, texts, batch, rounds = sys.argv[1:]
names = ["rlxc", "hugot"]
engines, count, vectors, rates, peak = {}, 0, {}, {n: [] for n in names}, {}
for name in names:
    file = f"{work}/{name}.json"
    engines[name] = subprocess.Popen([f"{work}/{name}/engine", folder, texts, batch, file], stdin=subprocess.PIPE,
                                     stdout=subprocess.PIPE, text=True)
    count = int(engines[name].stdout.readline())
    vectors[name] = json.load(open(file))
for _ in range(int(rounds)):
    for name in names:
        print(file=engines[name].stdin, flush=True)
        rates[name].append(count / float(engines[name].stdout.readline()))
for name in names:
    peak[name] = int(re.search(r"VmHWM:\s*(\d+)", open(f"/proc/{engines[name].pid}/status").read())[1]) / 1024
    engines[name].stdin.close()
    engines[name].wait()
    print(f"{name:6} {statistics.median(rates[name]):9.1f} texts/s  peak {peak[name]:7.1f} MiB")
ratios = sorted(a / b for a, b in zip(rates["rlxc"], rates["hugot"]))
dot = lambda a, b: sum(x * y for x, y in zip(a, b))
cosine = min(dot(a, b) / (dot(a, a) * dot(b, b)) ** 0.5 for a, b in zip(vectors["rlxc"], vectors["hugot"]))
print(f"ratio of rates {statistics.median(ratios):.2f} ({ratios[0]:.2f}-{ratios[-1]:.2f}), "
      f"of memory {peak['rlxc'] / peak['hugot']:.3f}, least cosine {cosine:.7f}")
PY
