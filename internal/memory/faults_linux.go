package memory

import (
	"encoding/binary"
	"os"
	"sync/atomic"
	"unsafe"
)

const (
	faultSamples = 16      // page faults that FaultBytes makes
	faultReach   = 4 << 20 // bytes on each side of a page that a fault may map; Linux maps at most a huge page, 2 MiB
)

// touched keeps the compiler from dropping the reads of FaultBytes.
var touched atomic.Uint32

// FaultBytes touches some pages of a mapped file, none of which may be in memory, and returns how many bytes of it each of them has brought
// into memory, on average. Linux maps the pages around a touched page, and from 6.18 on the whole piece in which the page cache holds the
// file. FaultBytes returns 0 if the system does not report it, or if data is smaller than 16 pages.
func FaultBytes(data []byte) int64 {
	page := os.Getpagesize()
	base := uintptr(unsafe.Pointer(unsafe.SliceData(data)))
	pages := (int(base)%page + len(data)) / page
	if pages < faultSamples {
		return 0
	}
	pagemap, err := os.Open("/proc/self/pagemap")
	if err != nil {
		return 0
	}
	defer pagemap.Close()
	first := int(base) / page
	reach := faultReach / page
	var sum int64
	state := make([]byte, 8*(2*reach+1))
	for i := range faultSamples {
		at := pages * (2*i + 1) / (2 * faultSamples) // page in data
		from, to := max(0, at-reach), min(pages, at+reach+1)
		before := mapped(pagemap, state, first+from, to-from)
		touched.Add(uint32(data[min(at*page, len(data)-1)]))
		after := mapped(pagemap, state, first+from, to-from)
		if before < 0 || after < 0 {
			return 0
		}
		sum += int64(max(after-before, 0))
	}
	return sum * int64(page) / faultSamples
}

// mapped counts the pages that are in memory, of some pages from a page number on. It returns -1 if the system does not report them.
func mapped(pagemap *os.File, state []byte, first, pages int) (n int) {
	if _, err := pagemap.ReadAt(state[:8*pages], 8*int64(first)); err != nil {
		return -1
	}
	for i := range pages {
		n += int(binary.NativeEndian.Uint64(state[8*i:]) >> 63) // the bit "present"
	}
	return n
}
