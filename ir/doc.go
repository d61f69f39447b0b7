// Package ir is the program between ONNX and the kernels: SSA values with symbolic sizes (Dim), nodes whose operators (Op) are structs,
// and graphs of nodes. The bodies of If, Loop and Scan are graphs too (subgraphs).
//
// Every operator has a shape rule (Infer) for symbolic and bound sizes, and a slow, plain definition (Eval). Eval folds constants, runs
// ops that a backend lacks, and is the reference in the tests of kernels. The table in op.go has a row for each operator.
//
// Bind replaces the symbols of a graph by numbers and runs every shape rule again. A graph prints as text, and Parse reads it:
//
//	graph "tiny" (%0 "x": f32[batch,4]) {
//	  const %1: f32[4] = [1, 2, 3, 4]
//	  %2 = mul(%0, %1)
//	  return %2 as "y"
//	}
//
// OpDef, Type, Dim and Attrs, which custom operators need, are API. The rest of this package is not API and may change without notice.
package ir
