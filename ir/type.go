package ir

import (
	"strings"
)

// String prints "f32[batch,seq,128]", "i64[]" for a scalar, "f32[*]" where the rank is unknown, "seq<…>" and "opt<…>".
func (t Type) String() string {
	switch t.Kind {
	case SequenceType:
		return "seq<" + t.Elem.String() + ">"
	case OptionalType:
		return "opt<" + t.Elem.String() + ">"
	}
	if t.Unranked {
		return t.DType.String() + "[*]"
	}
	return t.DType.String() + t.Shape.String()
}

// String prints "[batch,seq,128]".
func (s Shape) String() string {
	parts := make([]string, len(s))
	for i, d := range s {
		parts[i] = d.String()
	}
	return "[" + strings.Join(parts, ",") + "]"
}
