package ir

import "fmt"

// enumText and parseEnum let the small enumerations of op fields print and parse by name.
func enumText[E ~uint8](e E, names []string) string {
	if int(e) < len(names) && names[e] != "" {
		return names[e]
	}
	return fmt.Sprintf("invalid(%d)", e)
}

func parseEnum[E ~uint8](text []byte, names []string) (E, error) {
	for i, n := range names {
		if n == string(text) && n != "" {
			return E(i), nil
		}
	}
	return 0, fmt.Errorf("%q is not one of %v", text, names)
}

// Reduction is how scattered values are combined with existing ones, or which reduction runs along axes.
type Reduction uint8

// The reductions.
const (
	NoReduction Reduction = iota // scatter: replace
	Sum
	Mean
	MaxOf
	MinOf
	Prod
	L1
	L2
	LogSum
	LogSumExp
	SumSquare
	NumReductions
)

var reductionNames = []string{"none", "sum", "mean", "max", "min", "prod", "l1", "l2", "log_sum", "log_sum_exp", "sum_square"}

// String is the reduction's name in the IR.
func (r Reduction) String() string { return enumText(r, reductionNames) }

// MarshalText prints the name.
func (r Reduction) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads the name.
func (r *Reduction) UnmarshalText(b []byte) (err error) {
	*r, err = parseEnum[Reduction](b, reductionNames)
	return err
}

// PadMode is what Pad puts beyond the edges.
type PadMode uint8

// The modes of ONNX's Pad.
const (
	PadConstant PadMode = iota
	PadReflect
	PadEdge
	PadWrap
)

var padModeNames = []string{"constant", "reflect", "edge", "wrap"}

// String is the mode's name in the IR and in ONNX.
func (p PadMode) String() string { return enumText(p, padModeNames) }

// MarshalText prints the name.
func (p PadMode) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText reads the name.
func (p *PadMode) UnmarshalText(b []byte) (err error) {
	*p, err = parseEnum[PadMode](b, padModeNames)
	return err
}
