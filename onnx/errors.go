package onnx

import (
	"errors"
	"fmt"
	"strings"
)

// ErrInvalid is what every error about the contents of a model or tensor file is, for errors.Is. Errors of the file system
// (no such file, no permission) are not.
var ErrInvalid = errors.New("invalid ONNX file")

// invalid marks an error as ErrInvalid without changing its text.
func invalid(err error) error { return &invalidError{err} }

type invalidError struct{ error }

func (e *invalidError) Is(target error) bool { return target == ErrInvalid }
func (e *invalidError) Unwrap() error        { return e.error }

// A CheckError lists the problems of a model. A check ends when it has found maxProblems: a broken file may have one a node.
type CheckError struct {
	Problems []string
}

const maxProblems = 20

func (e *CheckError) Error() string {
	switch n := len(e.Problems); {
	case n == 1:
		return e.Problems[0]
	case e.full():
		return fmt.Sprintf("%d problems, and perhaps more:\n  %s", n, strings.Join(e.Problems, "\n  "))
	default:
		return fmt.Sprintf("%d problems:\n  %s", n, strings.Join(e.Problems, "\n  "))
	}
}

// Is makes a CheckError an ErrInvalid.
func (e *CheckError) Is(target error) bool { return target == ErrInvalid }

func (e *CheckError) add(format string, args ...any) {
	if !e.full() {
		e.Problems = append(e.Problems, fmt.Sprintf(format, args...))
	}
}

func (e *CheckError) full() bool { return len(e.Problems) >= maxProblems }

// orNil is the error, or nil when nothing was found.
func (e *CheckError) orNil() error {
	if len(e.Problems) == 0 {
		return nil
	}
	return e
}
