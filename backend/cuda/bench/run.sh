#!/bin/sh
# Builds what measures and tests backend cuda as one program, or runs it where it was carried to:
#
#   backend/cuda/bench/run.sh build DIR   puts cuda.test, rlxc, reference.py and this script into DIR
#   DIR/run.sh test                       the kernels, models and fixtures (those below RLXC_FIXTURES) on the device
#   DIR/run.sh speed                      whole runs of BERT-base, and torch's CUDA graphs on the same device
#   DIR/run.sh texts                      texts of many lengths with padding, without, and as rows
#   DIR/run.sh decoder                    a decoder's step with its cache on the device, at a new length, and with its cache through the host
#   DIR/run.sh first                      the first run of a process, without and with a cache, and the device's memory
#   DIR/run.sh sanitize                   memcheck and racecheck of compute-sanitizer on bert-tiny
#
# Nothing is needed on the machine with the GPU but its driver; reference.py needs torch and transformers.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
case "${1:-}" in
build)
	mkdir -p "$2"
	out=$(cd "$2" && pwd)
	cd "$here/../../.."
	CGO_ENABLED=0 go test -tags gpu -c -ldflags='-s -w' -o "$out/cuda.test" ./backend/cuda
	CGO_ENABLED=0 go build -ldflags='-s -w' -o "$out/rlxc" ./cmd/rlxc
	cp "$here/run.sh" "$here/reference.py" "$out"
	;;
test) "$here/cuda.test" -test.v -test.timeout 5m ;;
speed)
	RLXC_SPEED=${RLXC_SPEED:-bert-base:f16,bert-base:tf32,bert-base:f32,minilm-like:f16} "$here/cuda.test" -test.run TestSpeed
	python3 "$here/reference.py"
	;;
texts) RLXC_SPEED=${RLXC_SPEED:-bert-base:f16,bert-base:f32,bert-base:tf32,minilm-like:f16} "$here/cuda.test" -test.run TestTexts ;;
decoder) RLXC_SPEED=decoder "$here/cuda.test" -test.run TestSpeedOfDecoder ;;
first)
	XDG_CACHE_HOME=$(mktemp -d)
	export XDG_CACHE_HOME CUDA_CACHE_DISABLE=1 RLXC_SPEED="${RLXC_SPEED:-bert-base:f16}"
	for cache in without with; do
		echo "$cache a cache:"
		"$here/cuda.test" -test.run TestFirst
	done
	;;
sanitize)
	for tool in memcheck racecheck; do
		compute-sanitizer --tool $tool "$here/cuda.test" -test.run TestBertTiny
	done
	;;
*)
	sed -n '2,/^set/s/^# \{0,1\}//p' "$0" | sed '$d'
	exit 2
	;;
esac
