package robustness

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/internal/artifact"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// A section is the content of a constant in a compiled file.
type section struct {
	dtype string
	shape []int64
	data  []byte
}

// forge writes a compiled file with any program in it, whose checksums are right.
func forge(target, text string, sections ...section) []byte {
	h := &artifact.Header{Target: target, Ir: text, Source: "forged.onnx", Level: 2}
	for _, s := range sections {
		h.Sections = append(h.Sections, &artifact.Section{Dtype: s.dtype, Shape: s.shape, Length: uint64(len(s.data)), Offset: 1 << 20})
	}
	size := func() uint64 { return uint64(32 + proto.Size(h)) }
	at := size()
	for i, s := range sections {
		at = (at + 63) &^ 63
		h.Sections[i].Offset = at + 1<<20&^63 // of the same width as a varint, whatever the header takes
		at += uint64(len(s.data))
	}
	header := encode(h)
	out := binary.LittleEndian.AppendUint32([]byte("\x89RLXC\r\n\x1a"), artifact.Version)
	out = binary.LittleEndian.AppendUint32(out, crc32.Checksum(header, crc32.MakeTable(crc32.Castagnoli)))
	out = binary.LittleEndian.AppendUint64(out, uint64(len(header)))
	sizeAt := len(out)
	out = append(binary.LittleEndian.AppendUint64(out, 0), header...)
	for i, s := range sections {
		out = append(out, make([]byte, int(h.Sections[i].Offset)-len(out))...)
		out = append(out, s.data...)
	}
	binary.LittleEndian.PutUint64(out[sizeAt:], uint64(len(out)))
	return out
}

// thisTarget is what programs are compiled for here.
func thisTarget(dir string) (string, error) {
	path := filepath.Join(dir, "target.rlxc")
	m, err := rlxc.FromProto(good(), "good")
	if err != nil {
		return "", err
	}
	defer m.Close()
	p, err := m.Compile(context.Background(), rlxc.CompileOptions{})
	if err != nil {
		return "", err
	}
	defer p.Close()
	if err := p.Save(path); err != nil {
		return "", err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	f, err := artifact.Read(data, path)
	if err != nil {
		return "", err
	}
	return f.Target, nil
}

// runForged opens, compiles and runs a compiled file with inputs of zeros, the sizes of its symbols being 2.
func runForged(dir, text string, sections ...section) error {
	target, err := thisTarget(dir)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, "forged.rlxc")
	if err := os.WriteFile(path, forge(target, text, sections...), 0o600); err != nil {
		return err
	}
	return runFile(path, memoryLimit, func(m *rlxc.Model) (rlxc.Tensors, error) { return childInputs(m, "") })
}

// runFile opens a model's file, compiles it for one thread and a memory limit, and runs it.
func runFile(path string, limit int64, inputs func(m *rlxc.Model) (rlxc.Tensors, error)) error {
	m, err := rlxc.Open(path)
	if err != nil {
		return err
	}
	defer m.Close()
	return inSession(m, rlxc.CompileOptions{Threads: 1, MemoryLimit: limit}, func(_ *rlxc.Program, s *rlxc.Session) error {
		in, err := inputs(m)
		if err != nil {
			return err
		}
		_, err = s.Run(context.Background(), in)
		return err
	})
}

// inSession compiles a model for the time of f.
func inSession(m *rlxc.Model, o rlxc.CompileOptions, f func(p *rlxc.Program, s *rlxc.Session) error) error {
	p, err := m.Compile(context.Background(), o)
	if err != nil {
		return err
	}
	defer p.Close()
	s, err := p.NewSession()
	if err != nil {
		return err
	}
	defer s.Close()
	return f(p, s)
}

