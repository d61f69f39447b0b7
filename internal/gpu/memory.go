package gpu

import (
	"bytes"
	"fmt"

	"github.com/rlxc/rlxc/internal/backend"
)

// A Memory is the memory of one session: a buffer for each arena of the plan, a buffer for reports, and staging memory.
type Memory struct {
	r        *Runtime
	segments []backend.Buffer // buffers of the arenas and the stream; nil before the first run, after release, and for 0 bytes
	status   backend.Buffer   // reports; nil if no program has any
	staging  Staging          // nil if no program needs any
	moved    int              // how often a buffer or the staging memory was replaced or freed; recordings of an older count are stale
	idle     int              // consecutive runs that left more than Slack unused
	shown    int64            // bytes of the last run's outputs that are on the host
	poison   byte             // fill of Poison; 0 for none
	poisoned backend.Buffer   // the poison segment; nil if poison is 0
}

// NewMemory implements backend.Device.
func (r *Runtime) NewMemory() backend.Memory { return &Memory{r: r} }

// Poison makes every run fill the arenas with a byte at its start, and each buffer after its last use, so that a read of dead memory
// changes the results. 0xFF makes a NaN of every float type, and 0xA5 a large index. 0 turns the filling off. For tests.
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

// size returns the size of a buffer in bytes, and 0 for nil.
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

// room returns the size to allocate for an arena of need bytes whose buffer has has bytes. A buffer that is too small is replaced by one
// with an eighth more than needed, because sizes that grow tend to grow in every run.
func (p *program) room(need, has int64) int64 {
	if has > 0 && has < need {
		more := p.r.aligned(need + need/8)
		if most := p.r.Target().Segment; most > 0 {
			more = min(more, most) // the stream may have more already
		}
		need = max(need, more)
	}
	return need
}

// Close implements backend.Memory.
func (m *Memory) Close() {
	m.release(0)
	m.drop(&m.poisoned)
}

// release frees each buffer of more than most bytes.
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

// drop frees a buffer, if there is one.
func (m *Memory) drop(b *backend.Buffer) {
	if *b != nil {
		(*b).Close()
		*b = nil
		m.moved++
	}
}

// A memory frees its large buffers after IdleRuns consecutive runs that left more than Slack bytes of one unused. The CPU's arena shrinks
// at once, because the operating system gives pages back one by one. Here a whole buffer must be allocated again, and instances record
// again.
const (
	IdleRuns = 16
	Slack    = 8 << 20
)

// shrink counts runs that leave much memory unused, and frees the large buffers after IdleRuns of them.
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

// grow allocates the buffers that a program needs and the memory lacks.
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
		if err := m.fillPoison(p); err != nil {
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

// allocate replaces a buffer. It frees the old buffer first, so that both never exist at the same time.
func (m *Memory) allocate(b *backend.Buffer, what string, size int64) (err error) {
	m.drop(b)
	m.moved++
	*b, err = m.r.Driver.Allocate(what, size)
	return err
}

// clear overwrites all reports with zeros.
func (m *Memory) clear() error { return m.status.WriteAt(make([]byte, m.status.Size()), 0) }

// fillPoison allocates the poison segment for a program and fills it.
func (m *Memory) fillPoison(p *program) error {
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
