package native

import (
	"time"
	"unsafe"
)

// MaxQueries is the number of timestamps that a set may hold.
const MaxQueries = 4096

// Queries are positions for timestamps of the device.
type Queries struct {
	Count  int
	d      *Device
	handle uintptr
	period float32 // nanoseconds a tick
}

// CanTime reports whether the device takes timestamps between dispatches.
func (d *Device) CanTime() bool {
	return d.Adapter.Has(TimestampQuery) && d.Adapter.Has(TimestampInsidePasses)
}

// Queries makes positions for n timestamps.
func (d *Device) Queries(n int) (*Queries, error) {
	const timestamps = 2
	q := &Queries{Count: n, d: d}
	err := d.guarded("timestamps", func() {
		q.handle = d.lib.c.DeviceCreateQuerySet.call(d.handle,
			uintptr(unsafe.Pointer(&querySetDescriptor{kind: timestamps, count: uint32(n)})))
	})
	if err != nil {
		q.Release()
		return nil, err
	}
	q.period = d.timestampPeriod()
	return q, nil
}

// Since is the time between two timestamps.
func (q *Queries) Since(from, to uint64) time.Duration {
	return time.Duration(float64(to-from) * float64(q.period))
}

// Release releases the positions.
func (q *Queries) Release() {
	q.d.mu.Lock()
	defer q.d.mu.Unlock()
	if q.handle != 0 && q.d.handle != 0 {
		q.d.lib.c.QuerySetRelease.call(q.handle)
	}
	q.handle = 0
}

// Timestamp writes the time into element i when the dispatches so far are done.
func (e *Encoder) Timestamp(q *Queries, i int) {
	e.begin()
	e.invoke(e.d.lib.c.ComputePassEncoderWriteTimestamp, e.pass, q.handle, uintptr(i))
}

// Resolve writes the timestamps to a buffer, 8 bytes each.
func (e *Encoder) Resolve(q *Queries, b *Buffer) {
	e.endPass()
	e.invoke(e.d.lib.c.CommandEncoderResolveQuerySet, e.handle, q.handle, 0, uintptr(q.Count), b.handle, 0)
}
