// Package packed describes the layout of constant matrices for the kernels of a processor: in panels of columns. The IR carries the
// description and compiled files store its text; backend cpu makes and reads what it describes.
package packed

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/rlxc/rlxc/tensor"
)

// Form says what the elements of a packed matrix are and which of them make a word.
type Form uint8

// The forms. A word is four bytes, but for those that are widened.
const (
	Invalid  Form = iota
	F32           // float32
	BF16          // two bfloat16 of one column
	S8            // four 8-bit integers of one column; the sums of the columns follow
	S8Scaled      // S8; the scales of the columns, float32, follow the sums
	Q4            // eight 4-bit integers of one column, in blocks with a scale and an offset
	Q8            // four 8-bit integers of one column, in such blocks
	F16Wide       // float16, which is as its float32 would: each product widens it first
	BF16Wide      // bfloat16 likewise
	Winograd      // float32: the matrices of a transformed window, one after the other, each as F32
	numForms
)

// texts are the layouts of each form as text, with the widths of panel and vector.
var texts = [numForms]string{
	F32: "f32/%d/%d", BF16: "bf16/%d/%d", S8: "s8/%d/%d", S8Scaled: "s8/%d/%d/scaled", Q4: "q4x8/%d/%d", Q8: "q8x4/%d/%d",
	F16Wide: "f16 as f32/%d/%d", BF16Wide: "bf16 as f32/%d/%d", Winograd: "winograd f32/%d/%d",
}

// elements are the types of the weights, for messages.
var elements = [numForms]string{F32: "f32", BF16: "bf16", S8: "s8", S8Scaled: "s8", Q4: "q4", Q8: "q8", F16Wide: "f16", BF16Wide: "bf16",
	Winograd: "f32"}

// String is the type of the elements.
func (f Form) String() string { return elements[min(f, numForms-1)] }

// A Layout is a form in panels. Each panel holds Panel columns, the last as many as are left, rounded up to a multiple of Vector;
// word i of all columns of a panel comes before word i+1. In a deep one the same holds of pairs of words, the last of an odd number
// alone.
type Layout struct {
	Form          Form
	Panel, Vector int
	Deep          bool
	Block         int // elements of a column with one scale, of Q4 and Q8, where no op says it; 0 for all
}

// deep follows the text of such a layout.
const deep = "/deep"

// block follows the text of one with blocks.
const block = "/blocks of %d"

// maxBlock bounds the length of blocks in files.
const maxBlock = 1 << 28

// String is the text of a layout, which Parse reads.
func (l Layout) String() string {
	if l.Form == Invalid || l.Form >= numForms {
		return fmt.Sprintf("invalid form %d", l.Form)
	}
	text := fmt.Sprintf(texts[l.Form], l.Panel, l.Vector)
	if l.Deep {
		text += deep
	}
	if l.Block > 0 {
		text += fmt.Sprintf(block, l.Block)
	}
	return text
}

// maxPanel bounds the columns of a panel in files.
const maxPanel = 1 << 16

// Parse reads the text of a layout, as compiled files have it.
func Parse(text string) (Layout, error) {
	front, rest, _ := strings.Cut(text, block[:len(block)-len("%d")])
	_, isDeep := strings.CutSuffix(front, deep)
	length, _ := strconv.Atoi(rest)
	for form := Invalid + 1; form < numForms; form++ {
		l := Layout{Form: form, Deep: isDeep, Block: length}
		if n, _ := fmt.Sscanf(text, texts[form], &l.Panel, &l.Vector); n != 2 || l.String() != text {
			continue
		}
		if l.Vector > 0 && l.Panel > 0 && l.Panel <= maxPanel && l.Panel%l.Vector == 0 &&
			(length == 0 || (form == Q4 || form == Q8) && length%8 == 0 && length <= maxBlock) {
			return l, nil
		}
	}
	return Layout{}, fmt.Errorf("unknown packed layout %q: compile the model again", text)
}

// Wide is the form of 16-bit floats of type t that each product widens.
func Wide(t tensor.DType) Form {
	switch t {
	case tensor.F16:
		return F16Wide
	case tensor.BF16:
		return BF16Wide
	}
	return Invalid
}

// IsWide reports whether each product widens the elements.
func (f Form) IsWide() bool { return f == F16Wide || f == BF16Wide }

// Columns is the length of n columns in a packed matrix: whole vectors.
func (l Layout) Columns(n int) int { return (n + l.Vector - 1) / l.Vector * l.Vector }

// Word is the position of word i of column c in a panel of that many words and columns.
func (l Layout) Word(i, c, words, columns int) int {
	if l.Deep && i|1 < words {
		return (i-i%2)*columns + 2*c + i%2
	}
	return i*columns + c
}
