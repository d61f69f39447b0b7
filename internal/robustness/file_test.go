package robustness

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/rlxc/rlxc/onnx"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// good is a small model of everything that a file usually has.
func good() *onnxpb.ModelProto {
	g := graph(infos{value("x", f32, "n", 4)}, infos{value("y", f32, "n", 4)},
		node("MatMul", names("x", "w"), names("h")), node("Relu", names("h"), names("y")))
	g.Initializer = []*onnxpb.TensorProto{onnx.FromTensor("w", tensor.New(f32, 4, 4))}
	return model(g)
}

// truncated files, and files with one bit flipped: refused, or another model, in good order.
func truncated() (out []hostile) {
	data := encode(good())
	for n := range 24 {
		out = append(out, hostile{name: fmt.Sprintf("first %d of 24 parts", n), model: data[:len(data)*n/24], want: "refused "})
	}
	for n := range 40 {
		flipped := bytes.Clone(data)
		at := len(data) * n / 40
		flipped[at] ^= 1 << (n % 8)
		out = append(out, hostile{name: fmt.Sprintf("bit %d of byte %d flipped", n%8, at), model: flipped, want: "either"})
	}
	return out
}

// wire: what protobuf's encoding allows and forbids.
func wire() (out []hostile) {
	data := encode(good())
	raw := func(name, want string, model []byte) {
		out = append(out, hostile{name: name, model: model, want: want})
	}
	raw("empty", "refused ", nil)
	raw("zeros", "refused ", make([]byte, 4096))
	raw("text", "refused ", []byte("this is not a model, it is a sentence"))
	raw("git-lfs pointer", "refused ", []byte("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12345\n"))
	raw("html", "refused ", []byte("<!DOCTYPE html><html><body>404</body></html>"))
	raw("zip", "refused ", []byte("PK\x03\x04\x14\x00\x00\x00\x08\x00"))
	raw("gzip", "refused ", []byte("\x1f\x8b\x08\x00\x00\x00\x00\x00"))
	raw("a compiled model cut off", "refused ", []byte("\x89rlxc\r\n\x1a\x01\x00\x00\x00"))
	raw("11-byte varint", "refused ", append(append([]byte{0x08}, bytes.Repeat([]byte{0xff}, 10)...), 0x01))
	raw("10-byte varint above 64 bits", "refused ", append(append([]byte{0x08}, bytes.Repeat([]byte{0xff}, 9)...), 0x7f))
	raw("length above the file", "refused ", protowire.AppendVarint(protowire.AppendTag(nil, 7, protowire.BytesType), 1<<40))
	raw("length of 2^63", "refused ", protowire.AppendVarint(protowire.AppendTag(nil, 7, protowire.BytesType), 1<<63))
	raw("field number 0", "refused ", append([]byte{0x02, 0x00}, data...))
	raw("wire type 6", "refused ", append([]byte{0x0e}, data...))
	raw("end of a group that did not begin", "refused ", append([]byte{0x0c}, data...))
	raw("group that does not end", "refused ", append([]byte{0x0b}, data...))
	raw("unknown field", "either", append(protowire.AppendBytes(protowire.AppendTag(nil, 1000, protowire.BytesType), []byte("x")), data...))
	for _, depth := range []int{34, 101, 1000, 5000} {
		var nested []byte
		for range depth { // GraphProto.node.attribute.g, three messages a level
			a := protowire.AppendBytes(protowire.AppendTag(nil, 6, protowire.BytesType), nested)
			n := protowire.AppendBytes(protowire.AppendTag(nil, 5, protowire.BytesType), a)
			nested = protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), n)
		}
		raw(fmt.Sprintf("graphs nested %d deep", depth), "refused ",
			protowire.AppendBytes(protowire.AppendTag(nil, 7, protowire.BytesType), nested))
	}
	var groups []byte
	for range 100_000 {
		groups = append(groups, 0x0b)
	}
	raw("groups nested 100000 deep", "refused ", groups)
	raw("name that is not UTF-8", "either", bytes.Replace(data, []byte("MatMul"), []byte("Mat\xff\xfel"), 1))
	twice := good()
	raw("model twice", "refused ", append(encode(twice), encode(twice)...))
	for _, version := range []int64{0, -1, 1, 2, 99, 1 << 62} {
		m := good()
		m.IrVersion = version
		out = append(out, of(fmt.Sprintf("IR version %d", version), "either", m))
	}
	for _, version := range []int64{0, -1, 3, 29, 1 << 40} {
		m := good()
		m.OpsetImport[0].Version = version
		out = append(out, of(fmt.Sprintf("opset %d", version), "refused ", m))
	}
	for _, domain := range []string{"com.microsoft", "ai.onnx.ml", "ai.onnx.preview", "elsewhere"} {
		m := good()
		m.OpsetImport = append(m.OpsetImport[:1], &onnxpb.OperatorSetIdProto{Domain: domain, Version: 9})
		want := "refused version 9 of the operators of " + domain
		if domain == "elsewhere" { // its owner may know
			want = "returns "
		}
		out = append(out, of("version 9 of "+domain, want, m))
	}
	m := good()
	m.OpsetImport = nil
	out = append(out, of("no opset", "refused ", m))
	m = good()
	m.OpsetImport = append(m.OpsetImport, &onnxpb.OperatorSetIdProto{Version: 13})
	out = append(out, of("two opsets", "refused ", m))
	m = good()
	m.Graph = nil
	out = append(out, of("no graph", "refused ", m))
	return out
}

