package tensor

import (
	"fmt"
	"io"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/x448/float16"
)

func TestEveryDTypeHasARow(t *testing.T) {
	for d := Invalid; d < NumDTypes; d++ {
		require.NotEmpty(t, dtypes[d].name, "dtype %d", d)
		if d != Invalid {
			back, err := ParseDType(d.String())
			require.NoError(t, err)
			require.Equal(t, d, back)
		}
	}
}

func TestSmallFloatsRoundTrip(t *testing.T) {
	for d, f := range smallFormats {
		if f.exp == 0 {
			continue
		}
		for b := 0; b < 1<<DType(d).Bits(); b++ {
			v := smallFloat(DType(d), uint8(b))
			got := SmallFloatBits(DType(d), float32(v), false)
			if math.IsNaN(v) {
				require.True(t, math.IsNaN(smallFloat(DType(d), got)), "%s %#x", DType(d), b)
				continue
			}
			require.Equal(t, uint8(b), got, "%s %v", DType(d), v)
		}
	}
}

// TestSmallFloatsAreNearest to what they stand for, of both signs, at and around halfway between two; the even one there.
func TestSmallFloatsAreNearest(t *testing.T) {
	for d, top := range map[DType]uint8{F8E4M3FN: 0x7e, F8E4M3FNUZ: 0x7f, F8E5M2: 0x7b, F8E5M2FNUZ: 0x7f, F4E2M1: 7} {
		sign := uint8(1) << (d.Bits() - 1)
		for b := range top {
			lo, hi := smallFloat(d, b), smallFloat(d, b+1)
			mid := (lo + hi) / 2
			for v, want := range map[float64]uint8{mid: b + b&1, mid * (1 - 1e-6): b, mid * (1 + 1e-6): b + 1, hi: b + 1} {
				require.Equal(t, want, SmallFloatBits(d, float32(v), false), "%s of %g", d, v)
				if want != 0 {
					require.Equal(t, sign|want, SmallFloatBits(d, float32(-v), true), "%s of %g", d, -v)
				}
			}
		}
	}
}

// TestSmallFloatsAtTheirBounds: the smallest and the largest number as the formats' documents print them, and what is beyond: halfway to
// the next number and infinity, without and with saturation, and NaN.
func TestSmallFloatsAtTheirBounds(t *testing.T) {
	inf, nan, zero := float32(math.Inf(1)), float32(math.NaN()), math.Copysign(0, -1)
	type bits = [6]uint8
	for d, want := range map[DType]struct {
		least, most, beyond float64 // beyond: the first that rounds up
		bits                        // of ±beyond, ±beyond saturated, NaN, −0
	}{
		F8E4M3FN:   {0x1p-9, 448, 464 + 0x1p-15, bits{0x7f, 0xff, 0x7e, 0xfe, 0x7f, 0x80}},
		F8E4M3FNUZ: {0x1p-10, 240, 248, bits{0x80, 0x80, 0x7f, 0xff, 0x80, 0}},
		F8E5M2:     {0x1p-16, 57344, 61440, bits{0x7c, 0xfc, 0x7b, 0xfb, 0x7f, 0x80}},
		F8E5M2FNUZ: {0x1p-17, 57344, 61440, bits{0x80, 0x80, 0x7f, 0xff, 0x80, 0}},
		F4E2M1:     {0.5, 6, 7, bits{7, 15, 7, 15, 7, 8}},
	} {
		require.Equal(t, want.least, smallFloat(d, 1), "%s", d)
		require.Equal(t, want.most, smallFloat(d, want.bits[2]), "%s", d)
		for _, v := range []float32{float32(want.beyond), inf} {
			require.Equal(t, want.bits, bits{SmallFloatBits(d, v, false), SmallFloatBits(d, -v, false), SmallFloatBits(d, v, true),
				SmallFloatBits(d, -v, true), SmallFloatBits(d, nan, false), SmallFloatBits(d, float32(zero), false)}, "%s of %g", d, v)
		}
		require.Equal(t, want.bits[2], SmallFloatBits(d, math.Nextafter32(float32(want.beyond), 0), false), "%s", d)
	}
	for v, want := range map[float32][2]uint8{0: {}, 0x1p-140: {}, 0x1p-126: {1, 1}, 1: {127, 127}, 1.25: {127, 127}, 1.5: {128, 128},
		3: {129, 129}, 2.999: {128, 128}, math.MaxFloat32: {254, 254}, inf: {0xff, 0xfe}, -1: {0xff, 0xff}, -inf: {0xff, 0xff}} {
		require.Equal(t, want, [2]uint8{SmallFloatBits(F8E8M0, v, false), SmallFloatBits(F8E8M0, v, true)}, "%g", v)
	}
	require.EqualValues(t, 0xff, SmallFloatBits(F8E8M0, nan, true))
	require.Equal(t, []float64{0x1p-127, 0x1p127}, []float64{smallFloat(F8E8M0, 0), smallFloat(F8E8M0, 0xfe)})
}

