package tensor

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// npy is a file as NumPy writes it.
func npy(header, data string) *bytes.Reader {
	header += "\n"
	return bytes.NewReader([]byte("\x93NUMPY\x01\x00" + string([]byte{byte(len(header)), byte(len(header) >> 8)}) + header + data))
}

func TestReadNPYThatNumPyWrote(t *testing.T) {
	x, err := ReadNPY(npy(`{'descr': '>f2', 'fortran_order': False, 'shape': (2, 3), }`, "<\x00@\x00B\x00D\x00E\x00F\x80"), 1<<20)
	require.NoError(t, err)
	require.Equal(t, "f16[2,3]", x.String())
	require.Equal(t, []float64{1, 2, 3, 4, 5, 6.5}, x.Float64s())

	x, err = ReadNPY(npy(`{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3, 4), }`,
		"\x00\x0c\x04\x10\x08\x14\x01\r\x05\x11\t\x15\x02\x0e\x06\x12\n\x16\x03\x0f\x07\x13\x0b\x17"), 1<<20)
	require.NoError(t, err)
	for i, v := range x.Int64s() {
		require.EqualValues(t, i, v)
	}

	x, err = ReadNPY(npy(`{'descr': '<i8', 'fortran_order': False, 'shape': (), }`, "\x07\x00\x00\x00\x00\x00\x00\x00"), 1<<20)
	require.NoError(t, err)
	require.Equal(t, "i64[]", x.String())

	x, err = ReadNPY(npy(`{'descr': '<U2', 'fortran_order': False, 'shape': (2,), }`,
		"a\x00\x00\x00b\x00\x00\x00\xf6\x00\x00\x00\x00\x00\x00\x00"), 1<<20)
	require.NoError(t, err)
	require.Equal(t, []string{"ab", "ö"}, x.Strings())

	x, err = ReadNPY(npy(`{'descr': '>c8', 'fortran_order': False, 'shape': (1,), }`, "?\x80\x00\x00@\x00\x00\x00"), 1<<20)
	require.NoError(t, err)
	require.Equal(t, []complex64{1 + 2i}, Of[complex64](x))
}

// TestReadNPYThatIsLarge: memory grows with what comes, in few steps.
func TestReadNPYThatIsLarge(t *testing.T) {
	x := New(I16, 3, 1<<20)
	for i := range x.Len() {
		x.SetInt64(i, int64(i%30011))
	}
	var file bytes.Buffer
	require.NoError(t, WriteNPY(&file, x))
	y, err := ReadNPY(&file, 1<<30)
	require.NoError(t, err)
	require.Equal(t, x.Shape(), y.Shape())
	require.True(t, bytes.Equal(x.Bytes(), y.Bytes()))
}

func TestReadNPYThatIsBroken(t *testing.T) {
	_, err := ReadNPY(strings.NewReader("PK\x03\x04 and so on"), 1<<20)
	require.ErrorContains(t, err, "not a .npy file: it does not begin like one")
	_, err = ReadNPY(strings.NewReader("\x93NUMPY\x02\x00\xff\xff\xff\xff"), 1<<20)
	require.ErrorContains(t, err, "its header has 4294967295 bytes")
	_, err = ReadNPY(strings.NewReader("\x93NUMPY\x01\x00\x10\x00abc"), 1<<20)
	require.ErrorContains(t, err, "header is truncated")
	_, err = ReadNPY(strings.NewReader("\x93NUMPY\x09\x00\x10\x00abc"), 1<<20)
	require.ErrorContains(t, err, "version is 9")
	for want, header := range map[string]string{
		"not plain numbers":                      `{'descr': [('a', '<i4')], 'fortran_order': False, 'shape': (1,), }`,
		"not plain numbers or":                   `{'descr': '|O', 'fortran_order': False, }`,
		`NumPy's type "O"`:                       `{'descr': '|O', 'fortran_order': False, 'shape': (1,), }`,
		"larger than memory":                     `{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 8), }`,
		"of U4 takes more memory than the limit": `{'descr': '<U4', 'fortran_order': False, 'shape': (1000000000000000,), }`,
		"out of range":                           `{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }`,
		"needs 8 bytes of data, there are 4":     `{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }`,
		"needs 2 bytes of data, there are more":  `{'descr': '<f2', 'fortran_order': False, 'shape': (1,), }`,
		"needs 4398046511104 bytes":              `{'descr': '<f4', 'fortran_order': True, 'shape': (1099511627776,), }`,
	} {
		_, err := ReadNPY(npy(header, "1234"), 1<<50)
		require.ErrorContains(t, err, want)
	}
}

// every is a tensor of each type that can be written, with bytes of all kinds.
func every(d DType) *Tensor {
	x := New(d, 2, 1, 3)
	for i := range x.Bytes() {
		x.Bytes()[i] = byte(29*i + 3)
		if d == Bool {
			x.Bytes()[i] &= 1
		}
	}
	copy(x.Strings(), []string{"", "größe", "\"b\"", "c", "日本", "NaN"})
	return x
}

