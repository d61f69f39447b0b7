//go:build unix

package kernel

import (
	"os"
	"runtime/debug"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

const (
	pagedLimit = 64 << 10 // bytes of a slice between pages
	pagedRing  = 1024     // slices of a size that may be in use at a time
)

// ring is regions between pages that cannot be read. Each is used again after pagedRing others: tests make hundreds of thousands of
// operands, and nothing says when one is no longer read.
type ring struct {
	regions [][]byte
	next    int
}

var rings [pagedLimit>>12 + 1]ring // by the number of pages

// paged returns n bytes that end where memory that cannot be read begins, or begin where it ends; nil if they are too many. A kernel
// that reads beyond its operands ends the process, and the trace names the kernel.
func paged(n int, atEnd bool) []byte {
	page := os.Getpagesize()
	pages := ceilDiv(n, page)
	if n == 0 || n > pagedLimit {
		return nil
	}
	r := &rings[pages]
	at := r.next % pagedRing
	r.next++
	if at == len(r.regions) {
		all, err := syscall.Mmap(-1, 0, (pages+2)*page, syscall.PROT_NONE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
		if err != nil {
			panic(err)
		}
		region := all[page : (pages+1)*page]
		if err := syscall.Mprotect(region, syscall.PROT_READ|syscall.PROT_WRITE); err != nil {
			panic(err)
		}
		r.regions = append(r.regions, region)
	}
	region := r.regions[at]
	if atEnd {
		region = region[len(region)-n:]
	}
	clear(region[:n])
	return region[:n:n]
}

var sink byte

// TestPaged holds that what is before and after such a slice cannot be read.
func TestPaged(t *testing.T) {
	for _, n := range []int{1, 17, 5000} {
		for atEnd, beyond := range map[bool]int{true: n, false: -1} {
			x := paged(n, atEnd)
			x[0], x[n-1] = 1, 2
			func() {
				defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
				require.Panics(t, func() { sink = *(*byte)(unsafe.Add(unsafe.Pointer(&x[0]), beyond)) })
			}()
		}
	}
}
