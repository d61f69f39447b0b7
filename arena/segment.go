package arena

import (
	"fmt"
	"sync/atomic"
)

// Segment is read-only memory that many users share: weights, mapped from a model or an artifact.
// It lives until its last user closes it.
type Segment struct {
	data    []byte
	release func() error
	users   atomic.Int64
}

// NewSegment wraps data, for one user. release, if not nil, is called once, when the last user has
// closed the segment.
func NewSegment(data []byte, release func() error) *Segment {
	s := &Segment{data: data, release: release}
	s.users.Store(1)
	return s
}

// Share counts one more user, who must Close too. It fails on a segment that is gone.
func (s *Segment) Share() (*Segment, error) {
	for {
		n := s.users.Load()
		if n == 0 {
			return nil, fmt.Errorf("the weight segment of %d bytes is closed", len(s.data))
		}
		if s.users.CompareAndSwap(n, n+1) {
			return s, nil
		}
	}
}

// Close ends one user's use. After the last one no slice of the segment may be read.
func (s *Segment) Close() error {
	switch n := s.users.Add(-1); {
	case n > 0:
		return nil
	case n < 0:
		s.users.Add(1)
		return fmt.Errorf("the weight segment of %d bytes was closed more often than shared", len(s.data))
	}
	if s.release == nil {
		return nil
	}
	return s.release()
}

// Size returns the bytes of the segment.
func (s *Segment) Size() int64 { return int64(len(s.data)) }

// Bytes returns n bytes from offset on, not to be written: the pages may be mapped read-only.
func (s *Segment) Bytes(offset, n int64) ([]byte, error) {
	if offset < 0 || n < 0 || offset > s.Size() || n > s.Size()-offset {
		return nil, fmt.Errorf("bytes [%d, %d) leave the weight segment of %d bytes", offset, offset+n, s.Size())
	}
	return s.data[offset : offset+n : offset+n], nil
}