func TestF16BitsRoundsOnce(t *testing.T) {
	for b := 0; b < 0x7c00; b++ {
		lo := float64(float16.Frombits(uint16(b)).Float32())
		require.Equal(t, uint16(b), F16Bits(lo))
		if b+1 < 0x7c00 {
			hi := float64(float16.Frombits(uint16(b + 1)).Float32())
			mid := (lo + hi) / 2
			require.Equal(t, uint16(b+b&1), F16Bits(mid), "tie at %v", mid)
			require.Equal(t, uint16(b), F16Bits(math.Nextafter(mid, 0)))
			require.Equal(t, uint16(b+1), F16Bits(math.Nextafter(mid, hi)))
		}
	}
}

func TestSubByteElements(t *testing.T) {
	x := New(I4, 5)
	for i, v := range []int64{-8, 7, -1, 0, 3} {
		x.SetInt64(i, v)
	}
	require.Equal(t, []int64{-8, 7, -1, 0, 3}, x.Int64s())
	require.Equal(t, []byte{0x78, 0x0f, 0x03}, x.Bytes())
}

func TestShapesFromOutside(t *testing.T) {
	const tera = 1 << 40
	for _, c := range []struct {
		shape Shape
		n     int
		err   string
	}{
		{nil, 1, ""}, {Shape{2, 3}, 6, ""}, {Shape{3, 0, 2}, 0, ""}, {Shape{tera, tera, 0}, 0, ""}, {Shape{0, tera, tera}, 0, ""},
		{Shape{tera, 1<<19 - 1}, tera * (1<<19 - 1), ""}, {Shape{tera, 1 << 19}, 0, "larger than memory"},
		{Shape{tera, tera, 2}, 0, "larger than memory"}, {Shape{2, -1}, 0, "axis 1 has negative size -1"},
		{Shape{tera, tera, 0, -1}, 0, "axis 3 has negative"}, {Shape{0, -2}, 0, "negative"},
	} {
		n, err := c.shape.CheckElements(F32)
		if c.err != "" {
			require.ErrorContains(t, err, c.err)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, c.n, n, c.shape)
	}
	_, err := FromBytes(F32, Shape{2}, make([]byte, 7))
	require.ErrorContains(t, err, "needs 8 bytes")
}

// TestShapesThatCannotBe: a product of sizes that wraps around would pass for a small tensor.
func TestShapesThatCannotBe(t *testing.T) {
	huge := []int{1 << 32, 1 << 32}
	for want, make := range map[string]func(){
		"tensor.New: shape [4294967296,4294967296] of f32 is larger than memory":       func() { New(F32, huge...) },
		"tensor.New: axis 1 has negative size -1":                                      func() { New(F32, 2, -1) },
		"tensor.FromSlice: shape [4294967296,4294967296] of f32 is larger than memory": func() { FromSlice([]float32{}, huge...) },
		"tensor.FromSlice: 3 elements for shape [2,2]":                                 func() { FromSlice([]float32{1, 2, 3}, 2, 2) },
		"tensor.FromStrings: 1 elements for shape [2]":                                 func() { FromStrings([]string{"a"}, 2) },
		"tensor.Reshape: shape [4294967296,4294967296] of f32 is larger than memory":   func() { New(F32, 0).Reshape(huge...) },
	} {
		require.PanicsWithValue(t, want, make)
	}
}

func TestBroadcast(t *testing.T) {
	for _, c := range []struct{ a, b, want Shape }{
		{Shape{3, 1, 5}, Shape{4, 1}, Shape{3, 4, 5}}, {Shape{1}, Shape{0}, Shape{0}}, {Shape{}, Shape{2, 3}, Shape{2, 3}},
		{Shape{2, 3}, Shape{2, 3}, Shape{2, 3}}, {Shape{7, 2, 3}, Shape{2, 1}, Shape{7, 2, 3}}, {Shape{3}, Shape{4}, nil},
		{Shape{2, 3}, Shape{3, 3}, nil}, {Shape{2}, Shape{0}, nil},
	} {
		for _, in := range [][2]Shape{{c.a, c.b}, {c.b, c.a}} {
			s, err := Broadcast(in[0], in[1])
			require.Equal(t, c.want, s)
			require.Equal(t, c.want == nil, err != nil)
		}
	}
	_, err := Broadcast(Shape{5, 2, 3}, Shape{2, 4})
	require.EqualError(t, err, "shapes [5,2,3] and [2,4] do not broadcast: axis 2 is 3 and 4")
}

