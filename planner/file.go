package planner

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// File is a plan with its problem. Reports write it, and `plan --check` reads it.
type File struct {
	Problem  *Problem     `json:"problem"`
	Plan     *Plan        `json:"plan"`
	Bounds   []Bound      `json:"bounds,omitempty"`   // the proof of the plan's lower bound
	Memories *TwoMemories `json:"memories,omitempty"` // plan for a fast and a slow memory; nil for one memory
	Stages   []*File      `json:"stages,omitempty"`   // plans of the other stages of a split program, if they are planned
}

// WriteJSON writes the file, indented. It fails with the error of w.
func (f *File) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(f)
}

// Check verifies the plan, the proof of its bound if there is one, and those of the other stages. It fails as the function Check does, or
// with the fault of the proof.
func (f *File) Check() error {
	tenants, err := check(f.Problem, f.Plan)
	if err == nil {
		err = checkBounds(f.Problem, f.Plan, f.Bounds, tenants)
	}
	if err == nil && f.Memories != nil {
		err = f.Memories.check(f.Problem, f.Plan)
	}
	if err != nil {
		return err
	}
	for i, stage := range f.Stages {
		if err := stage.Check(); err != nil {
			return fmt.Errorf("stage %d: %w", i+1, err)
		}
	}
	return nil
}

// ReadFile reads what WriteJSON wrote, alone or among other fields, and validates the problem. It does not Check the plan. Errors name
// the line where possible.
func ReadFile(r io.Reader) (*File, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	text := jsonText{data, 0}
	f, err := text.plan()
	if err != nil {
		return nil, err
	}
	fields, err := text.fields()
	if list, ok := fields["stages"]; ok && err == nil {
		f.Stages, err = list.stages()
	}
	return f, err
}

// ReadProblem reads a problem in JSON, alone or in the field "problem" of what WriteJSON wrote. Errors name the line where possible.
func ReadProblem(r io.Reader) (*Problem, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	text := jsonText{data, 0}
	fields, err := text.fields()
	if err != nil {
		return nil, fmt.Errorf("not a problem: %w", err)
	}
	if inner, ok := fields["problem"]; ok {
		text = inner
	}
	p := &Problem{}
	if err := text.decode(p); err != nil {
		return nil, fmt.Errorf("not a problem: %w", err)
	}
	return p, p.Validate()
}

// plan reads a plan with its problem.
func (t jsonText) plan() (*File, error) {
	fields, err := t.fields()
	if err != nil {
		return nil, fmt.Errorf("not a plan file: %w", err)
	}
	f := &File{}
	problem, hasProblem := fields["problem"]
	if plan, hasPlan := fields["plan"]; hasPlan && hasProblem {
		if err := errors.Join(problem.decode(&f.Problem), plan.decode(&f.Plan)); err != nil {
			return nil, fmt.Errorf("not a plan file: %w", err)
		}
	}
	for name, to := range map[string]any{"bounds": &f.Bounds, "memories": &f.Memories} {
		if text, ok := fields[name]; ok {
			if err := text.decode(to); err != nil {
				return nil, fmt.Errorf("not a plan file: %w", err)
			}
		}
	}
	if f.Problem == nil || f.Plan == nil {
		return nil, errors.New("not a plan file: it needs a problem and a plan")
	}
	err = cmp.Or(f.Problem.Validate(), f.Plan.Options.validate())
	if err == nil {
		_, err = newLayout(f.Problem, &f.Plan.Options)
	}
	if wrong := (*bufferError)(nil); errors.As(err, &wrong) {
		return nil, fmt.Errorf("line %d: %w", problem.lineOfBuffer(wrong.at), err)
	}
	return f, err
}

