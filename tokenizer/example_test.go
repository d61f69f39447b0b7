package tokenizer_test

import (
	"fmt"
	"log"

	"github.com/rlxc/rlxc/tokenizer"
)

// A batch pads its sequences to the longest, and cuts those that are longer than the maximum.
func Example() {
	tok, err := tokenizer.Open("../pipeline/testdata/minilm") // a folder, tokenizer.json, vocab.txt or another file of a tokenizer
	if err != nil {
		log.Fatal(err)
	}
	batch, err := tok.Batch(tokenizer.Texts("hello", "hello world hello world"), 8)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(batch.Sequences, batch.Length, batch.Truncated)
	fmt.Println(batch.AttentionMask)
	text, err := tok.Decode(batch.Encodings[0].InputIDs, true)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(text)
	// Output:
	// 2 8 1
	// [1 1 1 1 1 0 0 0 1 1 1 1 1 1 1 1]
	// hello
}
