package ops

import (
	_ "embed" // grids
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
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

// RowFormats are the formats by their numbers in GGUF.
var RowFormats = map[int]RowFormat{
	0:  {"F32", 1, 4, func(b []byte, y []float32) { y[0] = math.Float32frombits(binary.LittleEndian.Uint32(b)) }},
	1:  {"F16", 1, 2, func(b []byte, y []float32) { y[0] = halfAt(b, 0) }},
	2:  {"Q4_0", 32, 18, decodeQ4},
	6:  {"Q5_0", 32, 22, decodeQ5},
	8:  {"Q8_0", 32, 34, decodeQ8},
	13: {"Q5_K", 256, 176, decodeQ5K},
	14: {"Q6_K", 256, 210, decodeQ6K},
	16: {"IQ2_XXS", 256, 66, decodeIQ2XXS},
	17: {"IQ2_XS", 256, 74, decodeIQ2XS},
	18: {"IQ3_XXS", 256, 98, decodeIQ3XXS},
	20: {"IQ4_NL", 32, 18, decodeIQ4NL},
	22: {"IQ2_S", 256, 82, decodeIQ2S},
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

// A grid is a table of vectors from which the numbers of the formats IQ2 and IQ3 are made.
type grid struct {
	vectors []byte // 16 bits each: indices of levels, the first number's in the lowest bits
	levels  []float32
	length  int // numbers of a vector: 8, or 4 in the formats IQ3
}

// grids has the vectors of IQ2_XXS, IQ2_XS, IQ2_S and IQ3_XXS, in this order. _gen/grids.py writes the file.
//
//go:embed grids.bin
var grids []byte

var (
	levelsIQ2  = []float32{8, 25, 43}
	levelsIQ3  = []float32{4, 12, 20, 28, 36, 44, 52, 62}
	gridIQ2XXS = grid{grids[:512], levelsIQ2, 8}
	gridIQ2XS  = grid{grids[512:1536], levelsIQ2, 8}
	gridIQ2S   = grid{grids[1536:3584], levelsIQ2, 8}
	gridIQ3XXS = grid{grids[3584:], levelsIQ3, 4}
)

// write stores vector number index times by in y. Bit i of signs negates number i.
func (g grid) write(y []float32, index int, by float32, signs byte) {
	vector, width := binary.LittleEndian.Uint16(g.vectors[2*index:]), 16/g.length
	for i := range g.length {
		y[i] = by * g.levels[vector>>(i*width)&(1<<width-1)]
		if signs>>i&1 != 0 {
			y[i] = -y[i]
		}
	}
}

// evenSigns appends to 7 signs an eighth, such that the number of negative ones is even.
func evenSigns(signs uint32) byte {
	signs &= 127
	return byte(signs | uint32(bits.OnesCount32(signs)&1)<<7)
}

// decodeIQ2XXS has 8 groups of 4 vectors: 4 indices of a byte, and 32 bits with 7 signs of each vector and a scale of 4 bits.
func decodeIQ2XXS(b []byte, y []float32) {
	d := halfAt(b, 0)
	for v := range 32 {
		group := b[2+v/4*8:]
		word := binary.LittleEndian.Uint32(group[4:])
		by := d * (0.5 + float32(word>>28)) * 0.25
		gridIQ2XXS.write(y[v*8:], int(group[v%4]), by, evenSigns(word>>(v%4*7)))
	}
}

// decodeIQ2XS has 32 vectors, each an index of 9 bits and 7 signs, and a scale of 4 bits for each two.
func decodeIQ2XS(b []byte, y []float32) {
	d, scales := halfAt(b, 0), b[66:74]
	for v := range 32 {
		word := binary.LittleEndian.Uint16(b[2+v*2:])
		by := d * (0.5 + float32(scales[v/4]>>(v/2%2*4)&15)) * 0.25
		gridIQ2XS.write(y[v*8:], int(word&511), by, evenSigns(uint32(word>>9)))
	}
}

// decodeIQ2S has 32 vectors, each an index of 8 bits, 8 signs and 2 higher bits of the index, and a scale of 4 bits for each two.
func decodeIQ2S(b []byte, y []float32) {
	d, low, signs, high, scales := halfAt(b, 0), b[2:34], b[34:66], b[66:74], b[74:82]
	for v := range 32 {
		index := int(low[v]) | int(high[v/4]>>(v%4*2)&3)<<8
		by := d * (0.5 + float32(scales[v/4]>>(v/2%2*4)&15)) * 0.25
		gridIQ2S.write(y[v*8:], index, by, signs[v])
	}
}

// decodeIQ3XXS has 64 indices of a byte, then for each 8 of them 32 bits: 7 signs of each two vectors, and a scale of 4 bits.
func decodeIQ3XXS(b []byte, y []float32) {
	d := halfAt(b, 0)
	for v := range 64 {
		word := binary.LittleEndian.Uint32(b[66+v/8*4:])
		by := d * (0.5 + float32(word>>28)) * 0.5
		gridIQ3XXS.write(y[v*4:], int(b[2+v]), by, evenSigns(word>>(v/2%4*7))>>(v%2*4))
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
