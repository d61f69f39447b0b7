package planner

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// File is a plan with its problem, as reports write it and `plan --check` reads it.
type File struct {
	Problem *Problem `json:"problem"`
	Plan    *Plan    `json:"plan"`
}

// WriteJSON writes the file, indented.
func (f *File) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(f)
}

// ReadFile reads what WriteJSON wrote. It does not Check the plan.
func ReadFile(r io.Reader) (*File, error) {
	f := &File{}
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	if err := d.Decode(f); err != nil {
		return nil, fmt.Errorf("not a plan file: %w", err)
	}
	if f.Problem == nil || f.Plan == nil {
		return nil, errors.New("not a plan file: it needs a problem and a plan")
	}
	return f, nil
}

// MarshalText writes the word of the boundary kind.
func (b Boundary) MarshalText() ([]byte, error) {
	if int(b) >= len(boundaryNames) {
		return nil, fmt.Errorf("unknown boundary kind %d", b)
	}
	return []byte(b.String()), nil
}

// UnmarshalText reads the word of a boundary kind.
func (b *Boundary) UnmarshalText(text []byte) error {
	i := slices.Index(boundaryNames[:], string(text))
	if i < 0 {
		return fmt.Errorf("unknown boundary kind %q: use one of %v", text, boundaryNames)
	}
	*b = Boundary(i)
	return nil
}
