package wgpu

import (
	"encoding/binary"

	"github.com/rlxc/rlxc/internal/native"
)

// stamps are positions for timestamps, and the way on which they come to the host.
type stamps struct {
	*native.Queries
	resolved, staging *native.Buffer
}

// stamps makes n positions.
func (d *Device) stamps(n int) (*stamps, error) {
	s := &stamps{}
	var err error
	if s.Queries, err = d.gpu.Queries(n); err != nil {
		return nil, err
	}
	if s.resolved, err = d.gpu.Buffer("timestamps", 8*int64(n), native.QueryResolve|native.CopySource); err != nil {
		return nil, err
	}
	s.staging, err = d.gpu.Buffer("timestamps", 8*int64(n), native.MapRead|native.CopyTarget)
	return s, err
}

// read submits what e has recorded, and returns all timestamps.
func (s *stamps) read(e *native.Encoder) ([]uint64, error) {
	e.Resolve(s.Queries, s.resolved)
	e.Copy(s.staging, 0, s.resolved, 0, s.resolved.Size)
	if err := e.Submit(); err != nil {
		return nil, err
	}
	bytes, err := s.staging.Map(s.resolved.Size)
	if err != nil {
		return nil, err
	}
	defer s.staging.Unmap()
	ticks := make([]uint64, s.Count)
	for i := range ticks {
		ticks[i] = binary.LittleEndian.Uint64(bytes[8*i:])
	}
	return ticks, nil
}

func (s *stamps) release() {
	s.Queries.Release()
	s.resolved.Release()
	s.staging.Release()
}
