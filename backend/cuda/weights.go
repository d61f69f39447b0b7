package cuda

import (
	"runtime"
	"sync"

	"github.com/rlxc/rlxc/internal/driver"
	"github.com/rlxc/rlxc/tensor"
)

// weights are constants on the device, as they are or arranged for a kernel. They share slabs of memory, since the driver rounds
// each allocation up to 2 MiB.
type weights struct {
	at       map[weightKey]driver.Pointer
	slabs    []driver.Pointer
	total    int64                        // bytes of the slabs
	rests    []rest                       // free ends of the slabs
	pinned   map[weightKey]*driver.Pinned // constants that stay on the host
	expected int64                        // estimate of the bytes of all constants that will be uploaded
	taken    int64                        // bytes of the constants that were uploaded
}

// A rest is the free end of a slab.
type rest struct {
	at   driver.Pointer
	size int64
}

type weightKey struct {
	*tensor.Tensor
	how string // the arrangement; empty for none
}

// The sizes of slabs. If the sizes of all constants are known, a slab is as large as those that remain, so that no memory is left over.
// Otherwise slabs grow with the total. A constant larger than half of a slab has separate memory.
const (
	smallestSlab = 2 << 20
	ordinarySlab = 16 << 20
	largestSlab  = 256 << 20
)

// inSlab is the size of a constant's memory in a slab.
func inSlab(size int64) int64 { return max(1, (size+alignment-1)/alignment) * alignment }

// alloc allocates memory for a constant.
func (m *weights) alloc(c *driver.Context, size int64) (driver.Pointer, error) {
	size = inSlab(size)
	m.taken += size
	for i := range m.rests {
		if r := &m.rests[i]; size <= r.size {
			p := r.at
			r.at, r.size = p+driver.Pointer(size), r.size-size
			return p, nil
		}
	}
	slab := min(max(smallestSlab, m.total), ordinarySlab)
	if rest := m.expected - m.taken + size; rest > 0 {
		slab = min(rest, largestSlab)
	}
	if size > slab/2 {
		slab = size
	}
	p, err := c.Alloc("weights", slab)
	if err != nil {
		return 0, err
	}
	m.slabs, m.total = append(m.slabs, p), m.total+slab
	m.rests = append(m.rests, rest{p + driver.Pointer(size), slab - size})
	return p, nil
}

func (m *weights) free(c *driver.Context) {
	for _, p := range m.slabs {
		c.FreeMemory(p)
	}
	for _, p := range m.pinned {
		p.Free()
	}
	*m = weights{}
}

// weight finds a constant on the device, or uploads what arrange makes of it: the model's are shared by all programs, others
// belong to the binding.
func (b *binder) weight(t *tensor.Tensor, how string, arrange func() ([]byte, error)) (address, error) {
	d := b.d
	d.mu.Lock()
	defer d.mu.Unlock()
	owner, key := &b.own, weightKey{t, how}
	if same := d.model[t]; same != nil {
		owner, key.Tensor = &d.weights, same
	}
	if p, ok := owner.at[key]; ok {
		return address(p), nil
	}
	if p, ok := owner.pinned[key]; ok {
		return addressOf(b.p.Stream(p.Bytes()), 0), nil
	}
	data, err := arrange()
	if err != nil {
		return 0, err
	}
	leave, err := d.ctx.Enter()
	if err != nil {
		return 0, err
	}
	defer leave()
	if d.streaming.OnHost(key.Tensor) {
		p, err := d.ctx.NewPinned(int64(len(data)))
		if err != nil {
			return 0, err
		}
		copy(p.Bytes(), data)
		if owner.pinned == nil {
			owner.pinned = map[weightKey]*driver.Pinned{}
		}
		owner.pinned[key] = p
		return addressOf(b.p.Stream(p.Bytes()), 0), nil
	}
	p, err := owner.alloc(d.ctx, int64(len(data)))
	if err != nil {
		return 0, err
	}
	if err := d.ctx.Write(p, data); err != nil {
		return 0, err
	}
	if owner.at == nil {
		owner.at = map[weightKey]driver.Pointer{}
	}
	owner.at[key] = p
	return address(p), nil
}

// constant is a constant in its original layout.
func (b *binder) constant(t *tensor.Tensor) (address, error) {
	return b.weight(t, "", func() ([]byte, error) { return t.Bytes(), nil })
}

// The ways to arrange a constant matrix.
const (
	transposed        = "transposed"
	rounded           = "rounded to tf32"
	roundedTransposed = "transposed and rounded to tf32"
)

// arranged is a constant matrix, arranged.
func (b *binder) arranged(t *tensor.Tensor, how string) (address, error) {
	return b.weight(t, how, func() ([]byte, error) {
		rows, cols, y := t.Shape()[0], t.Shape()[1], t.Aligned()
		if how == rounded || how == roundedTransposed {
			y = roundTF32(y)
		}
		if how == rounded {
			return y.Bytes(), nil
		}
		x := y
		y = tensor.New(t.DType(), cols, rows)
		switch t.DType().Size() {
		case 4:
			transpose(tensor.Of[uint32](y.Bitcast(tensor.U32)), tensor.Of[uint32](x.Bitcast(tensor.U32)), rows, cols)
		case 2:
			transpose(tensor.Of[uint16](y.Bitcast(tensor.U16)), tensor.Of[uint16](x.Bitcast(tensor.U16)), rows, cols)
		default:
			return nil, errOnHost
		}
		return y.Bytes(), nil
	})
}

// roundTF32 rounds to the ten bits of mantissa that tf32 has, to nearest, ties to even. NaN and infinities stay.
func roundTF32(t *tensor.Tensor) *tensor.Tensor {
	y := tensor.New(tensor.F32, t.Shape()...)
	src, dst := tensor.Of[uint32](t.Bitcast(tensor.U32)), tensor.Of[uint32](y.Bitcast(tensor.U32))
	const block = 1 << 14
	inParallel(ceil(len(src), block), func(b int) {
		for i := b * block; i < min(len(src), (b+1)*block); i++ {
			x := src[i]
			if x&0x7f800000 != 0x7f800000 {
				x = (x + 0xfff + x>>13&1) &^ 0x1fff
			}
			dst[i] = x
		}
	})
	return y
}

// transpose writes the transpose of a matrix, in blocks that fit the cache, on all processors.
func transpose[T any](dst, src []T, rows, cols int) {
	const block = 64
	inParallel(ceil(rows, block), func(b int) {
		i0 := b * block
		for j0 := 0; j0 < cols; j0 += block {
			for i := i0; i < min(i0+block, rows); i++ {
				for j := j0; j < min(j0+block, cols); j++ {
					dst[j*rows+i] = src[i*cols+j]
				}
			}
		}
	})
}

// inParallel calls f for 0 to n−1 on all processors.
func inParallel(n int, f func(i int)) {
	var wg sync.WaitGroup
	for each, from := ceil(n, runtime.GOMAXPROCS(0)), 0; from < n; from += each {
		wg.Go(func() {
			for i := from; i < min(from+each, n); i++ {
				f(i)
			}
		})
	}
	wg.Wait()
}