func TestArraysRoundTrip(t *testing.T) {
	var all []Named
	for d := F32; d < NumDTypes; d++ {
		var file bytes.Buffer
		err := WriteNPY(&file, every(d))
		if dtypes[d].numpy == "" && d != String {
			require.ErrorContains(t, err, "NumPy has no type for "+d.String())
			continue
		}
		require.NoError(t, err)
		back, err := ReadNPY(&file, 1<<20)
		require.NoError(t, err)
		require.Equal(t, every(d).Bytes(), back.Bytes(), d)
		require.Equal(t, every(d).Strings(), back.Strings(), d)
		require.Equal(t, every(d).String(), back.String())
		all = append(all, Named{d.String(), every(d)})
	}
	all = append(all, Named{"scalar", Scalar(int64(3))}, Named{"empty", New(F32, 0, 4)})
	var file bytes.Buffer
	require.NoError(t, WriteNPZ(&file, all))
	require.True(t, bytes.Contains(file.Bytes(), every(C128).Bytes()), "arrays must be stored as they are")
	back, err := ReadNPZ(bytes.NewReader(file.Bytes()), int64(file.Len()), 1<<20)
	require.NoError(t, err)
	require.Len(t, back, len(all))
	for i, named := range back {
		require.Equal(t, all[i].Name, named.Name)
		require.Equal(t, all[i].Tensor.String(), named.Tensor.String())
		require.Equal(t, all[i].Tensor.Bytes(), named.Tensor.Bytes())
	}
	_, err = ReadNPZ(strings.NewReader("nothing"), 7, 1<<20)
	require.ErrorContains(t, err, "not a .npz file")
}

func TestJSONRoundTrip(t *testing.T) {
	for d := F32; d < NumDTypes; d++ {
		text, err := json.Marshal(every(d))
		if d.IsComplex() {
			require.Error(t, err)
			continue
		}
		require.NoError(t, err)
		back := new(Tensor)
		require.NoError(t, json.Unmarshal(text, back), "%s", text)
		require.Equal(t, every(d).String(), back.String())
		for i := range back.Len() {
			switch {
			case d == String:
				require.Equal(t, every(d).Strings()[i], back.Strings()[i])
			case d.IsFloat():
				require.Equal(t, math.Float64bits(every(d).Float64(i)), math.Float64bits(back.Float64(i)), "%s %s", d, text)
			default:
				require.Equal(t, every(d).Int64(i), back.Int64(i), d)
			}
		}
	}
	for _, x := range []*Tensor{Scalar(float32(math.Inf(-1))), New(F32, 2, 0, 3), Scalar(int64(math.MaxInt64))} {
		text, err := json.Marshal(x)
		require.NoError(t, err)
		back := new(Tensor)
		require.NoError(t, json.Unmarshal(text, back), "%s", text)
		require.Equal(t, x.String(), back.String())
		require.Equal(t, x.Bytes(), back.Bytes())
	}
}

func TestJSONLists(t *testing.T) {
	for text, want := range map[string]string{
		`[[1,2],[3,4]]`:                 "i64[2,2]",
		`[1, 2.5]`:                      "f32[2]",
		`[1, 2e3]`:                      "f32[2]",
		`["NaN", 1]`:                    "f32[2]",
		`[true]`:                        "bool[1]",
		`"a"`:                           "str[]",
		`[[],[]]`:                       "i64[2,0]",
		` {"data": [1], "dtype": "u8"}`: "u8[1]",
		`{"dtype":"f32","shape":[0,4],"data":[]}`: "f32[0,4]",
	} {
		x, err := ParseJSON([]byte(text), Invalid)
		require.NoError(t, err, text)
		require.Equal(t, want, x.String(), text)
	}
	x, err := ParseJSON([]byte("[1,2]"), F16)
	require.NoError(t, err)
	require.Equal(t, []float64{1, 2}, x.Float64s())
	for text, want := range map[string]string{
		`[[1,2],[3]]`:                            "ragged lists: one has 2 elements, another has 1",
		`[[1,2],3]`:                              "ragged lists",
		`[1,`:                                    "not a tensor in JSON",
		`[1] [2]`:                                "unexpected data after it",
		``:                                       "not a tensor in JSON",
		`[null]`:                                 "element 0: null is not a value of type u8",
		`[1, 256]`:                               "element 1: 256 is not a value of type u8",
		`[-1]`:                                   "element 0: -1 is not a value of type u8",
		`[1.5]`:                                  "element 0: 1.5 is not a value of type u8",
		`["x"]`:                                  "element 0: x is not a value of type u8",
		`[true]`:                                 "element 0: true is not a value of type u8",
		`{"dtype":"f32","data":[1e300]}`:         "element 0: 1e300 is not a value of type f32",
		`{"dtype":"f99","data":[1]}`:             `unknown element type "f99"`,
		`{"dtype":"c64","data":[1]}`:             "c64 cannot be read from JSON",
		`{"dtype":"u8","shape":[2],"data":[1]}`:  "shape [2] is given, the data has [1]",
		`{"dtype":"u8","shapes":[1],"data":[1]}`: "unknown field",
	} {
		_, err := ParseJSON([]byte(text), U8)
		require.ErrorContains(t, err, want, text)
	}
}

// TestPaddedStrings holds that strings which NumPy would pad to many times their size are an error before anything is allocated for them.
func TestPaddedStrings(t *testing.T) {
	list := make([]string, 100_000)
	list[7] = strings.Repeat("x", 1<<20)
	require.ErrorContains(t, WriteNPY(io.Discard, FromStrings(list, len(list))), "JSON can hold them")
	require.NoError(t, WriteNPY(io.Discard, FromStrings([]string{"a", strings.Repeat("ü", 1<<20)}, 2)))
}

// TestArchiveLimit: the arrays of an archive together have no more memory than the limit.
func TestArchiveLimit(t *testing.T) {
	texts := FromStrings([]string{"abc", "de"})
	var file bytes.Buffer
	require.NoError(t, WriteNPZ(&file, []Named{{"a", texts}, {"b", New(F32, 8)}, {"c", texts}}))
	need := 2*texts.memory() + 32
	require.EqualValues(t, 2*(2*16+5)+32, need)
	for limit, fits := range map[int64]bool{need + 100: true, need - 1: false, 40: false} {
		_, err := ReadNPZ(bytes.NewReader(file.Bytes()), int64(file.Len()), limit)
		require.Equal(t, fits, err == nil, "%d: %v", limit, err)
	}
}
