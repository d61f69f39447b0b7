package onnx

import (
	"fmt"
	"hash/fnv"
	"io"
	"strings"
	"unicode"

	"github.com/rlxc/rlxc/internal/files"
	"github.com/rlxc/rlxc/onnx/onnxpb"
)

// SizeName is the name of a size that is not a number: the model's own, or one made of the name of the value and the axis.
func SizeName(size *onnxpb.TensorShapeProto_Dimension, value string, axis int) string {
	if own := size.GetDimParam(); named(own) {
		return printable(own)
	}
	return fmt.Sprintf("%s.%d", printable(value), axis)
}

// named reports whether a size has a name. One such as "?", "-1" and "None", which exporters give to every size that they do not know, is
// none.
func named(size string) bool {
	return size != "-1" && size != "None" && strings.ContainsFunc(size,
		func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) })
}

// printable is a model's name of a size as errors can print it: cut, and distinguished by its hash, where it is long.
func printable(name string) string {
	const most = 100
	if len(name) <= most {
		return name
	}
	h := fnv.New64a()
	io.WriteString(h, name)
	return fmt.Sprintf("%s…%x", strings.ToValidUTF8(name[:most], ""), h.Sum64())
}

// Quote prints a name from a model file for a message: see files.Quote.
func Quote(name string) string { return files.Quote(name) }
