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

// A CheckError lists the problems of a model, in the order of the file.
type CheckError struct {
	Problems []string // at most maxProblems
	Total    int
}

// maxProblems bounds how many problems are kept: a broken file may have one a node.
const maxProblems = 20

func (e *CheckError) Error() string {
	if e.Total == 1 {
		return e.Problems[0]
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d problems:", e.Total)
	for _, p := range e.Problems {
		b.WriteString("\n  " + p)
	}
	if more := e.Total - len(e.Problems); more > 0 {
		fmt.Fprintf(&b, "\n  and %d more", more)
	}
	return b.String()
}

// Is makes a CheckError an ErrInvalid.
func (e *CheckError) Is(target error) bool { return target == ErrInvalid }

func (e *CheckError) add(format string, args ...any) {
	e.Total++
	if len(e.Problems) < maxProblems {
		e.Problems = append(e.Problems, fmt.Sprintf(format, args...))
	}
}

// orNil is the error, or nil when nothing was found.
func (e *CheckError) orNil() error {
	if e.Total == 0 {
		return nil
	}
	return e
}
