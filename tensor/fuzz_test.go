package tensor

import (
	"bytes"
	"testing"
)

// FuzzArrays: whatever the bytes are, reading ends with an array within the limit that can be written and read again, or with an
// error.
func FuzzArrays(f *testing.F) {
	const limit = 1 << 20
	for _, d := range []DType{F32, Bool, String, C64} {
		var file bytes.Buffer
		if err := WriteNPY(&file, every(d)); err != nil {
			f.Fatal(err)
		}
		f.Add(file.Bytes())
	}
	var archive bytes.Buffer
	if err := WriteNPZ(&archive, []Named{{"a", every(F32)}, {"b", every(String)}}); err != nil {
		f.Fatal(err)
	}
	f.Add(archive.Bytes())
	f.Add([]byte(`{"dtype": "f32", "shape": [2, 1], "data": [[1], ["NaN"]]}`))
	f.Add([]byte(`[[1, 2], [3e4, -5]]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var read []*Tensor
		if x, err := ReadNPY(bytes.NewReader(data), limit); err == nil {
			read = append(read, x)
		}
		if list, err := ReadNPZ(bytes.NewReader(data), int64(len(data)), limit); err == nil {
			for _, x := range list {
				read = append(read, x.Tensor)
			}
		}
		if x, err := ParseJSON(data, Invalid); err == nil && !x.DType().IsComplex() {
			text, err := x.MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			again, err := ParseJSON(text, Invalid)
			if err != nil || again.String() != x.String() {
				t.Fatalf("%s, written as %s, is read as %v: %v", x, text, again, err)
			}
			return
		}
		for _, x := range read {
			if n := x.memory(); n > limit {
				t.Fatalf("%v takes %d bytes", x, n)
			}
			if err := WriteNPY(new(bytes.Buffer), x); err != nil && len(x.Shape()) < 32 {
				t.Fatal(err)
			}
		}
	})
}
