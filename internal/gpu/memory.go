package gpu

import (
	"bytes"
	"fmt"

	"github.com/rlxc/rlxc/internal/backend"
)

// A Memory is the arena of one session: a buffer for each segment of the plan, one in which kernels report errors, and staging memory.
type Memory struct {
	r        *Runtime
	segments []backend.Buffer // nil where there is none
	status   backend.Buffer
	staging  Staging
	moved    int   // counts the times that one of them was made again
	idle     int   // runs one after the other that needed much less
	shown    int64 // bytes of the last run's outputs that are on the host
	poison   byte  // 0 for none
	poisoned backend.Buffer
}

// NewMemory implements backend.Device.
func (r *Runtime) NewMemory() backend.Memory { return &Memory{r: r} }

// Poison makes every run fill the arena with a byte before it starts and each buffer when its life ends, so that a read of memory that the
// plan calls dead shows: 0xFF is a NaN in every float type, 0xA5 a wild index. 0 ends it. For tests.
func (m *Memory) Poison(with byte) {
	m.poison = with
	m.drop(&m.poisoned)
	m.moved++
}

// Size implements backend.Memory.
func (m *Memory) Size() int64 {
	n := m.shown
	if m.staging != nil {
		n += m.staging.Size()
	}
	for _, b := range m.segments {
		n += size(b)
	}
	return n
}

func size(b backend.Buffer) int64 {
	if b == nil {
		return 0
	}
	return b.Size()
}

// Growth implements backend.Program.
func (p *program) Growth(of backend.Memory) (n int64) {
	m := of.(*Memory)
	for i, need := range p.arenas {
		if i < len(m.segments) {
			need = p.room(need, size(m.segments[i])) - size(m.segments[i])
		}
		n += max(need, 0)
	}
	staging := p.staging
	if m.staging != nil {
		staging -= m.staging.Size()
	}
	return n + max(staging, 0)
}

// room is the size of a segment that has too few bytes: an eighth more than needed, because sizes that grow do so in every run.
func (p *program) room(need, has int64) int64 {
	if has > 0 && has < need {
		need = p.r.aligned(need + need/8)
		if most := p.r.Target().Segment; most > 0 {
			need = min(need, most)
		}
	}
	return need
}

// Close implements backend.Memory.
func (m *Memory) Close() {
	m.release(0)
	m.drop(&m.poisoned)
}

// release frees what is larger than a size.
func (m *Memory) release(most int64) {
	for i := range m.segments {
		if size(m.segments[i]) > most {
			m.drop(&m.segments[i])
		}
	}
	if size(m.status) > most {
		m.drop(&m.status)
	}
	if m.staging != nil && m.staging.Size() > most {
		m.staging.Close()
		m.staging = nil
		m.moved++
	}
}

func (m *Memory) drop(b *backend.Buffer) {
	if *b != nil {
		(*b).Close()
		*b = nil
		m.moved++
	}
}

// A memory releases what a larger shape needed after IdleRuns runs one after the other that left more than Slack of a buffer unused. The
// CPU's arena does so at once, since its pages come back one by one; here a buffer is made again, and instances record again.
const (
	IdleRuns = 16
	Slack    = 8 << 20
)

// shrink releases what has been of no use for some time.
func (m *Memory) shrink(p *program) {
	wasted := m.staging != nil && m.staging.Size() > p.staging+Slack
	for i, b := range m.segments {
		need := int64(0)
		if i < len(p.arenas) {
			need = p.arenas[i]
		}
		wasted = wasted || size(b) > need+Slack
	}
	if !wasted {
		m.idle = 0
		return
	}
	if m.idle++; m.idle >= IdleRuns {
		m.idle = 0
		m.release(Slack)
	}
}

// grow makes room for a program.
func (m *Memory) grow(p *program) error {
	m.shrink(p)
	for len(m.segments) < len(p.arenas) {
		m.segments = append(m.segments, nil)
	}
	for i, need := range p.arenas {
		if has := size(m.segments[i]); has < need {
			if err := m.allocate(&m.segments[i], fmt.Sprintf("segment %d of the arena", i), p.room(need, has)); err != nil {
				return err
			}
		}
	}
	if need := StatusBytes * int64(len(p.reports)); size(m.status) < need {
		if err := m.allocate(&m.status, "the status", need); err != nil {
			return err
		}
		if err := m.clear(); err != nil {
			return err
		}
	}
	if m.poison != 0 {
		if err := m.brew(p); err != nil {
			return err
		}
	}
	if m.staging != nil && m.staging.Size() >= p.staging || p.staging == 0 {
		return nil
	}
	if m.staging != nil {
		m.staging.Close()
		m.staging = nil
	}
	m.moved++
	var err error
	m.staging, err = m.r.Driver.Stage(p.staging)
	return err
}

// allocate replaces a buffer. The old one is released first, so that no more than one is held.
func (m *Memory) allocate(b *backend.Buffer, what string, size int64) (err error) {
	m.drop(b)
	m.moved++
	*b, err = m.r.Driver.Allocate(what, size)
	return err
}

// clear makes all reports empty.
func (m *Memory) clear() error { return m.status.WriteAt(make([]byte, m.status.Size()), 0) }

// brew makes the segment that fills others.
func (m *Memory) brew(p *program) error {
	var most int64
	for _, need := range p.arenas {
		most = max(most, need)
	}
	if size(m.poisoned) >= most {
		return nil
	}
	if err := m.allocate(&m.poisoned, "poison", most); err != nil {
		return err
	}
	return m.poisoned.WriteAt(bytes.Repeat([]byte{m.poison}, int(m.poisoned.Size())), 0)
}
