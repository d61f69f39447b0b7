package ops

import (
	"fmt"

	"github.com/rlxc/rlxc/internal/files"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// A reader reads the parameters of an operator that keeps them as the model has them. What is wrong with one it reports by
// panic(attrError), which prepare recovers.
type reader struct {
	attrs   ir.Attrs
	version int
	read    map[string]bool
}

type attrError struct{ err error }

func (r *reader) failf(format string, args ...any) { panic(attrError{fmt.Errorf(format, args...)}) }

// prepare reads the parameters of a model of rows. One that is not read is an error: nothing is ignored in silence.
func prepare(attrs ir.Attrs, version int, read func(*reader) *rowModel) (m *rowModel, err error) {
	r := &reader{attrs, version, map[string]bool{}}
	defer func() {
		switch x := recover().(type) {
		case nil:
		case attrError:
			err = x.err
		default:
			panic(x)
		}
	}()
	m = read(r)
	for _, a := range attrs {
		if !r.read[a.Name] {
			return nil, fmt.Errorf("attribute %s is not supported in opset %d", files.Plain(a.Name), version)
		}
	}
	return m, nil
}

func attr[T any](r *reader, name string) (v T, ok bool) {
	r.read[name] = true
	x, ok := r.attrs.Get(name)
	if !ok {
		return v, false
	}
	if v, ok = x.(T); !ok {
		r.failf("attribute %s is of type %T, not %T", name, x, v)
	}
	return v, true
}

func attrOr[T any](r *reader, name string, def T) T {
	if v, ok := attr[T](r, name); ok {
		return v
	}
	return def
}

func (r *reader) ignore(names ...string) {
	for _, n := range names {
		r.read[n] = true
	}
}

func (r *reader) int(name string, def int) int { return int(attrOr(r, name, int64(def))) }
func (r *reader) text(name, def string) string { return attrOr(r, name, def) }
func (r *reader) texts(name string) []string   { return attrOr[[]string](r, name, nil) }
func (r *reader) tensor(name string) *tensor.Tensor {
	t, ok := attr[*tensor.Tensor](r, name)
	if !ok {
		r.failf("it lacks %s", name)
	}
	return t.Aligned()
}
func (r *reader) has(name string) bool { _, ok := r.attrs.Get(name); return ok }

func (r *reader) int64s(name string) []int64 { return attrOr[[]int64](r, name, nil) }

func (r *reader) ints(name string) []int {
	list := r.int64s(name)
	out := make([]int, len(list))
	for i, x := range list {
		out[i] = int(x)
	}
	return out
}

// numbers reads an attribute of floats.
func (r *reader) numbers(name string) []float64 {
	list := attrOr[[]float32](r, name, nil)
	out := make([]float64, len(list))
	for i, x := range list {
		out[i] = float64(x)
	}
	return out
}