func TestStrides(t *testing.T) {
	require.Equal(t, []int{12, 4, 1}, Shape{2, 3, 4}.Strides())
	require.Equal(t, []int{0, 4, 1}, Shape{2, 0, 4}.Strides())
	require.Empty(t, Shape{}.Strides())
}

// TestElements of every type: its least and greatest number are read as they were written, a greater one wraps around, a fraction is
// cut off, and no element changes another.
func TestElements(t *testing.T) {
	ranges := map[DType][2]int64{Bool: {0, 1}, U2: {0, 3}, I2: {-2, 1}, U4: {0, 15}, I4: {-8, 7}, U8: {0, 1<<8 - 1},
		I8: {-1 << 7, 1<<7 - 1}, U16: {0, 1<<16 - 1}, I16: {-1 << 15, 1<<15 - 1}, U32: {0, 1<<32 - 1},
		I32: {-1 << 31, 1<<31 - 1}, I64: {-1 << 63, 1<<63 - 1}, U64: {0, 1<<63 - 1},
		F16: {-2048, 2048}, BF16: {-256, 256}, F32: {-1 << 24, 1 << 24}, F64: {-1 << 53, 1 << 53},
		F8E4M3FN: {-448, 448}, F8E4M3FNUZ: {-240, 240}, F8E5M2: {-57344, 57344}, F8E5M2FNUZ: {-57344, 57344},
		F4E2M1: {-6, 6}, F8E8M0: {1, 8}}
	for d := Invalid + 1; d < NumDTypes; d++ {
		r, ok := ranges[d]
		x := New(d, 5)
		if !ok {
			require.Panics(t, func() { x.SetFloat64(0, 1) }, "%s", d)
			require.Panics(t, func() { x.SetInt64(0, 1) }, "%s", d)
			require.Panics(t, func() { x.Float64(0) }, "%s", d)
			continue
		}
		want := []float64{float64(r[0]), float64(r[1]), 1, float64(r[1]), float64(r[0])}
		for i, at := range []int{0, 4, 2, 1, 3} { // in no order
			x.SetInt64(at, []int64{r[0], r[0], 1, r[1], r[1]}[i])
		}
		require.Equal(t, want, x.Float64s(), "%s", d)
		if d.IsFloat() {
			require.Panics(t, func() { x.Int64(0) }, "%s", d)
			continue
		}
		require.Equal(t, []int64{r[0], r[1], 1, r[1], r[0]}, x.Int64s(), "%s", d)
		x.SetFloat64(3, 1.9)
		require.EqualValues(t, 1, x.Int64(3), "%s", d)
		if x.SetInt64(1, r[1]+1); d != Bool && d != U64 {
			require.Equal(t, r[0], x.Int64(1), "%s", d)
		}
		if x.SetInt64(2, 0); d == Bool {
			x.SetInt64(0, -7)
			require.EqualValues(t, 1, x.Bytes()[0])
		}
		require.Zero(t, x.Int64(2), "%s", d)
	}
	x := New(U64, 1)
	x.SetInt64(0, -1)
	require.Equal(t, float64(1<<64), x.Float64(0))
}

func TestBF16RoundsOnce(t *testing.T) {
	require.Equal(t, []BFloat16{0x7fc1, 0x3f80, 0x3f80, 0x3f82, 0x3f82, 0x7f80}, []BFloat16{ToBFloat16(math.Float32frombits(0x7f810001)),
		ToBFloat16(1), ToBFloat16(1 + 0x1p-8), ToBFloat16(1 + 0x3p-8), ToBFloat16(1 + 0x1p-6), ToBFloat16(math.MaxFloat32)})
	x := New(BF16, 1)
	x.SetFloat64(0, 1+1.0/256+1e-12) // just above halfway between 1 and 1+1/128; as a float32 it is halfway
	require.Equal(t, 1+1.0/128, x.Float64(0))
	x.SetFloat64(0, 1+1.0/256)
	require.Equal(t, 1.0, x.Float64(0))
}

