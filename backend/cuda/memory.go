package cuda

import (
	"fmt"

	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/driver"
)

// A buffer is memory of the device.
type buffer struct {
	at   driver.Pointer
	size int64
}

// arena is the memory of one session: a buffer for each segment of the plan, where kernels leave their errors, and pinned memory
// of the host that copies go through.
type arena struct {
	d        *Device
	segments []buffer
	status   buffer
	pinned   *driver.Pinned
	shown    int64 // bytes of the last run's outputs that are on the host
	moved    int   // counts the times that one of them was made anew
	poison   byte  // what the arena is filled with before every run, where it is not 0; for tests
}

// NewMemory implements backend.Device.
func (d *Device) NewMemory() backend.Memory { return &arena{d: d} }

// Size implements backend.Memory.
func (m *arena) Size() int64 {
	n := m.shown
	if m.pinned != nil {
		n += int64(len(m.pinned.Bytes()))
	}
	for _, b := range m.segments {
		n += b.size
	}
	return n
}

// Growth implements backend.Program.
func (p *program) Growth(of backend.Memory) (n int64) {
	m := of.(*arena)
	for i, size := range p.arenas {
		if i < len(m.segments) {
			size -= m.segments[i].size
		}
		n += max(size, 0)
	}
	pinned := p.pinned
	if m.pinned != nil {
		pinned -= int64(len(m.pinned.Bytes()))
	}
	return n + max(pinned, 0)
}

// Close implements backend.Memory.
func (m *arena) Close() {
	leave, err := m.d.ctx.Enter()
	if err != nil {
		return // the device is lost, and its memory with it
	}
	defer leave()
	for _, b := range append(m.segments, m.status) {
		m.d.ctx.FreeMemory(b.at)
	}
	if m.pinned != nil {
		m.pinned.Free()
	}
	m.segments, m.status, m.pinned = nil, buffer{}, nil
	m.moved++
}

// grow makes room for a program.
func (m *arena) grow(p *program) error {
	for len(m.segments) < len(p.arenas) {
		m.segments = append(m.segments, buffer{})
	}
	for i, size := range p.arenas {
		if err := m.fit(&m.segments[i], fmt.Sprintf("segment %d of the arena", i), size); err != nil {
			return err
		}
	}
	before := m.status.at
	if err := m.fit(&m.status, "the status", p.statusSize()); err != nil {
		return err
	}
	if m.status.at != before {
		if err := m.d.ctx.Fill(m.status.at, 0, m.status.size); err != nil {
			return err
		}
	}
	if m.pinned != nil && int64(len(m.pinned.Bytes())) >= p.pinned {
		return nil
	}
	pinned, err := m.d.ctx.NewPinned(p.pinned)
	if err != nil {
		return err
	}
	if m.pinned != nil {
		m.pinned.Free()
	}
	m.pinned = pinned
	m.moved++
	return nil
}

// fit replaces a buffer that is too small.
func (m *arena) fit(b *buffer, what string, size int64) error {
	if b.at != 0 && b.size >= size {
		return nil
	}
	m.d.ctx.FreeMemory(b.at) // first, so that no more than one is held
	*b = buffer{}
	m.moved++
	p, err := m.d.ctx.Alloc(what, size)
	if err != nil {
		return err
	}
	*b = buffer{p, size}
	return nil
}
