package rlxc_test

import (
	"archive/zip"
	"context"
	"fmt"
	"log"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/tensor"
)

// opened compiles a model of an archive and makes a session.
func opened(archive, name string) *rlxc.Session {
	z, err := zip.OpenReader(archive)
	if err != nil {
		log.Fatal(err)
	}
	model, err := rlxc.OpenFS(z, name) // or rlxc.Open("decoder_model_merged.onnx")
	if err != nil {
		log.Fatal(err)
	}
	program, err := model.Compile(context.Background(), rlxc.CompileOptions{})
	if err != nil {
		log.Fatal(err)
	}
	session, err := program.NewSession()
	if err != nil {
		log.Fatal(err)
	}
	return session
}

// best is the token of the largest logit in the last place.
func best(logits *tensor.Tensor) int64 {
	all := tensor.Of[float32](logits)
	last, best := all[len(all)-logits.Shape()[2]:], 0
	for i, x := range last {
		if x > last[best] {
			best = i
		}
	}
	return int64(best)
}

// Text from a merged decoder: the likeliest token, again and again.
func ExampleSession_BindCache() {
	decoder := opened("testdata/decoders/gpt2-merged.zip", "model.onnx")
	defer decoder.Close()
	cache, err := decoder.BindCache(1, 64) // one text of up to 64 tokens
	if err != nil {
		log.Fatal(err)
	}
	defer cache.Close()

	text := []int64{71, 11, 16}
	for given, read := text, 0; len(text) < 12; given = text[read:] {
		mask, positions := make([]int64, len(text)), make([]int64, len(given))
		for i := range mask {
			mask[i] = 1
		}
		for i := range positions {
			positions[i] = int64(read + i)
		}
		out, err := decoder.Run(context.Background(), rlxc.Tensors{
			"input_ids":        tensor.FromSlice(given, 1, len(given)),
			"attention_mask":   tensor.FromSlice(mask, 1, len(mask)),
			"position_ids":     tensor.FromSlice(positions, 1, len(positions)),
			"use_cache_branch": tensor.FromSlice([]bool{read > 0}, 1), // false only in the first run
		})
		if err != nil {
			log.Fatal(err)
		}
		read = len(text)
		text = append(text, best(out["logits"]))
	}
	fmt.Println(text)
	// Output: [71 11 16 21 21 10 10 10 10 10 77 77]
}

// A text for another text: the encoder runs once, and the decoder keeps what it makes of the encoder's states.
func ExampleSession_BindCache_encoder() {
	encoder, decoder := opened("testdata/decoders/t5.zip", "encoder.onnx"), opened("testdata/decoders/t5.zip", "model.onnx")
	defer encoder.Close()
	defer decoder.Close()
	cache, err := decoder.BindCache(1, 64)
	if err != nil {
		log.Fatal(err)
	}
	defer cache.Close()

	mask := tensor.FromSlice([]int64{1, 1, 1, 1}, 1, 4)
	states, err := encoder.Run(context.Background(), rlxc.Tensors{"input_ids": tensor.FromSlice([]int64{31, 7, 90, 1}, 1, 4),
		"attention_mask": mask})
	if err != nil {
		log.Fatal(err)
	}
	text := []int64{0} // what T5 begins with
	for len(text) < 12 {
		in := rlxc.Tensors{
			"input_ids":              tensor.FromSlice(text[len(text)-1:], 1, 1),
			"encoder_attention_mask": mask,
			"use_cache_branch":       tensor.FromSlice([]bool{len(text) > 1}, 1),
		}
		if len(text) == 1 {
			in["encoder_hidden_states"] = states["last_hidden_state"] // later runs do not read it
		}
		out, err := decoder.Run(context.Background(), in)
		if err != nil {
			log.Fatal(err)
		}
		text = append(text, best(out["logits"]))
	}
	fmt.Println(text)
	// Output: [0 87 87 87 87 87 87 87 87 87 87 87]
}
