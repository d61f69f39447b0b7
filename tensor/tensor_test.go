package tensor

import (
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
	_, err := Shape{1 << 40, 1 << 40}.CheckElements(F32)
	require.ErrorContains(t, err, "larger than memory")
	_, err = Shape{2, -1}.CheckElements(F32)
	require.ErrorContains(t, err, "negative")
	n, err := Shape{1 << 40, 1 << 40, 0}.CheckElements(F32)
	require.NoError(t, err)
	require.Zero(t, n)
	_, err = FromBytes(F32, Shape{2}, make([]byte, 7))
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
	s, err := Broadcast(Shape{3, 1, 5}, Shape{4, 1})
	require.NoError(t, err)
	require.Equal(t, Shape{3, 4, 5}, s)
	s, err = Broadcast(Shape{1}, Shape{0})
	require.NoError(t, err)
	require.Equal(t, Shape{0}, s)
	_, err = Broadcast(Shape{3}, Shape{4})
	require.Error(t, err)
}

func TestBF16RoundsOnce(t *testing.T) {
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
	for _, see := range []func(){func() { Of[uint64](New(F32, 4)) }, func() { Of[uint16](New(F32, 4)) }, func() { Of[uint8](New(F32, 4)) },
		func() { Of[float32](nil) }} {
		require.Panics(t, see)
	}
}
