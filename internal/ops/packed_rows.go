package ops

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/x448/float16"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// GatherPacked gathers rows of a table u8[rows,bytes] and dequantises them. A row holds K numbers in blocks of a format that GGUF files
// have. An index outside of the table means row 0.
type GatherPacked struct {
	ir.Opaque[GatherPacked]
	Format int // GGUF's number: see RowFormats
	K      int // numbers of a row
	To     tensor.DType
}

// A RowFormat is how a block of numbers is stored.
type RowFormat struct {
	Name    string
	Numbers int // weights per block
	Bytes   int // bytes per block
	// decode writes the numbers of a block.
	decode func(block []byte, y []float32)
}

// RowFormats are the formats by their numbers in GGUF. Those whose numbers are elements of tables of hundreds of vectors are not among
// them: IQ2_XXS (16), IQ2_XS (17), IQ3_XXS (18) and IQ2_S (22).
var RowFormats = map[int]RowFormat{
	0:  {"F32", 1, 4, func(b []byte, y []float32) { y[0] = math.Float32frombits(binary.LittleEndian.Uint32(b)) }},
	1:  {"F16", 1, 2, func(b []byte, y []float32) { y[0] = halfAt(b, 0) }},
	2:  {"Q4_0", 32, 18, decodeQ4},
	6:  {"Q5_0", 32, 22, decodeQ5},
	8:  {"Q8_0", 32, 34, decodeQ8},
	13: {"Q5_K", 256, 176, decodeQ5K},
	14: {"Q6_K", 256, 210, decodeQ6K},
	20: {"IQ4_NL", 32, 18, decodeIQ4NL},
	23: {"IQ4_XS", 256, 136, decodeIQ4XS},
	30: {"BF16", 1, 2, func(b []byte, y []float32) {
		y[0] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(b)) << 16)
	}},
	42: {"Q2_0", 64, 18, decodeQ2},
}

func halfAt(b []byte, at int) float32 {
	return float16.Frombits(binary.LittleEndian.Uint16(b[at:])).Float32()
}

// decodeQ2 has a scale and 64 numbers of 2 bits, less 1.
func decodeQ2(b []byte, y []float32) {
	d := halfAt(b, 0)
	for i := range y {
		y[i] = float32(int(b[2+i/4]>>(i%4*2)&3)-1) * d
	}
}

// decodeQ4 has a scale and 16 bytes with two numbers each, of which the second is 16 positions after the first.
func decodeQ4(b []byte, y []float32) {
	d := halfAt(b, 0)
	for i, q := range b[2:18] {
		y[i], y[i+16] = float32(int(q&15)-8)*d, float32(int(q>>4)-8)*d
	}
}

// decodeQ5 has fifth bits in 32 bits before the bytes of decodeQ4.
func decodeQ5(b []byte, y []float32) {
	d, high := halfAt(b, 0), binary.LittleEndian.Uint32(b[2:])
	for i, q := range b[6:22] {
		y[i] = float32(int(q&15|byte(high>>i&1)<<4)-16) * d
		y[i+16] = float32(int(q>>4|byte(high>>(i+16)&1)<<4)-16) * d
	}
}

func decodeQ8(b []byte, y []float32) {
	d := halfAt(b, 0)
	for i, q := range b[2:34] {
		y[i] = float32(int8(q)) * d
	}
}

// decodeQ5K has 8 groups of 32 numbers of 5 bits. A group has a scale and a minimum of 6 bits each, in 12 bytes.
func decodeQ5K(b []byte, y []float32) {
	d, least, scales, high, low := halfAt(b, 0), halfAt(b, 2), b[4:16], b[16:48], b[48:176]
	for g := range 8 {
		s, m := scales[g%4]&63, scales[g%4+4]&63
		if g >= 4 {
			s = scales[g+4]&15 | scales[g-4]>>6<<4
			m = scales[g+4]>>4 | scales[g]>>6<<4
		}
		by, less := d*float32(s), least*float32(m)
		for i := range 32 {
			q := low[g/2*32+i]>>(g%2*4)&15 | high[i]>>g&1<<4
			y[g*32+i] = by*float32(q) - less
		}
	}
}

