package ir

import (
	"strconv"

	"github.com/rlxc/rlxc/internal/packed"
	"github.com/rlxc/rlxc/tensor"
)

// stored reads "section 3" and asks for the content.
func (p *parser) stored(t Type, at int, layout packed.Layout) *tensor.Tensor {
	p.expect("section")
	n := p.int64()
	if p.section == nil {
		p.failAt(at, "there are no sections beside this text")
	}
	x, err := p.section(int(n), t, layout)
	if err != nil {
		p.failAt(at, "section %d: %w", n, err)
	}
	return x
}

// content reads "[1, 2]" or "data" as a tensor of that type.
func (p *parser) content(t Type, at int, seed uint64) *tensor.Tensor {
	shape, ok := t.Static()
	if !ok || !t.DType.Valid() {
		p.failAt(at, "a constant of %v", t)
	}
	n, err := shape.CheckElements(t.DType)
	if err != nil {
		p.failAt(at, "%w", err)
	}
	if p.section == nil && p.skip("data") {
		if p.data += n; p.data > maxTextData {
			p.failAt(at, "the constants have more than %d elements", maxTextData)
		}
		return pseudoRandom(t.DType, shape, seed)
	}
	if n > len(p.src)-p.tok.at { // each takes a letter at least
		p.failAt(at, "%v has more elements than the text", t)
	}
	x := tensor.New(t.DType, shape...)
	i := 0
	p.listOf("[", "]", func() {
		if i == n {
			p.fail("more than %d elements for %v", n, t)
		}
		p.element(x, i)
		i++
	})
	if i != n {
		p.failAt(at, "%d elements for %v", i, t)
	}
	return x
}

func (p *parser) element(x *tensor.Tensor, i int) {
	switch d := x.DType(); {
	case d == tensor.String:
		x.Strings()[i] = p.take(quoted, "a string")
	case d == tensor.Bool:
		if p.skip("true") {
			x.SetInt64(i, 1)
		} else {
			p.expect("false")
		}
	case d == tensor.F64:
		x.SetFloat64(i, p.float(64))
	case d.IsFloat():
		x.SetFloat64(i, p.float(32))
	case d == tensor.U64:
		at := p.tok.at
		u, err := strconv.ParseUint(p.take(number, "a number"), 10, 64)
		if err != nil {
			p.failAt(at, "a whole number expected: %v", err)
		}
		x.SetInt64(i, int64(u))
	case d.IsComplex():
		p.fail("complex constants must be in sections, or be written as data")
	default:
		at := p.tok.at
		n := p.int64()
		if x.SetInt64(i, n); x.Int64(i) != n {
			p.failAt(at, "%d does not fit %s", n, d)
		}
	}
}

// pseudoRandom fills a constant that was printed as data: floats in [−1, 1), whole numbers 0 and 1, the same for the same
// seed. The generator is splitmix64 (Steele et al., 2014).
func pseudoRandom(d tensor.DType, shape tensor.Shape, seed uint64) *tensor.Tensor {
	x := tensor.New(d, shape...)
	if d.IsComplex() {
		return x
	}
	for i := range x.Len() {
		z := (seed<<32 + uint64(i) + 1) * 0x9e3779b97f4a7c15
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		z ^= z >> 31
		switch {
		case d == tensor.String:
			x.Strings()[i] = strconv.FormatUint(z&1, 10)
		case d.IsFloat():
			x.SetFloat64(i, float64(int64(z)>>11)/(1<<52))
		case d.IsUnsigned() || d == tensor.Bool || d.Bits() >= 8:
			x.SetInt64(i, int64(z&1))
		}
	}
	return x
}
