package files

import (
	"errors"
	"fmt"
	"math"
	"os"
	"sync/atomic"
	"unsafe"
)

// A Mapping is the bytes of a file, read-only: mapped into memory where the system can, so that opening costs nothing and
// processes share the pages, and read otherwise. It counts its users and lives until the last one closes it; slices of it
// must not be touched after that. If the file is truncated before, what is cut off faults: see FaultError.
type Mapping struct {
	data  []byte
	stamp *Stamp             // the file's stamp before it was mapped; nil for bytes that do not come from a file
	unmap func([]byte) error // nil when the bytes are ordinary memory
	users atomic.Int32
}

// Map maps a regular file from its beginning to its end. The file may be closed afterwards. It fails with an error of the
// file system.
func Map(f *os.File) (*Mapping, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", f.Name())
	}
	if info.Size() > math.MaxInt {
		return nil, fmt.Errorf("%s: %d bytes are more than this machine can address", f.Name(), info.Size())
	}
	m, stamp, size := InMemory(nil), newStamp(f.Name(), info), int(info.Size())
	stamp.watch(f)
	m.stamp = &stamp
	if size == 0 { // no system maps nothing
		return m, nil
	}
	if m.data, err = mapFile(f, size); err == nil {
		m.unmap = Unmap
		return m, nil
	}
	// Some file systems cannot map.
	m.data = make([]byte, size) // which begins at a page where it is large
	if _, err := f.ReadAt(m.data, 0); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", f.Name(), err), m.Close())
	}
	return m, nil
}

// FaultError is the error that a recovered panic stands for where it came from reading a mapping whose file has been
// shortened, and nil for any other panic. Such reads only panic in a goroutine that has called debug.SetPanicOnFault; else they
// end the process.
func FaultError(recovered any) error {
	if _, ok := recovered.(interface{ Addr() uintptr }); !ok {
		return nil
	}
	return errors.New("the file was truncated while in use: to replace a model, rename another file to its name")
}

// InMemory is a Mapping of bytes that are in memory already, for code that serves both.
func InMemory(data []byte) *Mapping {
	m := &Mapping{data: data}
	m.users.Store(1)
	return m
}

// Bytes are the contents of the file, valid until the last Close.
func (m *Mapping) Bytes() []byte { return m.data }

// Stamps returns the state of the file before it was mapped, or nothing for bytes that are of no file.
func (m *Mapping) Stamps() []Stamp {
	if m.stamp == nil {
		return nil
	}
	return []Stamp{*m.stamp}
}

// Evict advises the system that the pages around a part of the mapping are not needed for now, so that they do not count as
// resident memory; they come back from the file when they are touched. It reports whether the part is in the mapping, and
// does nothing where the bytes are ordinary memory.
func (m *Mapping) Evict(part []byte) bool {
	if len(part) == 0 || len(m.data) == 0 {
		return false
	}
	at := uintptr(unsafe.Pointer(&part[0])) - uintptr(unsafe.Pointer(&m.data[0])) // below the mapping it wraps around
	if at >= uintptr(len(m.data)) {
		return false
	}
	if m.unmap != nil {
		page := os.Getpagesize()
		evictFile(m.data[int(at)&^(page-1) : int(at)+len(part)])
	}
	return true
}

// Retain adds a user, who must call Close.
func (m *Mapping) Retain() *Mapping {
	if m.users.Add(1) <= 1 {
		panic("tensor.Mapping: Retain after the last Close")
	}
	return m
}

// Close ends one use; the last one unmaps. It fails with an error of unmapping.
func (m *Mapping) Close() error {
	switch users := m.users.Add(-1); {
	case users > 0:
		return nil
	case users < 0:
		return os.ErrClosed
	}
	data := m.data
	m.data = nil
	if m.stamp != nil && m.stamp.open != nil {
		_ = m.stamp.open.Close() // it was only described
	}
	if m.unmap == nil {
		return nil
	}
	return m.unmap(data)
}

// ReleasePages returns the whole pages inside ordinary memory to the system, as far as it can take them; the contents of b
// are lost. The memory may be used again, which costs a page fault a page.
func ReleasePages(b []byte) {
	page := os.Getpagesize()
	if len(b) < 2*page {
		return
	}
	skip := int(-uintptr(unsafe.Pointer(&b[0])) & uintptr(page-1))
	if n := (len(b) - skip) &^ (page - 1); n > 0 {
		releasePages(b[skip : skip+n])
	}
}
