package wgpu

import (
	"fmt"

	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/native"
)

// arena is the memory of one session: a buffer for each segment of the plan, and what comes back to the host.
type arena struct {
	d        *Device
	segments []*native.Buffer
	status   *native.Buffer // where kernels leave their errors
	staging  *native.Buffer // shows the last run's outputs until the next run
	moved    int            // counts the times that a buffer was made anew
	idle     int            // runs one after the other that needed much less
	shown    int64          // bytes of the last run's outputs that are on the host
	poison   byte           // 0 for none
}

// NewMemory implements backend.Device.
func (d *Device) NewMemory() backend.Memory { return &arena{d: d} }

// Size implements backend.Memory.
func (m *arena) Size() int64 {
	n := m.shown
	if m.staging != nil {
		n += m.staging.Size
	}
	for _, b := range m.segments {
		if b != nil {
			n += b.Size
		}
	}
	return n
}

// Growth implements backend.Program.
func (p *program) Growth(of backend.Memory) (n int64) {
	m := of.(*arena)
	for i, size := range p.arenas {
		if i < len(m.segments) && m.segments[i] != nil {
			size -= m.segments[i].Size
		}
		n += max(size, 0)
	}
	staging := p.stagingBytes()
	if m.staging != nil {
		staging -= m.staging.Size
	}
	return n + max(staging, 0)
}

// Close implements backend.Memory.
func (m *arena) Close() {
	m.release(0)
}

// release frees the buffers that are larger than so many bytes.
func (m *arena) release(most int64) {
	places := []**native.Buffer{&m.status, &m.staging}
	for i := range m.segments {
		places = append(places, &m.segments[i])
	}
	for _, b := range places {
		if *b != nil && (*b).Size > most {
			(*b).Release()
			*b = nil
			m.moved++
		}
	}
}

// A memory releases what a larger shape needed after so many runs one after the other that left more than memorySlack of a buffer
// unused. The CPU's arena does so at once, since its pages come back one by one; here a buffer is made anew and bound anew.
const (
	idleRuns    = 16
	memorySlack = 8 << 20
)

// shrink releases what has been of no use for some time.
func (m *arena) shrink(p *program) {
	wasted := m.staging != nil && m.staging.Size > p.stagingBytes()+memorySlack
	for i, b := range m.segments {
		need := int64(0)
		if i < len(p.arenas) {
			need = p.arenas[i]
		}
		wasted = wasted || b != nil && b.Size > need+memorySlack
	}
	if !wasted {
		m.idle = 0
		return
	}
	if m.idle++; m.idle >= idleRuns {
		m.idle = 0
		m.release(memorySlack)
	}
}

// grow makes room for a program.
func (m *arena) grow(p *program) error {
	m.shrink(p)
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
	return m.fit(&m.staging, "the staging buffer", p.stagingBytes(), native.MapRead|native.CopyTarget)
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
