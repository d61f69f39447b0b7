package cuda

import (
	"encoding/binary"
	"reflect"
	"unsafe"

	"github.com/rlxc/rlxc/internal/driver"
)

// A launch is one run of a kernel. Its only parameter is a struct, of which the fields of type address are resolved when the
// launch is recorded.
type launch struct {
	kernel string
	user   *userKernel // nil for a kernel of the archive
	grid   driver.Grid
	params []byte
	fields []int // offsets of addresses in params
	maps   []matrixMap
	f      driver.Function
	grown  []int // two segments, or none: where they are one buffer, there is nothing to do
}

// A matrixMap is a field of the parameters that describes a matrix to the copy engine.
type matrixMap struct {
	field            int // its offset
	at               address
	kind             int // driver.TensorHalf or another
	rows, cols       int
	pitch            int
	boxRows, boxCols int
}

// newLaunch makes a launch; params is a struct that is laid out as the kernel's.
func newLaunch[T any](kernel string, params T, blocks [3]int, threads, shared int) *launch {
	p := new(T)
	*p = params
	l := &launch{kernel: kernel, grid: driver.Grid{Blocks: blocks, Threads: threads, Shared: shared}}
	l.params = unsafe.Slice((*byte)(unsafe.Pointer(p)), unsafe.Sizeof(*p))
	l.fields = addresses(reflect.TypeFor[T](), 0, nil)
	return l
}

// perElement is a launch with a thread for each of n elements.
func perElement[T any](kernel string, params T, n int) *launch {
	return newLaunch(kernel, params, spread(ceil(n, groupSize)), groupSize, 0)
}

// addresses lists the offsets of the fields of type address.
func addresses(t reflect.Type, at int, list []int) []int {
	switch {
	case t == reflect.TypeFor[address]():
		return append(list, at)
	case t.Kind() == reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			list = addresses(f.Type, at+int(f.Offset), list)
		}
	case t.Kind() == reflect.Array:
		for i := range t.Len() {
			list = addresses(t.Elem(), at+i*int(t.Elem().Size()), list)
		}
	}
	return list
}

// idle reports whether the launch copies a buffer to itself.
func (l *launch) idle(at segments) bool { return l.grown != nil && at(l.grown[0]) == at(l.grown[1]) }

// record launches the kernel on a stream. Where it follows a kernel, it may start early; a user's does not know how.
func (l *launch) record(c *driver.Context, s *driver.Stream, at segments, follows bool) error {
	params := append([]byte(nil), l.params...)
	for _, i := range l.fields {
		a := address(binary.NativeEndian.Uint64(params[i:]))
		binary.NativeEndian.PutUint64(params[i:], uint64(a.resolve(at)))
	}
	for _, x := range l.maps {
		t, err := c.MapMatrix(x.kind, x.at.resolve(at), x.rows, x.cols, x.pitch, x.boxRows, x.boxCols)
		if err != nil {
			return err
		}
		copy(params[x.field:], t[:])
	}
	return s.Launch(l.f, l.grid, params, follows && l.user == nil && startsEarly(&c.Info))
}

// spread is a grid of that many blocks of kernels that continue by the grid's size.
func spread(n int) [3]int { return [3]int{max(1, min(n, 1<<16)), 1, 1} }

// line is a grid of exactly that many blocks.
func line(n int) [3]int { return [3]int{n, 1, 1} }

func boolean(b bool) int32 {
	if b {
		return 1
	}
	return 0
}
