// Package onnxpb is the generated code of onnx.proto: the messages of a model file as Go structs.
//
// This package is not part of rlxc's public API and may change without notice.
package onnxpb

//go:generate go run -C ../_gen . ../onnx.proto ../onnxpb/onnx.pb.go