// stages reads a list of stages. It leaves out those that say why they have no plan.
func (t jsonText) stages() ([]*File, error) {
	list, err := t.elements()
	if err != nil {
		return nil, fmt.Errorf("not a plan file: %w", err)
	}
	var files []*File
	for i, stage := range list {
		fields, err := stage.fields()
		if _, unknown := fields["unknown"]; unknown && err == nil {
			continue
		}
		f, err := stage.plan()
		if err != nil {
			return nil, fmt.Errorf("stage %d: %w", i+1, err)
		}
		files = append(files, f)
	}
	return files, nil
}

// A jsonText is a part of a file, so that errors can name its lines.
type jsonText struct {
	file []byte
	at   int64
}

// line returns the line of the file, from 1 on, in which byte at of the part is.
func (t jsonText) line(at int64) int {
	return 1 + bytes.Count(t.file[:min(t.at+at, int64(len(t.file)))], []byte("\n"))
}

func (t jsonText) decoder() *json.Decoder { return json.NewDecoder(bytes.NewReader(t.file[t.at:])) }

// decode reads the first value of the part.
func (t jsonText) decode(to any) error {
	d := t.decoder()
	d.DisallowUnknownFields()
	err := d.Decode(to)
	if err == nil {
		return nil
	}
	at := d.InputOffset()
	if kind := (*json.UnmarshalTypeError)(nil); errors.As(err, &kind) {
		at = kind.Offset
	}
	return fmt.Errorf("line %d: %w", t.line(at), err)
}

// fields finds the fields of the object that the part is.
func (t jsonText) fields() (map[string]jsonText, error) {
	d := t.decoder()
	fields := map[string]jsonText{}
	err := wantToken(d, json.Delim('{'))
	for err == nil && d.More() {
		var name json.Token
		var value json.RawMessage
		if name, err = d.Token(); err == nil {
			err = d.Decode(&value)
		}
		if key, ok := name.(string); ok && err == nil {
			fields[key] = jsonText{t.file, t.at + d.InputOffset() - int64(len(value))}
		}
	}
	if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
		return nil, fmt.Errorf("line %d: %w", t.line(syntax.Offset), err)
	}
	if err != nil {
		return nil, fmt.Errorf("line %d: %w", t.line(d.InputOffset()), err)
	}
	return fields, nil
}

// elements finds the elements of the list that the part is.
func (t jsonText) elements() (list []jsonText, err error) {
	d := t.decoder()
	for err = wantToken(d, json.Delim('[')); err == nil && d.More(); {
		var value json.RawMessage
		if err = d.Decode(&value); err == nil {
			list = append(list, jsonText{t.file, t.at + d.InputOffset() - int64(len(value))})
		}
	}
	if err != nil {
		return nil, fmt.Errorf("line %d: %w", t.line(d.InputOffset()), err)
	}
	return list, nil
}

// lineOfBuffer is where element i of the field buffers begins, in a part that was decoded.
func (t jsonText) lineOfBuffer(i int) int {
	fields, err := t.fields()
	if err != nil {
		return t.line(0)
	}
	list, err := fields["buffers"].elements()
	if err != nil || i >= len(list) {
		return t.line(0)
	}
	return list[i].line(0)
}

func wantToken(d *json.Decoder, want json.Token) error {
	got, err := d.Token()
	if err == nil && got != want {
		err = fmt.Errorf("%v instead of %v", got, want)
	}
	return err
}

// MarshalText writes the word of the boundary kind. It fails if the kind is unknown.
func (b Boundary) MarshalText() ([]byte, error) {
	if int(b) >= len(boundaryNames) {
		return nil, fmt.Errorf("unknown boundary kind %d", b)
	}
	return []byte(b.String()), nil
}

// UnmarshalText reads the word of a boundary kind. It fails if the word is unknown.
func (b *Boundary) UnmarshalText(text []byte) error {
	i := slices.Index(boundaryNames[:], string(text))
	if i < 0 {
		return fmt.Errorf("unknown boundary kind %q: use one of %s", text, strings.Join(boundaryNames[:], ", "))
	}
	*b = Boundary(i)
	return nil
}
