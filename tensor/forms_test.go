package tensor

import (
	"flag"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/rlxc/rlxc/internal/recorded"
)

var update = flag.Bool("update", false, "write testdata/forms.txt anew")

// TestForms reads texts in JSON as each type, and headers of NumPy, and writes what they give. testdata/forms.txt records it. After a
// change: go test ./tensor -run TestForms -update
func TestForms(t *testing.T) {
	var out strings.Builder
	show := func(name string, x *Tensor, err error) {
		var text []byte
		if err == nil {
			text, err = x.MarshalJSON()
		}
		if err != nil {
			text = []byte(err.Error())
		}
		fmt.Fprintf(&out, "%s: %s\n", name, text)
	}
	for _, text := range []string{`1`, ` [ 1 , 2 ] `, `[]`, `[[],[]]`, `[[1],[2]]`, `[[[1]],[[2],[3]]]`, `[[1],2]`, `[1,[2]]`,
		`[1,]`, `[,1]`, `[1 2]`,
		`[1]]`, `[`, `[[1]`, `"`, `"a`, `"a\"b"`, `["a", "NaN"]`, `["NaN", "a"]`, `["NaN", 1]`, `[true, 2]`, `[1, true]`, `[null]`,
		`[1.5, 2]`,
		`[-1]`, `[256]`, `[-0.0]`, `[7, -8, 8]`, `[1e2]`, `[1e-9]`, `[65519, 65520]`, `[1e39]`, `[1e999]`, `[18446744073709551615]`,
		`[18446744073709551616]`, `[9223372036854775808]`, `["Infinity", "-Infinity"]`, `{}`, `{"data": 1}`,
		`{"data": [1], "shape": [1]}`, `{"data": [1], "shape": [1, 1]}`, `{"data": [], "shape": [0, 7]}`, `{"data": [], "shape": [7, 0]}`,
		`{"data": [[]], "shape": [1, 0]}`,
		`{"data": [], "shape": [0, -1]}`, `{"data": [1], "dtype": "f16"}`, `{"data": ["x"], "dtype": "str"}`, `{"data": [1], "x": 1}`,
		`{"data": [1]} 2`} {
		for _, d := range []DType{Invalid, F16, U64, I4, Bool, String} {
			x, err := ParseJSON([]byte(text), d)
			show(fmt.Sprintf("%s as %v", text, d), x, err)
		}
	}
	array := func(descr, order, shape string, size int) {
		header := fmt.Sprintf("{'descr': '%s', 'fortran_order': %s, 'shape': %s, }", descr, order, shape)
		x, err := ReadNPY(npy(header, "ABCDEFGHIJKLMNOP"[:size]), 1<<20)
		show(fmt.Sprint(size, " bytes, ", header), x, err)
	}
	for descr := range strings.FieldsSeq("|i1 |u1 |b1 |S1 <f2 >i2 <u2 <i3 <f4 >f4 |f4 =f4 f4 <u4 |O <x4 <U1 >U1 <f8 <i8 >u8 <c8 >c8 <U2 " +
		"<U0 <f16") {
		width, _ := strconv.Atoi(strings.TrimLeft(descr, "<>|=OfiubcSUx"))
		if strings.Contains(descr, "U") {
			width *= 4
		}
		array(descr, "False", "(2,)", 2*min(width, 8))
	}
	for _, shape := range []string{"()", "(1,)", "(2,)", "(2,2)", "(0,3)", "(-1,)", "(1", "1"} {
		for _, order := range []string{"False", "True", "None"} {
			array("<f4", order, shape, 4)
			array("|u1", order, shape, 4)
		}
	}
	for _, x := range []*Tensor{FromSlice([]float32{}), FromSlice([]float32{}, 0, 2), NewSequence(), NewSequence(Scalar(int64(1)),
		FromSlice([]bool{true})),
		FromSlice([]complex64{1}), FromStrings([]string{"\x7f\u2028<&>"}), Scalar(math.NaN()), Scalar(float32(0.1)), Scalar(0.1)} {
		show(x.String(), x, nil)
	}
	recorded.Check(t, "testdata/forms.txt", *update, out.String())
}
