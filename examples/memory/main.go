// Command memory prints how much memory a model needs on a device, before any run: for one instruction level and number of threads, the
// largest batch of each length that fits.
//
//	go run ./examples/memory MODEL.onnx 16
//
// The device need not be this machine: a program for another instruction level can be planned here, but not run.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/rlxc/rlxc"
)

// The device: two threads with AVX2.
var device = rlxc.CompileOptions{CPU: "avx2", Threads: 2}

func main() {
	limit := 0
	if len(os.Args) == 3 {
		limit, _ = strconv.Atoi(os.Args[2])
	}
	if limit <= 0 {
		fmt.Fprintln(os.Stderr, "usage: memory MODEL MIB")
		os.Exit(2)
	}
	if err := plan(context.Background(), os.Stdout, os.Args[1], int64(limit)<<20, device); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// plan prints, for each length, the largest batch whose arena and weights take at most limit bytes. The model is an encoder whose first
// input is [batch, sequence].
func plan(ctx context.Context, out io.Writer, path string, limit int64, o rlxc.CompileOptions) error {
	m, err := rlxc.Open(path)
	if err != nil {
		return err
	}
	defer m.Close()
	p, err := m.Compile(ctx, o)
	if err != nil {
		return err
	}
	defer p.Close()
	batch, length := m.Inputs()[0].Shape[0], m.Inputs()[0].Shape[1]
	for _, seq := range []int{8, 32, 64} {
		// A plan takes about a millisecond, so the search asks for each batch that a bisection needs.
		need := func(n int) (arena, all int64, err error) {
			r, err := p.Plan(map[string]int{batch: n, length: seq})
			if err != nil {
				return 0, 0, err
			}
			return r.Plan.Committed, r.Plan.Committed + r.Weights, nil
		}
		fits, most := 0, 1024
		for fits < most {
			n := (fits + most + 1) / 2
			_, all, err := need(n)
			if err != nil {
				return err
			}
			if all <= limit {
				fits = n
			} else {
				most = n - 1
			}
		}
		if fits == 0 {
			fmt.Fprintf(out, "%s=%d: not even a batch of 1 fits\n", length, seq)
			continue
		}
		arena, all, err := need(fits)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s=%d: %s up to %d: an arena of %d bytes, %d with the weights\n", length, seq, batch, fits, arena, all)
	}
	return nil
}