// decodeQ6K has two halves of 128 numbers of 6 bits, and a scale of 8 bits for each 16 numbers.
func decodeQ6K(b []byte, y []float32) {
	low, high, scales, d := b[:128], b[128:192], b[192:208], halfAt(b, 208)
	for i := range y {
		half, quarter, l := i/128, i/32%4, i%32
		q := low[half*64+quarter%2*32+l]>>(quarter/2*4)&15 | high[half*32+l]>>(quarter*2)&3<<4
		y[i] = d * float32(int8(scales[i/16])) * float32(int(q)-32)
	}
}

// levelsIQ4 are the 16 values of the formats IQ4: denser around 0.
var levelsIQ4 = [16]float32{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}

func decodeIQ4NL(b []byte, y []float32) {
	d := halfAt(b, 0)
	for i, q := range b[2:18] {
		y[i], y[i+16] = d*levelsIQ4[q&15], d*levelsIQ4[q>>4]
	}
}

// decodeIQ4XS has 8 groups of 32 numbers, each with a scale of 6 bits: 2 of them in 16 bits, 4 in 4 bytes.
func decodeIQ4XS(b []byte, y []float32) {
	d, high := halfAt(b, 0), binary.LittleEndian.Uint16(b[2:])
	for g := range 8 {
		s := int(b[4+g/2]>>(g%2*4)&15) | int(high>>(g*2)&3)<<4
		by := d * float32(s-32)
		for i, q := range b[8+g*16:][:16] {
			y[g*32+i], y[g*32+i+16] = by*levelsIQ4[q&15], by*levelsIQ4[q>>4]
		}
	}
}

func (o GatherPacked) Infer(in []*ir.Value) ([]ir.Type, error) {
	f, ok := RowFormats[o.Format]
	data := in[0].Type
	switch {
	case !ok || o.K < 1 || o.K > MaxSize || o.K%f.Numbers != 0:
		return nil, fmt.Errorf("rows of %d numbers in format %d", o.K, o.Format)
	case data.DType != tensor.U8 || len(data.Shape) != 2 || ir.Same(data.Shape[1], ir.N(o.rowBytes())) == ir.No:
		return nil, fmt.Errorf("table %v: want u8 with rows of %d bytes, which %d numbers in format %s have", data, o.rowBytes(), o.K,
			f.Name)
	}
	return []ir.Type{ir.TensorOf(o.To, append(slices.Clone(in[1].Type.Shape), ir.N(o.K))...)}, nil
}

func (o GatherPacked) rowBytes() int {
	f := RowFormats[o.Format]
	return o.K / f.Numbers * f.Bytes
}

// Eval implements ir.Op.
func (o GatherPacked) Eval(env *ir.Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	f, size, rows := RowFormats[o.Format], o.rowBytes(), in[0].Shape()[0]
	y := env.New(o.To, append(in[1].Shape().Clone(), o.K)...)
	if in[1].Len() > 0 && rows == 0 {
		return nil, fmt.Errorf("the table has no rows for %d indices", in[1].Len())
	}
	if in[0].Shape()[1] != size {
		return nil, fmt.Errorf("the table is %v: want rows of %d bytes", in[0], size)
	}
	block := make([]float32, f.Numbers)
	for i := range env.Range(in[1].Len()) {
		at := in[1].Int64(i)
		if at < 0 || at >= int64(rows) {
			at = 0
		}
		row := in[0].Bytes()[int(at)*size:][:size]
		env.Work(o.K)
		for b := range o.K / f.Numbers {
			f.decode(row[b*f.Bytes:][:f.Bytes], block)
			for k, v := range block {
				y.SetFloat64(i*o.K+b*f.Numbers+k, float64(v))
			}
		}
	}
	return []*tensor.Tensor{y}, nil
}
