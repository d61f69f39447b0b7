package tensor

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
)

// jsonTensor is the form of a tensor in JSON: {"dtype": "f32", "shape": [2, 2], "data": [[1, 2], [3, 4]]}. Numbers that JSON
// lacks are the strings "NaN", "Infinity" and "-Infinity"; a scalar's data is no list; complex types have no form.
type jsonTensor struct {
	DType DType           `json:"dtype"`
	Shape Shape           `json:"shape"`
	Data  json.RawMessage `json:"data"`
}

// MarshalJSON writes the dtype, the shape, and the elements in nested lists.
func (t *Tensor) MarshalJSON() ([]byte, error) {
	if t.dtype.IsComplex() {
		return nil, fmt.Errorf("%s cannot be written as JSON", t.dtype)
	}
	data := t.appendJSON(nil, 0, 0, t.Len())
	return json.Marshal(jsonTensor{t.dtype, append(Shape{}, t.shape...), data})
}

// appendJSON writes the n elements from first on, which are what is left of the tensor inside the axes before axis.
func (t *Tensor) appendJSON(b []byte, axis, first, n int) []byte {
	if axis == len(t.shape) {
		return t.appendElement(b, first)
	}
	b = append(b, '[')
	size := t.shape[axis]
	for i := range size {
		if i > 0 {
			b = append(b, ',')
		}
		b = t.appendJSON(b, axis+1, first+i*(n/size), n/size)
	}
	return append(b, ']')
}

func (t *Tensor) appendElement(b []byte, i int) []byte {
	switch {
	case t.dtype == String:
		text, _ := json.Marshal(t.strs[i]) // strings always marshal
		return append(b, text...)
	case t.dtype == Bool:
		return strconv.AppendBool(b, t.data[i] != 0)
	case t.dtype == U64:
		return strconv.AppendUint(b, Of[uint64](t)[i], 10)
	case !t.dtype.IsFloat():
		return strconv.AppendInt(b, t.Int64(i), 10)
	}
	switch v := t.Float64(i); {
	case v != v:
		return append(b, `"NaN"`...)
	case math.IsInf(v, 1):
		return append(b, `"Infinity"`...)
	case math.IsInf(v, -1):
		return append(b, `"-Infinity"`...)
	case t.dtype == F64:
		return strconv.AppendFloat(b, v, 'g', -1, 64)
	default:
		return strconv.AppendFloat(b, v, 'g', -1, 32)
	}
}

// UnmarshalJSON reads what MarshalJSON writes.
func (t *Tensor) UnmarshalJSON(b []byte) error {
	read, err := ParseJSON(b, Invalid)
	if err == nil {
		*t = *read
	}
	return err
}

// ParseJSON reads the form of MarshalJSON, or bare nested lists. Those take the type d; with d Invalid they are i64, f32 if
// there is a number with a fraction or exponent, bool, or str. A number that the type cannot hold is an error.
func ParseJSON(b []byte, d DType) (*Tensor, error) {
	b = bytes.TrimSpace(b)
	if len(b) == 0 || b[0] != '{' {
		return parseLists(b, d)
	}
	var form jsonTensor
	decoder := json.NewDecoder(bytes.NewReader(b))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&form); err != nil {
		return nil, fmt.Errorf("not a tensor in JSON: %w", err)
	}
	if form.DType == Invalid {
		form.DType = d
	}
	t, err := parseLists(form.Data, form.DType)
	if err != nil {
		return nil, err
	}
	if form.Shape != nil && !t.shape.Equal(form.Shape) {
		// Lists cannot say how large the axes behind an axis of size 0 are.
		if n, err := form.Shape.CheckElements(form.DType); err != nil || n != 0 || t.Len() != 0 {
			return nil, fmt.Errorf("shape %v is given, the data has %v", form.Shape, t.shape)
		}
		t.shape = form.Shape
	}
	return t, nil
}

func parseLists(b []byte, d DType) (*Tensor, error) {
	decoder := json.NewDecoder(bytes.NewReader(b))
	decoder.UseNumber() // float64 would lose bits of int64
	var lists any
	if err := decoder.Decode(&lists); err != nil {
		return nil, fmt.Errorf("not a tensor in JSON: %w", err)
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil, errors.New("not a tensor in JSON: there is more behind it")
	}
	var flat []any
	shape, err := flatten(lists, &flat)
	if err != nil {
		return nil, err
	}
	if d == Invalid {
		d = jsonType(flat)
	}
	if d.IsComplex() {
		return nil, fmt.Errorf("%s cannot be read from JSON", d)
	}
	t := New(d, shape...)
	for i, v := range flat {
		if err := t.setJSON(i, v); err != nil {
			return nil, fmt.Errorf("element %d: %w", i, err)
		}
	}
	return t, nil
}

// flatten appends the elements of nested lists, which must form a box, and returns its shape.
func flatten(v any, flat *[]any) (Shape, error) {
	list, ok := v.([]any)
	if !ok {
		*flat = append(*flat, v)
		return Shape{}, nil
	}
	var inner Shape
	for i, item := range list {
		shape, err := flatten(item, flat)
		if err != nil {
			return nil, err
		}
		if i > 0 && !shape.Equal(inner) {
			return nil, fmt.Errorf("ragged lists: beside a list of shape %v stands one of %v", inner, shape)
		}
		inner = shape
	}
	return append(Shape{len(list)}, inner...), nil
}

// jsonType is the type of elements that come without one.
func jsonType(flat []any) DType {
	d := I64
	for _, v := range flat {
		switch v := v.(type) {
		case bool:
			return Bool
		case string:
			if _, ok := jsonSpecial[v]; !ok {
				return String
			}
			d = F32
		case json.Number:
			if _, err := v.Int64(); err != nil {
				d = F32
			}
		}
	}
	return d
}

var jsonSpecial = map[string]float64{"NaN": math.NaN(), "Infinity": math.Inf(1), "-Infinity": math.Inf(-1)}

func (t *Tensor) setJSON(i int, v any) error {
	wrong := fmt.Errorf("%v is no value of type %s", v, t.dtype)
	switch v := v.(type) {
	case string:
		if special, ok := jsonSpecial[v]; ok && t.dtype.IsFloat() {
			t.SetFloat64(i, special)
			return nil
		}
		if t.dtype != String {
			return wrong
		}
		t.strs[i] = v
		return nil
	case bool:
		if t.dtype != Bool {
			return wrong
		}
		t.data[i] = 0
		if v {
			t.data[i] = 1
		}
		return nil
	case json.Number:
		return t.setNumber(i, v, wrong)
	}
	return wrong
}

func (t *Tensor) setNumber(i int, v json.Number, wrong error) error {
	switch {
	case t.dtype == U64:
		n, err := strconv.ParseUint(v.String(), 10, 64)
		if err != nil {
			return wrong
		}
		Of[uint64](t)[i] = n
	case t.dtype.IsInt() || t.dtype == Bool:
		n, err := v.Int64()
		if err != nil {
			return wrong
		}
		if t.SetInt64(i, n); t.Int64(i) != n {
			return wrong
		}
	case t.dtype.IsFloat():
		f, err := v.Float64()
		if err != nil {
			return wrong
		}
		if t.SetFloat64(i, f); math.IsInf(t.Float64(i), 0) {
			return wrong
		}
	default:
		return wrong
	}
	return nil
}
