#!/bin/sh
# Builds the benchmarks of backend wgpu as one program, or runs them where it was carried to:
#
#   backend/wgpu/bench/run.sh build DIR   puts wgpu.test, libwgpu_native and this script into DIR
#   DIR/run.sh [PATTERN]                  runs the benchmarks that match PATTERN, or without one those that BENCHMARKS.md
#                                         quotes; Test alone as PATTERN runs the kernels' tests instead
#
# RLXC_WGPU names the library to carry. Nothing else is needed on the machine with the GPU but its Vulkan driver and loader.
# BENCHTIME is the number of runs of each, 100x without it.
#
#   Bert         whole runs of BERT-base, f32 and f16, with what the device spends on each kind of step
#   FirstSubmit  after how many dispatches a run is best submitted first: the constant firstSubmit
#   Record       the host's time for a run of a hundred dispatches
#   MatMul/f32, MatMul/f16   the product's kernel by tile and splits: the tables tiles and halfTiles
#   Attention    the attention kernel
#   Conv         the convolution's kernels
#   LayerNorm    the kernel of LayerNorm with a residual, by rows
set -eu
here=$(cd "$(dirname "$0")" && pwd)
if [ "${1:-}" = build ]; then
	: "${RLXC_WGPU:?}"
	mkdir -p "$2"
	CGO_ENABLED=0 go test -c -o "$2/wgpu.test" "$here/.."
	cp "$RLXC_WGPU" "$2/libwgpu_native.so"
	cp "$here/run.sh" "$2/"
	exit
fi
export RLXC_WGPU="$here/libwgpu_native.so"
if [ "${1:-}" = Test ]; then
	exec "$here/wgpu.test" -test.run 'Rows|Conv|Cooperative|Reductions|Tiles|Splits|Tun|Half|Attention|Quantized|Bits|Narrow|BertTiny|Custom' -test.v
fi
for pattern in ${1:-Record Bert FirstSubmit MatMul/f../4096x4096x4096}; do
	"$here/wgpu.test" -test.run '^$' -test.bench "$pattern" -test.benchtime "${BENCHTIME:-100x}" -test.v
done
