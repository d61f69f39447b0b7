#!/bin/sh
# Builds the benchmarks of backend wgpu as one program, or runs them where it was carried to:
#
#   backend/wgpu/bench/run.sh build DIR   puts wgpu.test, libwgpu_native and this script into DIR
#   DIR/run.sh [PATTERN]                  runs the benchmarks that match PATTERN (all of them without one)
#
# RLXC_WGPU names the library to carry. Nothing else is needed on the machine with the GPU but its Vulkan driver and loader.
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
RLXC_WGPU=$here/libwgpu_native.so exec "$here/wgpu.test" -test.run '^$' -test.bench "${1:-.}" -test.benchtime "${BENCHTIME:-100x}" -test.v
