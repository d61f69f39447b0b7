package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/internal/files"
	"github.com/rlxc/rlxc/internal/inside"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// maxInput is the number of bytes that made-up inputs may take: a size with a digit too many should be an error and not a
// machine out of memory.
const maxInput = 1 << 30

// A maker makes inputs up, but for inputs with a default.
type maker struct {
	infos  []rlxc.ValueInfo
	limits map[string]int // rows of the smallest table that each input indexes
}

// newMaker prepares the inputs of an engine. The tables that they index are found in the model as rlxc sees it, so that
// every engine gets the same inputs; a model that rlxc does not understand has no known tables.
func newMaker(src *source, e engine) (*maker, error) {
	m := &maker{infos: e.Inputs()}
	if o, ok := e.(*own); ok {
		var err error
		m.limits, err = modelLimits(o.model)
		return m, err
	}
	model, err := src.open()
	switch {
	case errors.Is(err, rlxc.ErrUnsupportedOp):
		return m, nil
	case err != nil:
		return nil, err
	}
	defer model.Close()
	m.limits, err = modelLimits(model)
	return m, err
}

// zeros makes inputs of zeros.
func (m *maker) zeros(sizes map[string]int) (rlxc.Tensors, error) {
	return m.fill(sizes, func(rlxc.ValueInfo, *tensor.Tensor) {})
}

// random makes inputs that make sense: rows of a table where the model looks rows up, masks of ones that end in padding for
// other integers, numbers around 0. Equal sizes give equal inputs.
func (m *maker) random(sizes map[string]int) (rlxc.Tensors, error) {
	rng := rand.New(rand.NewPCG(1, 2))
	return m.fill(sizes, func(v rlxc.ValueInfo, t *tensor.Tensor) {
		limit, indexes := m.limits[v.Name]
		indexes = indexes && limit > 0 // a table without rows has no valid index, and the run fails
		switch d := t.DType(); {
		case d == tensor.String || d.IsComplex():
		case d.IsFloat():
			for i := range t.Len() {
				t.SetFloat64(i, rng.NormFloat64())
			}
		case indexes:
			for i := range t.Len() {
				t.SetInt64(i, rng.Int64N(int64(limit)))
			}
		default:
			mask(t, rng)
		}
	})
}

// mask writes rows of ones. In every row but the first, zeros follow after a random number of ones, as padding does.
func mask(t *tensor.Tensor, rng *rand.Rand) {
	row := t.Len()
	if t.Rank() > 1 {
		row = t.Len() / max(t.Shape()[0], 1)
	}
	for start := 0; start < t.Len(); start += row {
		ones := row
		if start > 0 {
			ones = 1 + rng.IntN(row)
		}
		for i := range ones {
			t.SetInt64(start+i, 1)
		}
	}
}

func (m *maker) fill(sizes map[string]int, write func(rlxc.ValueInfo, *tensor.Tensor)) (rlxc.Tensors, error) {
	out, total := rlxc.Tensors{}, 0
	for _, v := range m.infos {
		if v.Default {
			continue
		}
		if !v.DType.Valid() { // a sequence or an optional
			out[v.Name] = tensor.NewSequence()
			continue
		}
		shape, err := evalShape(v, sizes)
		if err != nil {
			return nil, err
		}
		n, err := shape.CheckElements(v.DType)
		if err == nil {
			if total += v.DType.Bytes(n); total > maxInput {
				err = fmt.Errorf("it is larger than %d bytes", maxInput)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("cannot generate input %q of shape %v: %w", v.Name, shape, err)
		}
		t := tensor.New(v.DType, shape...)
		write(v, t)
		out[v.Name] = t
	}
	return out, nil
}

// evalShape puts sizes to the symbols of an input's shape.
func evalShape(v rlxc.ValueInfo, sizes map[string]int) (tensor.Shape, error) {
	shape := tensor.Shape{}
	for _, text := range v.Shape {
		d, err := ir.ParseDim(text)
		if err != nil {
			d = ir.Sym(text) // any text is a name in ONNX
		}
		n, err := d.Eval(sizes)
		if err != nil {
			if name := symbolOf(text); name != "" {
				text = name
			}
			return nil, usagef("input %s has no size: add --dim %s=N", infoText(v), files.Plain(text))
		}
		shape = append(shape, n)
	}
	return shape, nil
}

func modelLimits(m *rlxc.Model) (map[string]int, error) {
	g, err := inside.Model(m)
	if err != nil {
		return nil, err
	}
	return indexLimits(g), nil
}

// indexLimits finds the inputs that index tables, through ops that pass indices on, and the size of the smallest such table.
func indexLimits(g *ir.Graph) map[string]int {
	limits := map[string]int{}
	note := func(rows ir.Dim, index *ir.Value) {
		for index != nil && index.Def != nil && passesOn[index.Def.Op.Kind()] {
			index = index.Def.Inputs[0]
		}
		n, known := rows.Const()
		if !known || !slices.Contains(g.Inputs, index) {
			return
		}
		if old, ok := limits[index.Name]; !ok || n < old {
			limits[index.Name] = n
		}
	}
	for _, n := range g.Nodes {
		switch op := n.Op.(type) {
		case ir.Gather:
			note(n.Inputs[0].Type.Shape[op.Axis], n.Inputs[1])
		case ir.Embedding:
			for i := ir.EmbeddingTable; i+1 < len(n.Inputs); i += 2 {
				note(n.Inputs[i].Type.Shape[0], n.Inputs[i+1])
			}
		}
	}
	return limits
}

// passesOn lists the ops whose results are elements of their first operand.
var passesOn = [ir.NumKinds]bool{
	ir.KindCast: true, ir.KindReshape: true, ir.KindTranspose: true, ir.KindSlice: true, ir.KindExpand: true, ir.KindCopy: true,
	ir.KindMaterialize: true,
}

// freeDims lists the symbols of the inputs' shapes in order of appearance. Inputs with a default have sizes without them.
func freeDims(infos []rlxc.ValueInfo) []string {
	var free []string
	for _, v := range infos {
		if v.Default {
			continue
		}
		for _, text := range v.Shape {
			if name := symbolOf(text); name != "" && !slices.Contains(free, name) {
				free = append(free, name)
			}
		}
	}
	return free
}

// symbolOf returns the name of a size that a shape leaves free, which is quoted there unless it is an identifier; "" for a
// number, and for an expression over symbols that have separate axes.
func symbolOf(text string) string {
	d, err := ir.ParseDim(text)
	if err != nil {
		return text // any text is a name in ONNX
	}
	name, _ := d.Symbol()
	return name
}
