package cuda

import (
	"runtime"
	"sync"

	"github.com/rlxc/rlxc/backend/cuda/driver"
	"github.com/rlxc/rlxc/tensor"
)

// weights are constants on the device, as they are or arranged for a kernel.
type weights map[weightKey]driver.Pointer

type weightKey struct {
	*tensor.Tensor
	how string // arranged, empty for as it is
}

func (m *weights) free(c *driver.Context) {
	for _, p := range *m {
		c.FreeMemory(p)
	}
	clear(*m)
}

// weight finds a constant on the device, or uploads what arrange makes of it: the model's are shared by all programs, others
// belong to the binding.
func (b *binder) weight(t *tensor.Tensor, how string, arrange func() ([]byte, error)) (address, error) {
	d, key := b.d, weightKey{t, how}
	d.mu.Lock()
	defer d.mu.Unlock()
	kept := b.own
	if d.model[t] {
		kept = d.weights
	}
	if p, ok := kept[key]; ok {
		return address(p), nil
	}
	data, err := arrange()
	if err != nil {
		return 0, err
	}
	p, err := d.ctx.Alloc("a weight", int64(len(data)))
	if err != nil {
		return 0, err
	}
	if err := d.ctx.Write(p, data); err != nil {
		d.ctx.FreeMemory(p)
		return 0, err
	}
	kept[key] = p
	return address(p), nil
}

// constant is a constant as it is.
func (b *binder) constant(t *tensor.Tensor) (address, error) {
	return b.weight(t, "", func() ([]byte, error) { return t.Bytes(), nil })
}

// turned is a constant matrix [N,K] as [K,N].
func (b *binder) turned(t *tensor.Tensor) (address, error) {
	return b.weight(t, "turned", func() ([]byte, error) {
		rows, cols, t := t.Shape()[0], t.Shape()[1], t.Aligned()
		y := tensor.New(t.DType(), cols, rows)
		switch t.DType().Size() {
		case 4:
			transpose(tensor.Of[uint32](y.Bitcast(tensor.U32)), tensor.Of[uint32](t.Bitcast(tensor.U32)), rows, cols)
		case 2:
			transpose(tensor.Of[uint16](y.Bitcast(tensor.U16)), tensor.Of[uint16](t.Bitcast(tensor.U16)), rows, cols)
		default:
			return nil, errOnHost
		}
		return y.Bytes(), nil
	})
}

// transpose turns a matrix, by blocks that the cache holds, on all processors.
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