// TestTinyWithoutNegativeZero: in types whose pattern of −0 is NaN, a negative number that rounds to nothing is 0.
func TestTinyWithoutNegativeZero(t *testing.T) {
	for _, d := range []DType{F8E4M3FNUZ, F8E5M2FNUZ} {
		for _, v := range []float32{-1e-30, -0x1p-19, float32(math.Copysign(0, -1))} {
			require.Zero(t, SmallFloatBits(d, v, true), "%s of %g", d, v)
		}
	}
	require.EqualValues(t, 0x80, SmallFloatBits(F8E5M2, -1e-30, true))
}

// TestOfAnotherWidth: elements are seen as what is as wide as they are.
func TestOfAnotherWidth(t *testing.T) {
	require.Len(t, Of[uint16](New(F16, 3)), 3)
	for _, see := range []func(x *Tensor){func(x *Tensor) { Of[uint64](x) }, func(x *Tensor) { Of[uint16](x) },
		func(x *Tensor) { Of[uint8](x) }} {
		require.PanicsWithValue(t, "tensor.Of: the tensor is nil: is its name misspelt?", func() { see(nil) })
		require.Panics(t, func() { see(New(F32, 4)) })
	}
}

// TestMisaligned: elements at an address that is not theirs are copied before they are used.
func TestMisaligned(t *testing.T) {
	data := make([]byte, 33)
	data[1] = 7
	x, err := FromBytes(I64, Shape{4}, data[1:])
	require.NoError(t, err)
	require.PanicsWithValue(t, "tensor.Of: i64 tensor at a misaligned address", func() { Of[int64](x) })
	require.Equal(t, []int64{7, 0, 0, 0}, Of[int64](x.Aligned()))
}

// TestExact: elements of one integer type as another are the same numbers, or an error that names the first that is none of its.
func TestExact(t *testing.T) {
	integers := []DType{I64, U64, I32, U32, I16, U16, I8, U8, I4, U4, I2, U2, Bool}
	numbers := []int64{0, 1, -1, 2, 7, 8, -8, 127, 128, -128, -129, 255, 256, 300, 1 << 15, 1 << 31, -1 << 31, math.MaxInt64, math.MinInt64}
	for _, from := range integers {
		for _, n := range numbers {
			x := New(from, 1)
			if !x.setExact(0, n) {
				continue
			}
			for _, to := range integers {
				y, err := x.Exact(to)
				if want := New(to, 1); want.setExact(0, n) {
					require.NoError(t, err, "%d: %v as %v", n, from, to)
					require.Equal(t, want.Bytes(), y.Bytes(), "%d: %v as %v", n, from, to)
				} else {
					require.EqualError(t, err, fmt.Sprintf("element 0: %d is not a value of type %v", n, to), "%v", from)
				}
			}
		}
	}
	large := FromSlice([]uint64{1 << 63})
	y, err := large.Exact(U64)
	require.NoError(t, err)
	require.Equal(t, large.Bytes(), y.Bytes())
	_, err = large.Exact(I64)
	require.EqualError(t, err, "element 0: 9223372036854775808 is not a value of type i64")
	_, err = FromSlice([]float32{1}).Exact(I8)
	require.EqualError(t, err, "elements of f32 cannot be those of i8")
	_, err = FromSlice([]int8{1}).Exact(F32)
	require.Error(t, err)
}

// TestJSONStringsAreUnchanged: strings that Go would change are errors.
func TestJSONStringsAreUnchanged(t *testing.T) {
	x, err := ParseJSON([]byte(`["é", "\ud834\udd1e"]`), String)
	require.NoError(t, err)
	require.Equal(t, []string{"é", "𝄞"}, x.Strings())
	for _, text := range []string{`["\ud834"]`, "[\"\xff\"]", `{"data": ["\udd1e"], "shape": [1]}`} {
		_, err := ParseJSON([]byte(text), String)
		require.ErrorContains(t, err, "a string", text)
	}
}

// TestStringsThatAreNotUTF8AreErrors holds that no file of a tensor has other strings than the tensor, also inside a sequence.
func TestStringsThatAreNotUTF8AreErrors(t *testing.T) {
	bytes := FromStrings([]string{"ö", "\xff\xfe"}, 2)
	const says = `element 1 is "\xff\xfe", which is not UTF-8`
	require.ErrorContains(t, bytes.WriteJSON(io.Discard), says)
	require.ErrorContains(t, NewSequence(FromStrings([]string{"ö"}, 1), bytes).WriteJSON(io.Discard), says)
	require.ErrorContains(t, WriteNPY(io.Discard, bytes), says)
	require.ErrorContains(t, WriteNPZ(io.Discard, []Named{{Name: "x", Tensor: bytes}}), says)
}
