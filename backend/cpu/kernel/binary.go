package kernel

// BinaryOp names a function of two float32.
type BinaryOp uint8

const (
	Add BinaryOp = iota
	Sub
	Mul
	Div
	Min   // NaN if either is
	Max   // NaN if either is
	PRelu // a·b where a is below 0, a otherwise
	NumBinary
)

// Shapes of the right operand of a binary kernel.
const (
	elementwise = iota // b has an element for each of a
	perRow             // b has one element a row
	perRowLeft         // likewise, and it is the left operand
	numBinaryForms
)

// binaryFunc applies a function to rows × cols elements; strides between rows count elements and may be 0 for an
// operand that all rows share. dst may be an operand.
type binaryFunc func(dst *float32, dstRow int, a *float32, aRow int, b *float32, bRow int, rows, cols int)

// Rows is an operand of rows × cols elements: element (r, c) is at r·Row + c·Col, where Col is 1, or 0 if all
// elements of a row are the same. Row may be 0.
type Rows struct {
	Data     []float32
	Row, Col int
}

// Binary applies op to the elements of a and b, which have equal length. dst may be an operand.
func (s *Set) Binary(op BinaryOp, dst, a, b []float32) {
	dst, b = dst[:len(a)], b[:len(a)]
	for len(a) > 0 {
		n := min(len(a), callElements)
		s.binary[op][elementwise](pointer(dst), 0, pointer(a), 0, pointer(b), 0, 1, n)
		dst, a, b = dst[n:], a[n:], b[n:]
	}
}

// BinaryRows applies op to two operands of rows × cols elements, of which one or both may be broadcast.
func (s *Set) BinaryRows(op BinaryOp, dst []float32, dstRow int, a, b Rows, rows, cols int) {
	if rows == 0 || cols == 0 {
		return
	}
	_ = dst[(rows-1)*dstRow+cols-1]
	_ = a.Data[(rows-1)*a.Row+(cols-1)*a.Col]
	_ = b.Data[(rows-1)*b.Row+(cols-1)*b.Col]
	form := elementwise
	switch {
	case cols == 1: // one column is elementwise whatever the strides
	case a.Col == 0 && b.Col == 0:
		// Both are constant along the row: compute the first column, then spread it.
		s.BinaryRows(op, dst, dstRow, a, b, rows, 1)
		for r := range rows {
			row := dst[r*dstRow:][:cols]
			for c := range row {
				row[c] = row[0]
			}
		}
		return
	case b.Col == 0:
		form = perRow
	case a.Col == 0:
		form, a, b = perRowLeft, b, a
	}
	step := rowsPerCall(cols)
	for r := 0; r < rows; r += step {
		s.binary[op][form](pointerAt(dst, r*dstRow), dstRow, pointerAt(a.Data, r*a.Row), a.Row, pointerAt(b.Data, r*b.Row), b.Row,
			min(step, rows-r), cols)
	}
}

// binaryGeneric are the plain Go forms.
var binaryGeneric = [NumBinary][numBinaryForms]binaryFunc{
	Add:   forms(func(x, y float32) float32 { return x + y }),
	Sub:   forms(func(x, y float32) float32 { return x - y }),
	Mul:   forms(func(x, y float32) float32 { return x * y }),
	Div:   forms(func(x, y float32) float32 { return x / y }),
	Min:   forms(func(x, y float32) float32 { return min(x, y) }),
	Max:   forms(func(x, y float32) float32 { return max(x, y) }),
	PRelu: forms(prelu),
}

func prelu(x, y float32) float32 {
	if x < 0 {
		return x * y
	}
	return x
}

func forms(f func(x, y float32) float32) [numBinaryForms]binaryFunc {
	form := func(bCol int, f func(x, y float32) float32) binaryFunc {
		return func(dst *float32, dstRow int, a *float32, aRow int, b *float32, bRow int, rows, cols int) {
			for r := range rows {
				for c := range cols {
					*offset(dst, r*dstRow+c) = f(*offset(a, r*aRow+c), *offset(b, r*bRow+c*bCol))
				}
			}
		}
	}
	return [numBinaryForms]binaryFunc{
		elementwise: form(1, f),
		perRow:      form(0, f),
		perRowLeft:  form(0, func(x, y float32) float32 { return f(y, x) }),
	}
}