// forgeries are compiled files that no compiler writes.
func forgeries() map[string]attack {
	out := map[string]attack{}
	late := func(name, want string, text func() string, sections ...section) { // for long ones, which other attacks' children need not hold
		out["compiled: "+name] = attack{want: want, run: func(dir string) error { return runForged(dir, text(), sections...) }}
	}
	add := func(name, want, text string, sections ...section) {
		late(name, want, func() string { return text }, sections...)
	}
	const x = `graph "g" (%0 "x": f32[2,4]) {`
	add("in order", "", x+` %1 = relu(%0) return %1 as "y" }`)
	add("constants that are said to be data", "more elements than the text",
		`graph "g" () { const %0: i64[67108864] = data return %0 as "y" }`)
	add("a constant of many elements that are not there", "more elements than the text",
		`graph "g" () { const %0: i64[67108864] = [1] return %0 as "y" }`)
	add("strings that are not there", "more elements than the text", `graph "g" () { const %0: str[268435456] = [] return %0 as "y" }`)
	add("strings of a section that are not there", "cannot hold strings",
		`graph "g" () { const %0: str[268435456] = section 0 return %0 as "y" }`, section{"str", []int64{268435456}, make([]byte, 100)})
	var shared strings.Builder
	shared.WriteString(`graph "g" () {`)
	for i := range 2000 {
		fmt.Fprintf(&shared, " const %%%d: str[100000] = section 0", i)
	}
	add("a section of strings that 2000 constants share", "", shared.String()+` return %1 as "y" }`,
		section{"str", []int64{100000}, make([]byte, 100000)})
	add("bools of 255", "neither false nor true", x+` const %1: bool[4] = section 0 %2 = where(%1, %0, %0) return %2 as "y" }`,
		section{"bool", []int64{4}, []byte{0, 1, 255, 0}})
	add("a packed weight as a table", "packed",
		`graph "g" (%0 "x": i64[2]) { const %1: f32[4,4] = packed "f32/48/16" section 0 %2 = gather(%1, %0) return %2 as "y" }`,
		section{"f32", []int64{64}, make([]byte, 256)})
	add("a packed weight as an output", "packed",
		x+` const %1: f32[4,4] = packed "f32/48/16" section 0 %2 = matmul(%0, %1) return %1 as "y" }`,
		section{"f32", []int64{64}, make([]byte, 256)})
	add("a packed weight that nothing reads", "", x+` const %1: f32[4,4] = packed "f32/48/16" section 0 %2 = relu(%0) return %2 as "y" }`,
		section{"f32", []int64{64}, make([]byte, 256)})
	add("a packed weight without data", "section", x+` const %1: f32[4,4] = packed "f32/48/16" %2 = matmul(%0, %1) return %2 as "y" }`)
	add("a packed weight of 16 bits and too few elements", "does not hold",
		`graph "g" (%0 "x": f16[2,4]) { const %1: f16[4,4] = packed "f16 as f32/48/16" section 0 %2 = matmul(%0, %1) return %2 as "y" }`,
		section{"f16", []int64{16}, make([]byte, 32)})
	const conv, lstm = `graph "g" (%0 "x": f32[1,4,4,2]) { const %1: f32[3,3,2,4] = packed "LAYOUT" section 0
		%2 = conv(%0, %1) {kernel=[3,3], strides=[1,1], dilations=[1,1], pads=[1,1,1,1], auto_pad="NOTSET", group=1} return %2 as "y" }`,
		`graph "g" (%0 "x": f32[5,1,2]) { const %1: f32[1,16,2] = packed "LAYOUT" section 0
			const %2: f32[1,16,4] = packed "LAYOUT" section 1
		%3: f32[5,1,1,4] = onnx.LSTM(%0, %1, %2) {hidden=4, results=1} return %3 as "y" }`
	for _, layout := range []string{"q8x4/48/16", "q4x8/48/16/blocks of 8", "q8x4/48/16/blocks of 268435456", "q8x4/8/8",
		"f16 as f32/48/16", "bf16 as f32/4/4", "winograd f32/48/16"} {
		few := section{"u8", []int64{64}, make([]byte, 64)}
		if strings.Contains(layout, "16 as f32") {
			few = section{layout[:strings.Index(layout, " ")], []int64{32}, make([]byte, 64)}
		}
		add("a convolution with too few codes as "+layout, "hold", strings.ReplaceAll(conv, "LAYOUT", layout), few)
		add("a recurrence with too few codes as "+layout, "!", strings.ReplaceAll(lstm, "LAYOUT", layout), few, few)
	}
	add("codes in blocks of no length", "layout", strings.ReplaceAll(conv, "LAYOUT", "q8x4/48/16/blocks of 0"),
		section{"u8", []int64{64}, make([]byte, 64)})
	add("blocks of floats", "layout", strings.ReplaceAll(conv, "LAYOUT", "f32/48/16/blocks of 8"),
		section{"f32", []int64{16}, make([]byte, 64)})
	add("a packed weight of another layout", "layout",
		x+` const %1: f32[4,4] = packed "elsewhere" section 0 %2 = matmul(%0, %1) return %2 as "y" }`,
		section{"f32", []int64{16}, make([]byte, 64)})
	add("a negative size", "has size -1", `graph "g" (%0 "x": f32[2,4], %1 "i": i64[2,-1]) { %2 = gather_nd(%0, %1) return %2 as "y" }`)
	add("indices of a size that no input tells", "no size",
		`graph "g" (%0 "x": f32[2,4], %1 "i": i64[n - 5,1]) { %2 = relu(%0) return %2 as "y" }`)
	late("a size of 100000 factors", "too complex to compute with symbols", func() string {
		return `graph "g" (%0 "x": f32[n` + strings.Repeat("*n", 100_000) + `]) { %1 = relu(%0) return %1 as "y" }`
	})
	late("a size of 100000 terms", "too complex to compute with symbols", func() string {
		var sum strings.Builder
		for i := range 100_000 {
			fmt.Fprintf(&sum, " + n%d", i)
		}
		return `graph "g" (%0 "x": f32[n` + sum.String() + `]) { %1 = relu(%0) return %1 as "y" }`
	})
	late("a size in 1000000 brackets", "!", func() string {
		return `graph "g" (%0 "x": f32[` + strings.Repeat("(", 1_000_000) + `n` + strings.Repeat(")", 1_000_000) +
			`]) { %1 = relu(%0) return %1 as "y" }`
	})
	late("a size of 1000000 minima", "deep", func() string {
		return `graph "g" (%0 "x": f32[` + strings.Repeat("min(2, ", 1_000_000) + `n` + strings.Repeat(")", 1_000_000) +
			`]) { %1 = relu(%0) return %1 as "y" }`
	})
	const image = `graph "g" (%0 "x": f32[1,1,2,2]) { const %1: f32[1,1,2,2] = [1, 2, 3, 4]`
	const window = `kernel=[1,1], strides=[1,1], dilations=[1,1], pads=[0,0,0,0], auto_pad="NOTSET", group=1, `
	add("a convolution and a function", "", image+` %2 = conv(%0, %1) {`+window+`act=silu} return %2 as "y" }`)
	add("a convolution and a test", "is_nan", image+` %2 = conv(%0, %1) {`+window+`act=is_nan} return %2 as "y" }`)
	add("a product and a function", "", image+` %2 = matmul(%0, %1) {act=silu, actalpha=1} return %2 as "y" }`)
	add("a product and a test", "a product followed by is_nan", image+` %2 = matmul(%0, %1) {act=is_nan} return %2 as "y" }`)
	quantised := func(name, want, weights, operands, params string, sections ...section) {
		add("a convolution of bytes "+name, want, `graph "g" (%0 "x": u8[1,4,4,4]) { const %1: i8[1,1,4,2] = `+weights+`
			const %2: f32[] = [0.5] const %3: f32[2] = [0.5, 1] const %4: f32[3] = [1, 2, 3] const %5: u8[] = [3] const %6: i32[2] = [1, 2]
			%9 = qconv(%0, %1`+operands+`) {kernel=[1,1], dilations=[1,1], auto_pad="NOTSET", `+params+`} return %9 as "y" }`, sections...)
	}
	const codes, once = "[1, 2, 3, 4, 5, 6, 7, 8]", "strides=[1,1], pads=[0,0,0,0], group=1"
	quantised("in order", "", codes, ", %5, _, %2, %3, %6, _, %2, %5", once)
	quantised("with scales of three columns", "columns are needed", codes, ", %5, _, %2, %4", once)
	quantised("with a bias of three columns", "columns are needed", codes, ", %5, _, %2, %3, %4", once)
	quantised("with one of two scales", "one of two scales", codes, ", %5, _, %2", once)
	quantised("with a zero point of another type", "where one number is needed", codes, ", %6, _, %2, %3", once)
	quantised("with a residual of another shape", "residual", codes, ", %5, _, %2, %3, _, %4", once)
	quantised("with a scale and no zero point of the result", "one of scale and zero point", codes, ", %5, _, %2, %3, _, _, %2", once)
	quantised("and a test", "a product followed by is_nan", codes, ", %5, _, %2, %3", once+", act=is_nan")
	quantised("in no groups", "groups", codes, "", "strides=[1,1], pads=[0,0,0,0], group=0")
	quantised("in groups that do not divide", "groups", codes, "", "strides=[1,1], pads=[0,0,0,0], group=3")
	quantised("without a stride", "stride 0", codes, "", "strides=[0,1], pads=[0,0,0,0], group=1")
	quantised("with padding that is not there", "pads", codes, "", "strides=[1,1], pads=[0,0,0], group=1")
	quantised("with a packed weight that is too short", "!", `packed "s8/48/16" section 0`, ", %5, _, %2, %3", once,
		section{"u8", []int64{4}, make([]byte, 4)})
	quantised("with a packed weight of another layout", "layout", `packed "elsewhere" section 0`, ", %5, _, %2, %3", once,
		section{"u8", []int64{48}, make([]byte, 48)})
	const codesMap = `graph "g" (%0 "x": u8[2,4], %1 "s": f32[4]) { const %2: f32[] = [0.5] const %3: f32[] = [0] `
	add("a map of quantised values", "", codesMap+`%4 = map(%0, %2) {expr=[dequantize(in0, in1) {to=f32}, add(x0, x0), quantize(x1,
		in1) {to=u8}]} return %4 as "y" }`)
	add("a map that quantises by many scales", "not one for all",
		codesMap+`%4 = map(%0, %1, %2) {expr=[dequantize(in0, in2) {to=f32}, quantize(x0, in1) {to=u8, axis=1}]} return %4 as "y" }`)
	add("a map that quantises by 0", "quantising divides by it",
		codesMap+`%4 = map(%0, %2, %3) {expr=[dequantize(in0, in1) {to=f32}, quantize(x0, in2) {to=u8}]} return %4 as "y" }`)
	const bytesAttention = `graph "g" (%0 "q": u8[1,2,1,4], %1 "s": f32[]) { const %2: f32[] = [0.5] const %3: u8[] = [128] `
	add("attention of bytes", "", bytesAttention+`%4 = qattention(%0, %0, %0, _, %2, %3, %2, %3, %2, %3, _, _, %2, %3) return %4 as "y" }`)
	add("attention of bytes that quantises by 0", "a scale is 0: quantising divides by it", bytesAttention+
		`const %5: f32[] = [0] %6 = mul(%1, %5) %4 = qattention(%0, %0, %0, _, %2, %3, %2, %3, %2, %3, _, _, %6, %3) return %4 as "y" }`)
	packs := func(inputs, operands string) string {
		return inputs + ` %2: i32[b,4], %3: i32[b], %4: i32[b,4], %5: i32[b,4], %6: i32[t], %7: i64[1,t], %8: i64[1,t] = rlxc.Pack(` +
			operands + `) %9: i64[b,s] = rlxc.Unpack(%8, %6, %1) return %9 as "y" }`
	}
	const texts = `graph "g" (%0 "mask": i64[b,s], %1 "ids": i64[b,s]) {`
	add("padding that is taken out", "", packs(texts, "%0, %1"))
	add("padding without a mask", "cannot be packed", packs(texts, "_, %1"))
	add("padding without values", "cannot be packed", packs(texts, "%0, _"))
	add("a mask of strings", "cannot be packed", packs(strings.Replace(texts, "i64[b,s]", "str[b,s]", 1), "%0, %1"))
	add("packed values that are nowhere put", "lacks operand", strings.Replace(packs(texts, "%0, %1"), "(%8, %6, %1)", "(%8, _, %1)", 1))
	add("packed values of other places", "!", strings.Replace(packs(texts, "%0, %1"), "(%8, %6, %1)", "(%8, %3, %1)", 1))
	rows := `graph "g" (%0 "x": f32[1,4,1,4], %1 "rows": i32[1,4]) { const %2: i32[1,4] = [ROW] %3 = attention(%0, %0, %0, _, %2)
	return %3 as "y" }`
	for what, row := range map[string]string{"in order": "0, 4, 0, 4", "beyond": "0, 4, 0, 5", "below": "0, 4, -1, 4",
		"backwards": "0, 4, 4, 0", "far beyond": "0, 2147483647, 0, 2147483647", "of queries that begin late": "1, 4, 0, 3"} {
		want := "sequence 0"
		if what == "in order" {
			want = ""
		}
		add("attention over a row "+what, want, strings.Replace(rows, "ROW", row, 1))
	}
	for what, places := range map[string]string{"in a row": "0, 1, 2, 3", "apart": "0, 1, 5, 9"} {
		add("attention of tokens beyond the mask, "+what, "sequence 0 has a token at position",
			`graph "g" (%0 "x": f32[1,4,1,4]) { const %1: f32[2,2] = [0, 0, 0, 0] const %2: i32[1,4] = [0, 4, 0, 4]
				const %3: i64[1,4] = [`+places+`]
			%4 = attention(%0, %0, %0, %1, %2, %3) return %4 as "y" }`)
	}
	sums := `graph "g" (%0 "x": f32[1,4,4], %1 "rows": i32[1,4]) { const %2: i32[1,4] = [ROW] %3 = sum_sequences(%0, %2) return %3 as "y" }`
	for what, row := range map[string]string{"beyond": "0, 5, 0, 5", "below": "-1, 4, 0, 4", "far beyond": "0, 2147483647, 0, 4"} {
		add("a sum over a row "+what, "sequence 0", strings.Replace(sums, "ROW", row, 1))
	}
	late("100000 branches in each other", "deep", func() string {
		var nested strings.Builder
		nested.WriteString(`graph "g" (%0 "c": bool[], %1 "x": f32[2]) {`)
		for i := range 100_000 {
			fmt.Fprintf(&nested, ` %%%d: f32[2] = onnx.If(%%0, %%1) {then_inputs=1} do { graph "t" (%%%d: f32[2]) {`, 2*i+2, 2*i+3)
		}
		return nested.String()
	})
	late("a constant in 1000000 brackets", "!", func() string {
		return `graph "g" (%0 "x": f32[2]) { const %1: f32[2] = ` + strings.Repeat("[", 1_000_000) + ` %2 = relu(%0) return %2 as "y" }`
	})
	late("an attribute in 1000000 brackets", "!", func() string {
		return `graph "g" (%0 "x": f32[2]) { %2 = relu(%0) {a=` + strings.Repeat("[", 1_000_000) + `} return %2 as "y" }`
	})
	var subgraphs strings.Builder
	subgraphs.WriteString(`graph "g" (%0 "c": bool[], %1 "x": f32[2]) {`)
	id := 2
	for range 5000 {
		fmt.Fprintf(&subgraphs, " %%%d = relu(%%1)", id)
		id++
	}
	last := 1
	for range 2000 {
		fmt.Fprintf(&subgraphs, ` %%%d: f32[2] = onnx.If(%%0, %%%d, %%%d) {then_inputs=1} do { graph "t" (%%%d: f32[2]) {
			return %%%d } graph "e" (%%%d: f32[2]) { return %%%d } }`, id, last, last, id+1, id+1, id+2, id+2)
		last, id = id, id+3
	}
	add("2000 subgraphs beside 5000 values", "", subgraphs.String()+fmt.Sprintf(` return %%%d as "y" }`, last))
	for name, op := range map[string]string{
		"Unique of strings as floats": `%2: f32[u] = onnx.Unique(%0)`,
		"NonZero of another rank":     `%2: i64[7,u] = onnx.NonZero(%0)`,
		"TopK without k":              `%2: c64[1,1,2,2], %3: i64[1,1,2,2] = onnx.TopK(%0)`,
		"Conv without weights":        `%2: c64[1,1,2,2] = conv(%0)`,
		"LSTM of nothing":             `%2: c64[1,1,2,2] = onnx.LSTM(%0)`,
		"Loop without a body":         `%2: c64[1,1,2,2] = onnx.Loop(_, _, %0)`,
		"Scan without a body":         `%2: c64[1,1,2,2] = onnx.Scan(%0)`,
		"If without branches":         `%2: c64[1,1,2,2] = onnx.If(%0)`,
		"SequenceAt of a tensor":      `%2: c64[1,1,2,2] = onnx.SequenceAt(%0, %1)`,
		"an operator that nobody has": `%2: c64[1,1,2,2] = onnx.Nothing(%0)`,
		"MaxUnpool of complex numbers": `%2: c64[1,1,2,2] = onnx.MaxUnpool(%0, %1) {kernel=[1,1], strides=[1,1], dilations=[1,1],
			pads=[0,0,0,0], auto_pad="NOTSET"}`,
		"Resize without a size": `%2: c64[1,1,2,2] = onnx.Resize(%0)`,
	} {
		add(name, "!", `graph "g" (%0 "x": c64[1,1,2,2], %1 "i": i64[1,1,2,2]) { `+op+` return %2 as "y" }`)
	}
	return out
}

