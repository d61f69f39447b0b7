package onnx

import (
	"io/fs"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

func TestDTypesAreONNXs(t *testing.T) {
	for code, name := range onnxpb.TensorProto_DataType_name {
		d, err := DType(code)
		if code == 0 || strings.HasPrefix(name, "FLOAT6") {
			require.Error(t, err)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, strings.ToLower(name), d.ONNX())
		require.NotEqual(t, noField, typedFields[d], name)
	}
	_, err := DType(27)
	require.ErrorContains(t, err, "FLOAT6E2M3 is not supported")
	_, err = DType(99)
	require.ErrorContains(t, err, "no element type 99")
}

// typed fills the typed field of a type with the elements of raw bytes, in a separate spelling.
func typed(d tensor.DType, n int, raw *tensor.Tensor) *onnxpb.TensorProto {
	tp := &onnxpb.TensorProto{Name: "typed", DataType: int32(d), Dims: []int64{int64(n)}}
	switch d {
	case tensor.F32, tensor.C64:
		f, _ := tensor.FromBytes(tensor.F32, tensor.Shape{len(raw.Bytes()) / 4}, raw.Bytes())
		tp.FloatData = tensor.Of[float32](f)
	case tensor.F64, tensor.C128:
		f, _ := tensor.FromBytes(tensor.F64, tensor.Shape{len(raw.Bytes()) / 8}, raw.Bytes())
		tp.DoubleData = tensor.Of[float64](f)
	case tensor.I64:
		tp.Int64Data = raw.Int64s()
	case tensor.U64, tensor.U32:
		for _, v := range raw.Int64s() {
			tp.Uint64Data = append(tp.Uint64Data, uint64(v))
		}
	case tensor.I32, tensor.I16, tensor.I8, tensor.U16, tensor.U8, tensor.Bool:
		for _, v := range raw.Int64s() {
			tp.Int32Data = append(tp.Int32Data, int32(v))
		}
	case tensor.F16, tensor.BF16:
		for _, v := range tensor.Of[uint16](raw) {
			tp.Int32Data = append(tp.Int32Data, int32(v))
		}
	default: // of 8 bits or less, packed
		for _, v := range raw.Bytes() {
			tp.Int32Data = append(tp.Int32Data, int32(v))
		}
	}
	return tp
}

func TestTypedFieldsAndRawDataAgree(t *testing.T) {
	const n = 7
	for d := tensor.F32; d < tensor.NumDTypes; d++ {
		if d == tensor.String {
			continue
		}
		raw := tensor.New(d, n)
		for i := range raw.Bytes() {
			raw.Bytes()[i] = byte(37*i + 11)
			if d == tensor.Bool {
				raw.Bytes()[i] &= 1
			}
		}
		fromRaw, err := Tensor(FromTensor("raw", raw))
		require.NoError(t, err, d)
		fromTyped, err := Tensor(typed(d, n, raw))
		require.NoError(t, err, d)
		require.Equal(t, raw.Bytes(), fromRaw.Bytes(), d)
		require.Equal(t, raw.Bytes(), fromTyped.Bytes(), d)
		require.Equal(t, raw.String(), fromTyped.String())
	}
}

func TestStringsScalarsAndNothing(t *testing.T) {
	s, err := Tensor(FromTensor("s", tensor.FromStrings([]string{"a", "", "größe", "d"}, 2, 2)))
	require.NoError(t, err)
	require.Equal(t, []string{"a", "", "größe", "d"}, s.Strings())
	require.Equal(t, tensor.Shape{2, 2}, s.Shape())
	x, err := Tensor(&onnxpb.TensorProto{DataType: int32(tensor.I64), Int64Data: []int64{7}})
	require.NoError(t, err)
	require.Equal(t, "i64[]", x.String())
	e, err := Tensor(&onnxpb.TensorProto{DataType: int32(tensor.F32), Dims: []int64{3, 0}})
	require.NoError(t, err)
	require.Zero(t, e.Len())
	b, err := Tensor(&onnxpb.TensorProto{DataType: int32(tensor.Bool), Dims: []int64{3}, RawData: []byte{0, 2, 255}})
	require.NoError(t, err)
	require.Equal(t, []byte{0, 1, 1}, b.Bytes())
	b, err = Tensor(&onnxpb.TensorProto{DataType: int32(tensor.Bool), Dims: []int64{3}, Int32Data: []int32{0, 2, 1 << 30}})
	require.NoError(t, err)
	require.Equal(t, []byte{0, 1, 1}, b.Bytes())
	signed, err := Tensor(&onnxpb.TensorProto{DataType: int32(tensor.I8), Dims: []int64{2}, Int32Data: []int32{-128, 127}})
	require.NoError(t, err)
	require.Equal(t, []int64{-128, 127}, signed.Int64s())
}

// TestTensorsThatSayTooMuch: what onnxruntime passes over is no error.
func TestTensorsThatSayTooMuch(t *testing.T) {
	raw := tensor.FromSlice([]float32{7}).Bytes()
	for name, tp := range map[string]*onnxpb.TensorProto{
		"raw_data beside float_data":  {RawData: raw, FloatData: []float32{8, 9}},
		"a segment over all elements": {RawData: raw, Segment: &onnxpb.TensorProto_Segment{End: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			tp.DataType, tp.Dims = int32(tensor.F32), []int64{1}
			x, err := Tensor(tp)
			require.NoError(t, err)
			require.Equal(t, []float64{7}, x.Float64s())
		})
	}
}

func TestTensorsThatContradictThemselves(t *testing.T) {
	f32 := int32(tensor.F32)
	for want, tp := range map[string]*onnxpb.TensorProto{
		"no element type 0":                          {Dims: []int64{1}},
		"no element type 77":                         {DataType: 77},
		"has no data":                                {DataType: f32, Dims: []int64{2}},
		"needs 8 bytes, raw_data has 7":              {DataType: f32, Dims: []int64{2}, RawData: make([]byte, 7)},
		"needs 2 entries in float_data, there are 3": {DataType: f32, Dims: []int64{2}, FloatData: make([]float32, 3)},
		"needs 2 entries in float_data, there are 0": {DataType: f32, Dims: []int64{2}, Int32Data: make([]int32, 2)},
		"needs 0 entries in float_data, there are 0": {DataType: f32, Dims: []int64{0}, Int32Data: make([]int32, 2)},
		"needs 4 entries in float_data, there are 2": {DataType: int32(tensor.C64), Dims: []int64{2}, FloatData: make([]float32, 2)},
		"needs 2 entries in int32_data, there are 3": {DataType: int32(tensor.I4), Dims: []int64{3}, Int32Data: make([]int32, 3)},
		"given in two fields": {DataType: f32, Dims: []int64{1}, FloatData: make([]float32, 1),
			Int32Data: make([]int32, 1)},
		"negative size -1":                    {DataType: f32, Dims: []int64{-1}},
		"larger than memory":                  {DataType: f32, Dims: []int64{math.MaxInt64, 2}, RawData: make([]byte, 4)},
		"shape [1099511627776,1099511627776]": {DataType: f32, Dims: []int64{1 << 40, 1 << 40}, RawData: make([]byte, 4)},
		"strings are given in raw_data":       {DataType: int32(tensor.String), Dims: []int64{1}, RawData: make([]byte, 4)},
		"stored in segments": {DataType: f32, Dims: []int64{1}, RawData: make([]byte, 4),
			Segment: &onnxpb.TensorProto_Segment{}},
		"was not loaded": {DataType: f32, Dims: []int64{1}, DataLocation: onnxpb.TensorProto_EXTERNAL},
		"entry 1 of int32_data is 256, which uint8":    {DataType: int32(tensor.U8), Dims: []int64{2}, Int32Data: []int32{1, 256}},
		"entry 0 of int32_data is -32769, which int16": {DataType: int32(tensor.I16), Dims: []int64{1}, Int32Data: []int32{-32769}},
		"entry 0 of uint64_data is 4294967296":         {DataType: int32(tensor.U32), Dims: []int64{1}, Uint64Data: []uint64{1 << 32}},
	} {
		tp.Name = "w\x1b"
		_, err := Tensor(tp)
		require.ErrorIs(t, err, ErrInvalid, want)
		require.ErrorContains(t, err, `tensor "w\x1b": `)
		require.ErrorContains(t, err, want)
	}
}

func sparse(dims []int64, values []float32, indices *tensor.Tensor) *onnxpb.SparseTensorProto {
	return &onnxpb.SparseTensorProto{
		Dims: dims, Values: FromTensor("s", tensor.FromSlice(values)), Indices: FromTensor("", indices),
	}
}

func TestSparse(t *testing.T) {
	want := []float64{0, 5, 0, 0, 0, 6}
	for _, indices := range []*tensor.Tensor{
		tensor.FromSlice([]int64{1, 5}),
		tensor.FromSlice([]int64{0, 1, 1, 2}, 2, 2),
	} {
		d, err := Dense(sparse([]int64{2, 3}, []float32{5, 6}, indices), 24)
		require.NoError(t, err)
		require.Equal(t, want, d.Float64s())
		require.Equal(t, tensor.Shape{2, 3}, d.Shape())
	}
	linear := func(at ...int64) *tensor.Tensor { return tensor.FromSlice(at) }
	for want, s := range map[string]*onnxpb.SparseTensorProto{
		"needs 24 bytes, the limit is 23": sparse([]int64{2, 3}, []float32{5}, linear(1)),
		"larger than memory":              sparse([]int64{1 << 40, 1 << 40}, []float32{5}, linear(1)),
		"index 1 is not above":            sparse([]int64{2, 3}, []float32{5, 6}, linear(1, 1)),
		"index 0 is outside":              sparse([]int64{2, 3}, []float32{5}, linear(6)),
		"index 1 is outside":              sparse([]int64{2, 3}, []float32{5, 6}, tensor.FromSlice([]int64{0, 1, 0, 3}, 2, 2)),
		"indices have shape [3]":          sparse([]int64{2, 3}, []float32{5, 6}, linear(1, 2, 3)),
		"indices are int32":               sparse([]int64{2}, []float32{5}, tensor.FromSlice([]int32{1})),
		"lacks values":                    {},
		"lacks values or":                 {Values: FromTensor("s", linear(1))},
		"values: ":                        {Values: &onnxpb.TensorProto{DataType: 99}, Indices: FromTensor("", linear(1))},
		"indices: ":                       {Values: FromTensor("s", linear(1)), Indices: &onnxpb.TensorProto{DataType: 99}},
		"values have shape [1,1]": {Values: FromTensor("s", tensor.FromSlice([]int64{1}, 1, 1)), Indices: FromTensor("",
			linear(1))},
		"of string are not supported": {Dims: []int64{2}, Indices: FromTensor("", linear(1)),
			Values: FromTensor("s", tensor.FromStrings([]string{"a"}))},
	} {
		_, err := Dense(s, 23)
		require.ErrorContains(t, err, want)
	}
}

func TestValues(t *testing.T) {
	path := filepath.Join(t.TempDir(), "input_0.pb")
	one := FromTensor("one", tensor.FromSlice([]float32{1, 2}))
	floats := &onnxpb.TypeProto{Value: &onnxpb.TypeProto_TensorType{TensorType: &onnxpb.TypeProto_Tensor{ElemType: 1}}}
	list := &onnxpb.TypeProto{Value: &onnxpb.TypeProto_SequenceType{SequenceType: &onnxpb.TypeProto_Sequence{ElemType: floats}}}
	maybe := &onnxpb.TypeProto{Value: &onnxpb.TypeProto_OptionalType{OptionalType: &onnxpb.TypeProto_Optional{ElemType: list}}}

	x, err := ReadTensor(write(t, path, one))
	require.NoError(t, err)
	require.Equal(t, []float64{1, 2}, x.Float64s())

	seq := &onnxpb.SequenceProto{ElemType: int32(onnxpb.SequenceProto_TENSOR), TensorValues: []*onnxpb.TensorProto{one, one}}
	v, err := ReadValue(write(t, path, seq), list)
	require.NoError(t, err)
	require.Equal(t, SequenceKind, v.Kind)
	require.Len(t, v.Elements, 2)
	require.Equal(t, []float64{1, 2}, v.Elements[1].Tensor.Float64s())

	v, err = ReadValue(write(t, path, &onnxpb.OptionalProto{ElemType: int32(onnxpb.OptionalProto_SEQUENCE), SequenceValue: seq}), maybe)
	require.NoError(t, err)
	require.Equal(t, OptionalKind, v.Kind)
	require.Len(t, v.Elements, 1)
	require.Len(t, v.Elements[0].Elements, 2)

	v, err = ReadValue(write(t, path, &onnxpb.OptionalProto{Name: "none"}), maybe)
	require.NoError(t, err)
	require.Empty(t, v.Elements)

	_, err = ReadValue(write(t, path, &onnxpb.SequenceProto{ElemType: int32(onnxpb.SequenceProto_MAP)}), list)
	require.ErrorIs(t, err, ErrInvalid)
	_, err = ParseValue([]byte{0xff}, list)
	require.ErrorContains(t, err, "not an ONNX tensor: malformed")
	_, err = ParseValue(nil, &onnxpb.TypeProto{Value: &onnxpb.TypeProto_MapType{}})
	require.ErrorContains(t, err, "only tensors, sequences and optionals")
}

// TestNestedValues: values within values, what package tensor has of them, and which of them is wrong.
func TestNestedValues(t *testing.T) {
	of := func(d onnxpb.SequenceProto_DataType) *onnxpb.SequenceProto {
		return &onnxpb.SequenceProto{ElemType: int32(d), Name: "s"}
	}
	maybe := func(d onnxpb.OptionalProto_DataType) *onnxpb.OptionalProto {
		return &onnxpb.OptionalProto{ElemType: int32(d), Name: "o"}
	}
	one, wrong := FromTensor("one", tensor.FromSlice([]float32{1, 2})), &onnxpb.TensorProto{DataType: 99}
	some := maybe(onnxpb.OptionalProto_TENSOR)
	some.TensorValue = one
	twice := maybe(onnxpb.OptionalProto_OPTIONAL)
	twice.OptionalValue = some
	flat, lists, options := of(onnxpb.SequenceProto_TENSOR), of(onnxpb.SequenceProto_SEQUENCE), of(onnxpb.SequenceProto_OPTIONAL)
	flat.TensorValues, lists.SequenceValues = []*onnxpb.TensorProto{one}, []*onnxpb.SequenceProto{of(0), flat}
	options.OptionalValues = []*onnxpb.OptionalProto{twice, maybe(0)}
	v, err := sequenceValue(lists)
	require.NoError(t, err)
	require.Empty(t, v.Elements[0].Elements)
	require.Equal(t, []float64{1, 2}, v.Whole().Elems()[1].Elems()[0].Float64s())
	v, err = sequenceValue(options)
	require.NoError(t, err)
	require.Equal(t, OptionalKind, v.Elements[1].Kind)
	require.Empty(t, v.Elements[1].Elements)
	require.Equal(t, []float64{1, 2}, v.Elements[0].Elements[0].Elements[0].Tensor.Float64s())
	flat.TensorValues, some.TensorValue = []*onnxpb.TensorProto{one, wrong}, wrong
	for why, read := range map[string]func() (*Value, error){
		"element 1: element 1: ":            func() (*Value, error) { return sequenceValue(lists) },
		"element 0: element 0: element":     func() (*Value, error) { return sequenceValue(options) },
		`sequence "s": elements of type 99`: func() (*Value, error) { return sequenceValue(of(99)) },
		`optional "o": a value of type 99`:  func() (*Value, error) { return optionalValue(maybe(99)) },
	} {
		_, err := read()
		require.ErrorIs(t, err, ErrInvalid, why)
		require.ErrorContains(t, err, why)
	}
	path := filepath.Join(t.TempDir(), "input_0.pb")
	_, err = ReadTensor(path)
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = ReadTensor(write(t, path, wrong))
	require.ErrorContains(t, err, path+": ")
}

// TestSizeNames: a size has its own name, unless it is none, and a long one is cut but stays another than others.
func TestSizeNames(t *testing.T) {
	name := func(own, value string) string {
		return SizeName(&onnxpb.TensorShapeProto_Dimension{Value: &onnxpb.TensorShapeProto_Dimension_DimParam{DimParam: own}}, value, 2)
	}
	for own, want := range map[string]string{"batch": "batch", "7": "7", "é": "é", "": "x.2", "?": "x.2", "-1": "x.2", "None": "x.2",
		"-2": "-2"} {
		require.Equal(t, want, name(own, "x"), own)
	}
	long := strings.Repeat("a", 99) + "é"
	require.Equal(t, long[:99], strings.Split(name(long, "x"), "…")[0])
	require.NotEqual(t, name(long+"b", "x"), name(long+"c", "x"))
	require.Equal(t, long[:99], strings.Split(name("", long), "…")[0])
	require.Equal(t, strings.Repeat("b", 100), name(strings.Repeat("b", 100), "x"))
}

// TestBoundsOfIntegers: the typed fields hold what their type does, and nothing beyond.
func TestBoundsOfIntegers(t *testing.T) {
	for d, bounds := range map[tensor.DType][2]int64{tensor.I8: {-128, 127}, tensor.U8: {0, 255}, tensor.I16: {-1 << 15, 1<<15 - 1},
		tensor.U16: {0, 1<<16 - 1}, tensor.I32: {-1 << 31, 1<<31 - 1}} {
		for _, v := range []int64{bounds[0] - 1, bounds[0], bounds[1], bounds[1] + 1} {
			if v != int64(int32(v)) {
				continue
			}
			x, err := Tensor(&onnxpb.TensorProto{DataType: int32(d), Dims: []int64{1}, Int32Data: []int32{int32(v)}})
			if v < bounds[0] || v > bounds[1] {
				require.ErrorContains(t, err, "cannot hold", "%v %d", d, v)
				continue
			}
			require.NoError(t, err)
			require.Equal(t, v, x.Int64(0))
		}
	}
	for v, holds := range map[uint64]bool{1<<32 - 1: true, 1 << 32: false} {
		_, err := Tensor(&onnxpb.TensorProto{DataType: int32(tensor.U32), Dims: []int64{1}, Uint64Data: []uint64{v}})
		require.Equal(t, holds, err == nil)
	}
}
