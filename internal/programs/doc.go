// Package programs holds a test that makes random ONNX models, with inputs, and holds engines to how far a correct one may depart from
// what they mean.
package programs
