// Package onnxruntime runs models in onnxruntime, the reference that rlxc proves its results against and compares its
// speed with.
//
// The library is opened at run time, without cgo, and called through its C interface.
package onnxruntime

import "github.com/rlxc/rlxc/tensor"

// Level says how far onnxruntime rewrites the model. The zero value is its default.
type Level uint8

// The levels of onnxruntime.
const (
	All      Level = iota // everything, layouts included
	Extended              // fusions
	Basic                 // folding and what is certain
	None                  // every node as the model has it: the arithmetic to compare with, exact on processors without VNNI too
)

// Options say how a model is run.
type Options struct {
	Library string // path of the shared library; empty: as Find looks for it
	Threads int    // threads of one operator; 0 lets onnxruntime choose
	Level   Level
	Taps    []Tap // intermediate values to output too
	// Overridable chooses among the names of the inputs with a default those that a run may give a value. nil chooses none.
	Overridable func(defaults []string) ([]string, error)
}

// A Tap names an intermediate value that becomes an output, of its type.
type Tap struct {
	Name  string
	DType tensor.DType
}

// ValueInfo describes an input or output as the model declares it.
type ValueInfo struct {
	Name  string
	DType tensor.DType
	Shape []string // a number or a name for each axis
	// Unranked says that the model does not declare a shape.
	Unranked bool
	Default  bool // a run may leave the input out
}