// mutants are compiled files of small models with a few characters of their program changed: they run, or are refused, in good
// order.
func mutants() map[string]attack {
	out := map[string]attack{}
	for name, m := range map[string]func() []byte{
		"matmul": func() []byte { return encode(good()) },
		"pool": func() []byte {
			return encode(one(f32, f32, []any{1, 1, 4, 4},
				node("MaxPool", names("x"), names("y"), attribute("kernel_shape", []int64{2, 2}))))
		},
		"topk": func() []byte {
			return encode(one(f32, f32, []any{2, 4}, constant("k", ints(2)), node("TopK", names("x", "k"), names("y", "i"))))
		},
		"nonzero": func() []byte { return encode(one(f32, i64, []any{2, 4}, node("NonZero", names("x"), names("y")))) },
		"resize": func() []byte {
			return encode(one(f32, f32, []any{1, 1, 4, 4}, constant("s", ints(1, 1, 8, 8)),
				node("Resize", names("x", "", "", "s"), names("y"))))
		},
		"softmax": func() []byte { return encode(one(f32, f32, []any{"n", 4}, node("LogSoftmax", names("x"), names("y")))) },
	} {
		out["mutants of "+name] = attack{want: "", run: func(dir string) error { return mutate(dir, m()) }}
	}
	return out
}

