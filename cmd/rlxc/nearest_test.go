package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDidYouMean(t *testing.T) {
	names := []string{"bert-tiny", "bert-base", "threads", "trace"}
	for written, want := range map[string]string{
		"bert-tniy": " (did you mean bert-tiny?)", "Bert_Base": " (did you mean bert-base?)", "thread": " (did you mean threads?)",
		"gpt": "", "": "", "strict": "",
	} {
		require.Equal(t, want, didYouMean(written, "", names), written)
	}
}
