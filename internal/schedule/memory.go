package schedule

// memory counts live bytes while steps run, in an order that may still be changed.
type memory struct {
	*Program
	left []int32 // for each buffer, the readers still to come; all readers after the window count as one
	live int64   // bytes of the live buffers
}

// look returns the bytes that a step would need while it runs now, and by how many the live bytes would grow.
func (m *memory) look(step int) (need, growth int64) {
	need = m.live + m.Scratch[step]
	for _, b := range m.Writes[step] {
		need += m.Bytes[b]
		if m.left[b] > 0 {
			growth += m.Bytes[b]
		}
	}
	for _, b := range m.Over[step] {
		if m.left[b] == 1 {
			need -= m.Bytes[m.Writes[step][0]]
			break
		}
	}
	for _, b := range m.Reads[step] {
		if m.left[b] == 1 {
			growth -= m.Bytes[b]
		}
	}
	return need, growth
}

// run runs a step and returns what it needed.
func (m *memory) run(step int) int64 {
	need, growth := m.look(step)
	for _, b := range m.Reads[step] {
		m.left[b]--
	}
	m.live += growth
	return need
}

// undo takes back the step that ran last.
func (m *memory) undo(step int) {
	for _, b := range m.Reads[step] {
		m.left[b]++
	}
	_, growth := m.look(step)
	m.live -= growth
}

// enter sets the memory to its state before the first step of a segment.
func (s *scheduler) enter(g segment) *memory {
	m := &s.mem
	m.live = s.live[g.from]
	for _, step := range s.order[g.from:g.to] {
		for _, b := range s.Reads[step] {
			m.left[b] = 0
		}
		for _, b := range s.Writes[step] {
			m.left[b] = 0
			if s.last[b] >= g.to {
				m.left[b] = 1
			}
		}
	}
	for _, step := range s.order[g.from:g.to] {
		for _, b := range s.Reads[step] {
			if m.left[b] == 0 && s.last[b] >= g.to {
				m.left[b] = 1
			}
			m.left[b]++
		}
	}
	return m
}

// runAt runs a step at a position of the order.
func (s *scheduler) runAt(position, step int) int64 {
	need := s.mem.run(step)
	if position == 0 {
		need += s.unread
	}
	return need
}

// reorder puts the steps of a segment in a new order.
func (s *scheduler) reorder(g segment, steps []int) {
	s.enter(g)
	for i, step := range steps {
		s.live[g.from+i] = s.mem.live
		s.need[g.from+i] = s.runAt(g.from+i, step)
		s.order[g.from+i], s.at[step] = step, g.from+i
	}
	for _, step := range steps {
		for _, b := range s.Reads[step] {
			if s.last[b] < g.to {
				s.last[b] = g.from
			}
		}
	}
	for i, step := range steps {
		for _, b := range s.Reads[step] {
			if s.last[b] < g.to {
				s.last[b] = max(s.last[b], g.from+i)
			}
		}
	}
}