// mutate changes the program of a compiled model in many ways.
func mutate(dir string, data []byte) error {
	path := filepath.Join(dir, "model.onnx")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		return err
	}
	m, err := rlxc.Open(path)
	if err != nil {
		return err
	}
	p, err := m.Compile(context.Background(), rlxc.CompileOptions{})
	if err != nil {
		return err
	}
	saved := filepath.Join(dir, "model.rlxc")
	if err := p.Save(saved); err != nil {
		return err
	}
	p.Close()
	m.Close()
	file, err := os.ReadFile(saved)
	if err != nil {
		return err
	}
	h := new(artifact.Header)
	length := binary.LittleEndian.Uint64(file[16:])
	if err := proto.Unmarshal(file[32:32+length], h); err != nil {
		return err
	}
	var sections []section
	for _, s := range h.Sections {
		sections = append(sections, section{s.Dtype, s.Shape, file[s.Offset : s.Offset+s.Length]})
	}
	swaps := []string{"0", "1", "7", "-1", "4611686018427387904", "n", "_", "[]", "i64", "str", "c64", "bool", "f16", "%0", "%1"}
	at, step := 0, max(1, len(h.Ir)/16)
	for _, swap := range swaps {
		for at %= step; at < len(h.Ir); at += step {
			start := at
			for start > 0 && isWordByte(h.Ir[start-1]) {
				start--
			}
			end := at
			for end < len(h.Ir) && isWordByte(h.Ir[end]) {
				end++
			}
			text := h.Ir[:start] + swap + h.Ir[max(end, start+1):]
			if err := runForged(dir, text, sections...); err != nil && strings.Contains(err.Error(), "internal error") {
				return fmt.Errorf("%w\n%s", err, text)
			}
		}
		at++
	}
	return nil
}

