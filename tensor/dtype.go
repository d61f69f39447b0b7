// Package tensor defines element types, shapes, and typed tensors over bytes, which all other packages use. It imports nothing of rlxc.
package tensor

import "fmt"

// A DType is an element type. The numbers are those of ONNX's TensorProto.DataType, so that reading a model needs no second table. A test
// in package onnx checks that they are equal.
type DType uint8

// The element types of ONNX.
const (
	Invalid DType = iota
	F32
	U8
	I8
	U16
	I16
	I32
	I64
	String
	Bool
	F16
	F64
	U32
	U64
	C64
	C128
	BF16
	F8E4M3FN
	F8E4M3FNUZ
	F8E5M2
	F8E5M2FNUZ
	U4
	I4
	F4E2M1
	F8E8M0
	U2
	I2
	NumDTypes
)

// TF32 is not an element type. It is the precision of products whose float32 operands are rounded to the ten bits of mantissa of the
// matrix units of GPUs.
const TF32 DType = 0x80

// A class says how the elements of a type compare and compute.
type class uint8

const (
	none class = iota
	float
	signed
	unsigned
	boolean
	text
	complexNumber
)

// dtypes is the one table of element types: the name that the IR and reports print, NumPy's descriptor (empty where
// NumPy has no such type), ONNX's spelling, and the width in bits.
var dtypes = [NumDTypes]struct {
	name, numpy, onnx string
	bits              int
	class             class
}{
	Invalid:    {"invalid", "", "undefined", 0, none},
	F32:        {"f32", "<f4", "float", 32, float},
	U8:         {"u8", "|u1", "uint8", 8, unsigned},
	I8:         {"i8", "|i1", "int8", 8, signed},
	U16:        {"u16", "<u2", "uint16", 16, unsigned},
	I16:        {"i16", "<i2", "int16", 16, signed},
	I32:        {"i32", "<i4", "int32", 32, signed},
	I64:        {"i64", "<i8", "int64", 64, signed},
	String:     {"str", "", "string", 0, text},
	Bool:       {"bool", "|b1", "bool", 8, boolean},
	F16:        {"f16", "<f2", "float16", 16, float},
	F64:        {"f64", "<f8", "double", 64, float},
	U32:        {"u32", "<u4", "uint32", 32, unsigned},
	U64:        {"u64", "<u8", "uint64", 64, unsigned},
	C64:        {"c64", "<c8", "complex64", 64, complexNumber},
	C128:       {"c128", "<c16", "complex128", 128, complexNumber},
	BF16:       {"bf16", "", "bfloat16", 16, float},
	F8E4M3FN:   {"f8e4m3fn", "", "float8e4m3fn", 8, float},
	F8E4M3FNUZ: {"f8e4m3fnuz", "", "float8e4m3fnuz", 8, float},
	F8E5M2:     {"f8e5m2", "", "float8e5m2", 8, float},
	F8E5M2FNUZ: {"f8e5m2fnuz", "", "float8e5m2fnuz", 8, float},
	U4:         {"u4", "", "uint4", 4, unsigned},
	I4:         {"i4", "", "int4", 4, signed},
	F4E2M1:     {"f4e2m1", "", "float4e2m1", 4, float},
	F8E8M0:     {"f8e8m0", "", "float8e8m0", 8, float},
	U2:         {"u2", "", "uint2", 2, unsigned},
	I2:         {"i2", "", "int2", 2, signed},
}

func (d DType) row() int {
	if d >= NumDTypes {
		return int(Invalid)
	}
	return int(d)
}

// String returns the short name that the IR prints, such as "f32".
func (d DType) String() string {
	if d == TF32 {
		return "tf32"
	}
	return dtypes[d.row()].name
}

// ONNX returns ONNX's own name, such as "float16", for messages about models.
func (d DType) ONNX() string { return dtypes[d.row()].onnx }

// Bits is the width of one element; 0 for strings.
func (d DType) Bits() int { return dtypes[d.row()].bits }

// Size is the width of one element in bytes. It is 0 for strings, and for sub-byte types, which pack several elements in a byte.
func (d DType) Size() int { return dtypes[d.row()].bits / 8 }

// Valid reports whether d is one of the types above.
func (d DType) Valid() bool { return d > Invalid && d < NumDTypes }

// IsFloat reports whether d is a floating-point type of any width.
func (d DType) IsFloat() bool { return dtypes[d.row()].class == float }

// IsInt reports whether d is a signed or unsigned integer type.
func (d DType) IsInt() bool { return d.IsSigned() || d.IsUnsigned() }

// IsSigned reports whether d is a signed integer type.
func (d DType) IsSigned() bool { return dtypes[d.row()].class == signed }

// IsUnsigned reports whether d is an unsigned integer type.
func (d DType) IsUnsigned() bool { return dtypes[d.row()].class == unsigned }

// IsComplex reports whether d is a complex type.
func (d DType) IsComplex() bool { return dtypes[d.row()].class == complexNumber }

// Bytes is the memory of n elements, with sub-byte types packed. It is 0 for strings.
func (d DType) Bytes(n int) int { return (n*d.Bits() + 7) / 8 }

// ParseDType reads the short name that String prints. It fails if the name is unknown.
func ParseDType(s string) (DType, error) {
	for d := F32; d < NumDTypes; d++ {
		if dtypes[d].name == s {
			return d, nil
		}
	}
	return Invalid, fmt.Errorf("unknown element type %q", s)
}

// MarshalText and UnmarshalText make a DType print by name in the IR and in JSON. It never fails.
func (d DType) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads what MarshalText wrote. It fails if the name is unknown.
func (d *DType) UnmarshalText(b []byte) error {
	if string(b) == TF32.String() {
		*d = TF32
		return nil
	}
	v, err := ParseDType(string(b))
	*d = v
	return err
}
