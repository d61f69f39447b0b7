package wgpu

import (
	"fmt"

	"github.com/rlxc/rlxc/backend"
	"github.com/rlxc/rlxc/backend/wgpu/native"
)

// arena is the memory of one session: a buffer for each segment of the plan, and what comes back to the host.
type arena struct {
	d        *Device
	segments []*native.Buffer
	status   *native.Buffer // where kernels leave their errors
	staging  *native.Buffer // shows the last run's outputs until the next run
	moved    int            // counts the times that a segment or the status was made anew
	poison   byte           // 0 for none
}

// NewMemory implements backend.Device.
func (d *Device) NewMemory() backend.Memory { return &arena{d: d} }

// Size implements backend.Memory.
func (m *arena) Size() int64 {
	var n int64
	for _, b := range m.segments {
		n += b.Size
	}
	return n
}

// Close implements backend.Memory.
func (m *arena) Close() {
	for _, b := range append(m.segments, m.status, m.staging) {
		if b != nil {
			b.Release()
		}
	}
	m.segments, m.status, m.staging = nil, nil, nil
	m.moved++
}

// grow makes room for a program.
func (m *arena) grow(p *program) error {
	for len(m.segments) < len(p.arenas) {
		m.segments = append(m.segments, nil)
	}
	for i, size := range p.arenas {
		if err := m.fit(&m.segments[i], fmt.Sprintf("segment %d of the arena", i), size, native.ForStorage|native.CopySource|native.CopyTarget); err != nil {
			return err
		}
	}
	if err := m.fit(&m.status, "the status", int64(pad(int(p.statusBytes()), 16)), native.ForStorage|native.CopySource|native.CopyTarget); err != nil {
		return err
	}
	return m.fit(&m.staging, "the staging buffer", p.staging+int64(pad(int(p.statusBytes()), 16)), native.MapRead|native.CopyTarget)
}

// fit replaces a buffer that is too small.
func (m *arena) fit(b **native.Buffer, what string, size int64, use native.Usage) error {
	if *b != nil && (*b).Size >= size {
		return nil
	}
	n, err := m.d.gpu.Buffer(what, size, use)
	if err != nil {
		return err
	}
	if *b != nil {
		(*b).Release()
	}
	*b = n
	m.moved++
	return nil
}