// externalData: tensors whose content is said to be somewhere.
func externalData() (out []hostile) {
	at := func(name, want string, entries map[string]string, files map[string][]byte, prepare func(dir, outside string) error) {
		m := good()
		w := m.Graph.Initializer[0]
		w.RawData, w.DataLocation = nil, onnxpb.TensorProto_EXTERNAL
		for _, k := range []string{"location", "offset", "length", "checksum", "basepath", "Location"} {
			if v, ok := entries[k]; ok {
				w.ExternalData = append(w.ExternalData, &onnxpb.StringStringEntryProto{Key: k, Value: v})
			}
		}
		c := of(name, want, m)
		c.files, c.prepare = files, prepare
		out = append(out, c)
	}
	weights := map[string][]byte{"w.bin": make([]byte, 64), "big.bin": make([]byte, 1<<16)}
	location := func(l string) map[string]string { return map[string]string{"location": l} }
	at("in order", "returns f32[2,4]", location("w.bin"), weights, nil)
	at("no location", "refused ", nil, weights, nil)
	at("with a checksum", "returns f32[2,4]", map[string]string{"location": "w.bin", "checksum": "00"}, weights, nil)
	at("unknown key", "refused basepath", map[string]string{"location": "w.bin", "basepath": "../outside"}, weights, nil)
	at("key twice in two cases", "refused Location", map[string]string{"location": "w.bin", "Location": "../outside/secret"}, weights, nil)
	for name, l := range map[string]string{
		"missing file": "none.bin", "empty": "", "dot": ".", "the folder above": "../outside/secret",
		"dot dot inside": "a/../../outside/secret",
		"two dots":       "..", "root": "/", "absolute": "/etc/hostname", "NUL": "w.bin\x00.txt",
		"NUL before dots": "w\x00/../../outside/secret", "backslash": `..\outside\secret`,
		"drive": `C:\secret`, "URL": "http://localhost/secret", "file URL": "file:///etc/hostname", "trailing slash": "w.bin/",
		"device": "/dev/zero", "proc": "/proc/self/environ",
		"home": "~/secret", "variable": "$HOME/secret", "very long": strings.Repeat("a", 5000), "slashes": "//w.bin",
		"newline": "w\n.bin", "escape": "\x1b[31mw.bin",
	} {
		at("location: "+name, "refused ", location(l), weights, nil)
	}
	for name, e := range map[string][2]string{
		"offset at the end": {"64", "64"}, "offset beyond": {"1000000", "64"}, "negative offset": {"-1", "64"},
		"offset of 2^63":        {"9223372036854775808", "64"},
		"offset + length wraps": {"9223372036854775807", "64"}, "negative length": {"0", "-64"}, "length above the file": {"0", "65"},
		"shorter than the shape": {"0", "32"},
		"offset no number":       {"x", "64"}, "length no number": {"0", "x"}, "hexadecimal": {"0x0", "64"},
		"length of 2^64": {"0", "18446744073709551616"},
	} {
		at("range: "+name, "refused ", map[string]string{"location": "w.bin", "offset": e[0], "length": e[1]}, weights, nil)
	}
	link := func(target func(dir, outside string) string) func(dir, outside string) error {
		return func(dir, outside string) error {
			return os.Symlink(target(dir, outside), filepath.Join(dir, "link.bin"))
		}
	}
	at("symbolic link outside", "refused ", location("link.bin"), nil,
		link(func(_, outside string) string { return filepath.Join(outside, "secret") }))
	at("relative link outside", "refused ", location("link.bin"), nil, link(func(string, string) string { return "../outside/secret" }))
	at("link to itself", "refused ", location("link.bin"), nil, link(func(string, string) string { return "link.bin" }))
	at("link to a device", "refused ", location("link.bin"), nil, link(func(string, string) string { return "/dev/zero" }))
	at("link to a folder", "refused ", location("link.bin/secret"), nil, link(func(_, outside string) string { return outside }))
	at("folder", "refused ", location("sub"), nil, func(dir, _ string) error { return os.Mkdir(filepath.Join(dir, "sub"), 0o755) })
	return out
}
