package rlxc_test

import (
	"context"
	"fmt"
	"log"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/models"
	"github.com/rlxc/rlxc/planner"
	"github.com/rlxc/rlxc/tensor"
	"github.com/rlxc/rlxc/tokenizer"
)

// Texts to vectors with an embedding model.
func Example() {
	tok, err := tokenizer.Open("tokenizer/testdata/vocab.txt") // the model's tokenizer.json or vocab.txt
	if err != nil {
		log.Fatal(err)
	}
	folder, err := models.FS("bert-tiny")
	if err != nil {
		log.Fatal(err)
	}
	model, err := rlxc.OpenFS(folder, "model.onnx") // or rlxc.Open("model.onnx"), or a compiled "model.rlxc"
	if err != nil {
		log.Fatal(err)
	}
	defer model.Close()
	program, err := model.Compile(context.Background(), rlxc.CompileOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer program.Close()
	session, err := program.NewSession()
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()

	batch, err := tok.Batch(tokenizer.Texts("the quick brown fox", "the fox"), 512)
	if err != nil {
		log.Fatal(err)
	}
	out, err := session.Run(context.Background(), rlxc.Tensors{
		"input_ids":      tensor.FromSlice(batch.InputIDs, batch.Sequences, batch.Length),
		"attention_mask": tensor.FromSlice(batch.AttentionMask, batch.Sequences, batch.Length),
		"token_type_ids": tensor.FromSlice(batch.TokenTypeIDs, batch.Sequences, batch.Length),
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, v := range meanVectors(out["last_hidden_state"], batch) {
		fmt.Println(len(v))
	}
	// Output:
	// 128
	// 128
}

// meanVectors returns, for each row, the mean of its tokens' vectors, in hidden [rows, length, size], without the padding.
func meanVectors(hidden *rlxc.Tensor, batch *tokenizer.Batch) [][]float32 {
	values, size := tensor.Of[float32](hidden), hidden.Shape()[2]
	vectors := make([][]float32, batch.Sequences)
	for row := range vectors {
		sum, tokens := make([]float32, size), float32(0)
		for t := range batch.Length {
			at := row*batch.Length + t
			if batch.AttentionMask[at] == 0 {
				continue
			}
			tokens++
			for i, x := range values[at*size:][:size] {
				sum[i] += x
			}
		}
		for i := range sum {
			sum[i] /= tokens
		}
		vectors[row] = sum
	}
	return vectors
}

// A plan for another runtime, which keeps inputs, weights and constants in one arena, with a guard after each: the buffers and lives
// of a program are data, which package planner plans under any options.
func ExampleProgram_Plan_elsewhere() {
	folder, err := models.FS("bert-tiny")
	if err != nil {
		log.Fatal(err)
	}
	model, err := rlxc.OpenFS(folder, "model.onnx")
	if err != nil {
		log.Fatal(err)
	}
	defer model.Close()
	program, err := model.Compile(context.Background(), rlxc.CompileOptions{CPU: "generic"})
	if err != nil {
		log.Fatal(err)
	}
	defer program.Close()
	report, err := program.Plan(map[string]int{"batch": 1, "seq": 16})
	if err != nil {
		log.Fatal(err)
	}
	file := planner.File{Problem: report.Problem, Plan: report.Plan} // what rlxc plan --json writes, and planner.ReadFile reads

	options := planner.Inference()
	options.TailGuard, options.Alignment = true, 256
	plan, err := planner.Solve(file.Problem, options)
	if err != nil {
		log.Fatal(err)
	}
	if err := planner.Check(file.Problem, plan); err != nil {
		log.Fatal(err)
	}
	fmt.Println("buffers without memory:", len(file.Plan.Unplanned), "before,", len(plan.Unplanned), "now")
	fmt.Println("the arena has grown by the weights and more:", plan.Committed-file.Plan.Committed > report.Weights)
	// Output:
	// buffers without memory: 33 before, 0 now
	// the arena has grown by the weights and more: true
}
