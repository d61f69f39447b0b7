package onnx

import "github.com/rlxc/rlxc/tensor"

// Quote prints a name from a model file for a message: see tensor.Quote.
func Quote(name string) string { return tensor.Quote(name) }
