// Command customop runs a model with an operator that rlxc does not have: com.example.ClipCount cuts numbers at a limit, and counts for
// each row how many it cut. The model clip.onnx is Relu followed by ClipCount.
//
//	go run ./examples/customop
package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

//go:embed clip.onnx
var model []byte

// clipCount has the operator's name, its shape rule, and its kernel. docs/custom-ops.md describes the parts, and kernels for GPUs.
var clipCount = rlxc.Op{
	Name: "com.example.ClipCount",
	// Infer runs when a model is opened. Sizes may be symbols, such as rows: the counts have the first size of the operand, whatever it is.
	Infer: func(in []ir.Type, attrs ir.Attrs) ([]ir.Type, error) {
		if len(in) != 1 || in[0].DType != tensor.F32 || len(in[0].Shape) != 2 {
			return nil, errors.New("want a float32 matrix")
		}
		if limit, _ := attrs.Get("limit"); limit == nil {
			return nil, errors.New("attribute limit is missing")
		}
		return []ir.Type{in[0], ir.TensorOf(tensor.I64, in[0].Shape[0])}, nil
	},
	// Eval runs in each run, possibly in several sessions at once. It does not change the operand.
	Eval: func(in []*tensor.Tensor, attrs ir.Attrs) ([]*tensor.Tensor, error) {
		value, _ := attrs.Get("limit")
		limit, ok := value.(float32)
		if !ok {
			return nil, fmt.Errorf("attribute limit is %v: want a float", value)
		}
		y, counts := in[0].Clone(), make([]int64, in[0].Shape()[0])
		numbers, columns := tensor.Of[float32](y), in[0].Shape()[1]
		for i, x := range numbers {
			if x > limit {
				numbers[i] = limit
				counts[i/columns]++
			}
		}
		return []*tensor.Tensor{y, tensor.FromSlice(counts)}, nil
	},
}

func main() {
	if err := run(context.Background(), os.Stdout, clipCount); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run prints what the model makes of a matrix of two rows.
func run(ctx context.Context, out io.Writer, op rlxc.Op) error {
	m, err := rlxc.Read(bytes.NewReader(model), int64(len(model)), "clip.onnx", rlxc.WithOp(op))
	if err != nil {
		return err
	}
	defer m.Close()
	p, err := m.Compile(ctx, rlxc.CompileOptions{})
	if err != nil {
		return err
	}
	defer p.Close()
	s, err := p.NewSession()
	if err != nil {
		return err
	}
	defer s.Close()
	results, err := s.Run(ctx, rlxc.Tensors{"x": tensor.FromSlice([]float32{-1, 0.5, 2, 3}, 2, 2)})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, results["y"].Float64s(), results["counts"].Int64s())
	return err
}
