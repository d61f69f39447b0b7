// Command tensors runs a model on tensors of one's own, at two shapes, and prints the shapes of the outputs.
//
//	go run ./examples/tensors MODEL.onnx
//
// The model is an encoder with the inputs input_ids, attention_mask and token_type_ids. For texts, package pipeline makes these tensors.
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/tensor"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: tensors MODEL.onnx")
		os.Exit(2)
	}
	if err := run(context.Background(), os.Stdout, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, path string) error {
	model, err := rlxc.Open(path) // an .onnx or a compiled .rlxc file
	if err != nil {
		return err
	}
	defer model.Close()
	for _, in := range model.Inputs() {
		fmt.Fprintf(out, "input %s: %v %v\n", in.Name, in.DType, in.Shape)
	}
	program, err := model.Compile(ctx, rlxc.CompileOptions{}) // once, for all shapes
	if err != nil {
		return err
	}
	defer program.Close()
	session, err := program.NewSession() // one for each goroutine
	if err != nil {
		return err
	}
	defer session.Close()

	for _, shape := range [][2]int{{1, 4}, {3, 16}} {
		batch, seq := shape[0], shape[1]
		ids, mask, types := make([]int64, batch*seq), make([]int64, batch*seq), make([]int64, batch*seq)
		for i := range ids {
			ids[i], mask[i] = int64(i%10), 1 // mask is 0 where a sequence is padded
		}
		// FromSlice does not copy: the tensor and the slice share memory. Run copies its inputs.
		outputs, err := session.Run(ctx, rlxc.Tensors{
			"input_ids":      tensor.FromSlice(ids, batch, seq),
			"attention_mask": tensor.FromSlice(mask, batch, seq),
			"token_type_ids": tensor.FromSlice(types, batch, seq),
		})
		if err != nil {
			return err
		}
		for _, info := range program.Outputs() {
			t := outputs[info.Name] // valid until the next run of the session; t.Clone() lasts
			numbers := tensor.Of[float32](t)
			fmt.Fprintf(out, "output %s: %v, %d numbers\n", info.Name, t.Shape(), len(numbers))
		}
	}
	return nil
}
