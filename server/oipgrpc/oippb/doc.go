// Package oippb is the generated code of open_inference.proto.
package oippb

//go:generate go run -C ../../../onnx/_gen . ../../server/oipgrpc/open_inference.proto ../../server/oipgrpc/oippb/open_inference.pb.go
