// Package ir is the program between ONNX and the kernels: SSA values with symbolic sizes (Dim), nodes whose operators (Op) are
// structs, and graphs of them, which the bodies of If, Loop and Scan are too (subgraphs).
//
// Every operator has a shape rule (Infer), which serves symbolic and bound sizes alike, and a slow, plain meaning (Eval), which
// folds constants, runs what a backend lacks, and is what kernels are tested against. The table in op.go has a row for each.
//
// Bind puts numbers to a graph's symbols and runs every shape rule again. A graph prints as text, and Parse reads it:
//
//	graph "tiny" (%0 "x": f32[batch,4]) {
//	  const %1: f32[4] = [1, 2, 3, 4]
//	  %2 = mul(%0, %1)
//	  return %2 as "y"
//	}
//
// What a custom operator needs (OpDef, Type, Dim, Attrs) is API. The rest of this package is not and may change without notice.
package ir