func isWordByte(c byte) bool {
	return c == '_' || c == '.' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func init() {
	for _, list := range []map[string]attack{forgeries(), mutants()} {
		for name, a := range list {
			attacks[name] = a
		}
	}
}

// empties: axes of 2^40 elements beside one of none, which hold nothing and take for ever to walk along.
func empties() (out []hostile) {
	const huge = 1 << 40
	f := func(op string, in, results []string, attributes ...any) {
		n := node(op, in, results)
		for i := 0; i < len(attributes); i += 2 {
			n.Attribute = append(n.Attribute, attribute(attributes[i].(string), attributes[i+1]))
		}
		for _, shape := range [][]any{{huge, 0}, {0, huge}, {2, huge, 0}} {
			m := model(graph(infos{value("x", f32, shape...)}, infos{unranked("y", f32)}, constant("k", ints(0)),
				constant("i", tensor.New(i64, 0, 1)), constant("one", ints(1)), n))
			if results[0] == "j" {
				m.Graph.Output = infos{unranked("j", i64)}
			}
			out = append(out, of(fmt.Sprintf("%s of %v", op, shape), "either", m))
		}
	}
	for _, op := range []string{"Relu", "Softmax", "LogSoftmax", "Hardmax", "Identity", "Transpose", "Flatten", "Size", "Shape",
		"NonZero", "Unique"} {
		result := "y"
		if op == "Size" || op == "Shape" || op == "NonZero" {
			result = "j"
		}
		f(op, names("x"), names(result))
	}
	for _, op := range []string{"ReduceSum", "ReduceMax", "ReduceMean", "ReduceLogSumExp", "ReduceProd"} {
		f(op, names("x"), names("y"), "keepdims", 0)
		f(op, names("x", "k"), names("y"), "keepdims", 1)
	}
	f("ArgMax", names("x"), names("j"), "axis", 1)
	f("TopK", names("x", "k"), names("y", "i2"), "axis", 0)
	f("Gather", names("x", "k"), names("y"), "axis", 0)
	f("GatherND", names("x", "i"), names("y"))
	f("Concat", names("x", "x"), names("y"), "axis", 1)
	f("CumSum", names("x", "k"), names("y"))
	f("Split", names("x"), names("y", "z"), "axis", 0, "num_outputs", 2)
	f("Compress", names("x", "i3"), names("y"), "axis", 0)
	f("LayerNormalization", names("x", "one"), names("y"))
	f("LpNormalization", names("x"), names("y"))
	f("ReverseSequence", names("x", "k"), names("y"))
	f("Tile", names("x", "one"), names("y"))
	f("MatMul", names("x", "x"), names("y"))
	f("Einsum", names("x"), names("y"), "equation", "ab->b")
	f("Trilu", names("x"), names("y"))
	f("EyeLike", names("x"), names("y"))
	f("OneHot", names("x", "one", "one"), names("y"))
	const wide = 1 << 30
	several := func(op string, result tensor.DType, operands infos, attributes ...*onnxpb.AttributeProto) {
		var in []string
		for _, v := range operands {
			in = append(in, v.Name)
		}
		m := model(graph(operands, infos{unranked("y", result)}, node(op, in, names("y"), attributes...)))
		out = append(out, of(fmt.Sprintf("%s of several, case %d", op, len(out)), "either", m))
	}
	a := func(shape ...any) *onnxpb.ValueInfoProto { return value("a", f32, shape...) }
	b := func(shape ...any) *onnxpb.ValueInfoProto { return value("b", f32, shape...) }
	c := func(shape ...any) *onnxpb.ValueInfoProto { return value("c", f32, shape...) }
	index := func(shape ...any) *onnxpb.ValueInfoProto { return value("i", i64, shape...) }
	several("NonMaxSuppression", i64, infos{a(wide, 0, 4), b(wide, 1, 0), value("k", i64)})
	several("NonMaxSuppression", i64, infos{a(1, 0, 4), b(1, wide, 0), value("k", i64)})
	several("ScatterND", f32, infos{a(0, wide), index(0, 2), b(0)})
	several("ScatterND", f32, infos{a(wide, 0), index(wide, 0, 1), b(wide, 0, 0)})
	several("ScatterND", f32, infos{a(wide, 0), index(0, wide, 1), b(0, wide, 0)})
	several("ScatterElements", f32, infos{a(0, wide), index(0, wide), b(0, wide)}, attribute("axis", 1))
	several("GatherElements", f32, infos{a(0, wide), index(0, wide)}, attribute("axis", 1))
	several("GatherND", f32, infos{a(0, wide), index(wide, 0, 1)})
	several("MatMul", f32, infos{a(0, wide), b(wide, 0)})
	several("MatMul", f32, infos{a(wide, 3, 0), b(wide, 0, 0)})
	several("Conv", f32, infos{a(0, 1, wide), b(1, 1, 1)})
	several("ConvTranspose", f32, infos{a(0, 1, wide), b(1, 1, 1)})
	several("InstanceNormalization", f32, infos{a(wide, 0, 3), b(0), c(0)})
	several("GroupNormalization", f32, infos{a(0, 3, wide), b(3), c(3)}, attribute("num_groups", 1))
	several("LSTM", f32, infos{a(wide, 0, 1), b(1, 4, 1), c(1, 4, 1)}, attribute("hidden_size", 1))
	several("GRU", f32, infos{a(wide, 0, 1), b(1, 3, 1), c(1, 3, 1)}, attribute("hidden_size", 1))
	several("ReverseSequence", f32, infos{a(0, wide), index(0)}, attribute("time_axis", 1), attribute("batch_axis", 0))
	several("DequantizeLinear", f32, infos{value("q", tensor.I8, 0, wide), b(0, wide/2)}, attribute("axis", 1), attribute("block_size", 2))
	several("MaxPool", f32, infos{a(wide, 0, wide)}, attribute("kernel_shape", []int64{1}))
	several("LRN", f32, infos{a(wide, 1, 0)}, attribute("size", 3))
	several("DepthToSpace", f32, infos{a(wide, 4, 0, 1)}, attribute("blocksize", 2))
	several("Multinomial", tensor.I32, infos{a(0, wide)}, attribute("sample_size", 2))
	several("StringConcat", tensor.String, infos{value("s", tensor.String, 0, wide), value("u", tensor.String, 0, wide)})
	several("Det", f32, infos{a(0, wide, 3, 3)})
	several("RoiAlign", f32, infos{a(1, wide, 0, 0), b(0, 4), index(0)})
	several("MaxRoiPool", f32, infos{a(1, wide, 0, 0), b(0, 5)}, attribute("pooled_shape", []int64{1, 1}))
	several("GridSample", f32, infos{a(0, 1, wide, 1), b(0, wide, 1, 2)})
	return out
}
