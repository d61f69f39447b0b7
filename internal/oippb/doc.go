// Package oippb is the generated code of open_inference.proto.
package oippb

//go:generate go run -C ../../onnx/_gen . ../../internal/oippb/open_inference.proto ../../internal/oippb/open_inference.pb.go
