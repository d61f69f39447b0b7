package ir

// Pad puts Before[i] and After[i] elements around axis i; negative numbers take elements away. Operand 1 is the scalar
// that PadConstant writes (absent: zero).
type Pad struct {
	Mode          PadMode
	Before, After []Dim
}

// Kind implements Op.
func (Pad) Kind() Kind { return KindPad }

// Tile repeats its operand Repeats[i] times along axis i.
type Tile struct{ Repeats []Dim }

// Kind implements Op.
func (Tile) Kind() Kind { return KindTile }

// Trilu keeps the triangle of each matrix (the last two axes) on and above the K-th diagonal when Upper, on and below it
// otherwise, and zeroes the rest.
type Trilu struct {
	Upper bool
	K     int
}

// Kind implements Op.
func (Trilu) Kind() Kind { return KindTrilu }
