package native

import (
	"fmt"
	"unsafe"
)

// Usage is a set of permitted operations of a buffer.
type Usage uint64

// The usages. A buffer with MapRead may only have CopyTarget as well.
const (
	MapRead      Usage = 0x001
	CopySource   Usage = 0x004
	CopyTarget   Usage = 0x008
	ForUniforms  Usage = 0x040
	ForStorage   Usage = 0x080
	QueryResolve Usage = 0x200
)

// A Buffer is memory of the device.
type Buffer struct {
	Size   int64
	d      *Device
	handle uintptr
	mapped bool
	reply  *reply // answer to the request to map the buffer; nil for buffers without MapRead

	caller         // for who maps it
	writing []byte // what Write hands to the library
	last    [4]byte
}

// Buffer allocates size bytes, rounded up to a multiple of 4, at least 4; they are zero.
func (d *Device) Buffer(what string, size int64, usage Usage) (*Buffer, error) {
	size = max(4, (size+3)&^3)
	if limit := int64(d.Adapter.Limits.MaxBufferSize); size > limit {
		return nil, fmt.Errorf("%s needs a buffer of %d bytes, the device's limit is %d", what, size, limit)
	}
	b := &Buffer{Size: size, d: d}
	err := d.guarded(what, func() {
		b.handle = d.lib.c.DeviceCreateBuffer.call(d.handle,
			uintptr(unsafe.Pointer(&bufferDescriptor{usage: uint64(usage), size: uint64(size)})))
		d.Live++
	})
	if err != nil {
		b.Release()
		return nil, fmt.Errorf("%w (%d bytes)", err, size)
	}
	if usage&MapRead != 0 {
		b.reply = newReply()
	}
	return b, nil
}

// Write copies data to the buffer, in order with what is submitted. The offset is a multiple of 4; the bytes after data
// up to the next multiple of 4 become zero.
func (b *Buffer) Write(offset int64, data []byte) error {
	if len(data) == 0 {
		return nil
	}
	d := b.d
	d.mu.Lock()
	defer d.mu.Unlock()
	whole := len(data) &^ 3
	return d.watched("writing a buffer", func() {
		if whole > 0 {
			b.writing = data // which brings it to the heap
			d.invoke(d.lib.c.QueueWriteBuffer, d.queue, b.handle, uintptr(offset), uintptr(unsafe.Pointer(&data[0])), uintptr(whole))
			b.writing = nil
		}
		if whole < len(data) {
			b.last = [4]byte{}
			copy(b.last[:], data[whole:])
			d.invoke(d.lib.c.QueueWriteBuffer, d.queue, b.handle, uintptr(offset)+uintptr(whole), uintptr(unsafe.Pointer(&b.last)), 4)
		}
	})
}

// Map waits until the first n bytes can be read and shows them; they hold until Unmap.
func (b *Buffer) Map(n int64) ([]byte, error) {
	n = (n + 3) &^ 3
	if err := b.mapAsync(n); err != nil {
		return nil, err
	}
	for !b.reply.done.Load() {
		if err := b.d.poll(&b.caller); err != nil {
			return nil, err
		}
	}
	if err := b.reply.err("mapping a buffer"); err != nil {
		return nil, err
	}
	b.mapped = true
	p := b.invoke(b.d.lib.c.BufferGetConstMappedRange, b.handle, 0, uintptr(n))
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&p)), n), nil
}

func (b *Buffer) mapAsync(n int64) error {
	const forReading = 1
	d := b.d
	d.mu.Lock()
	defer d.mu.Unlock()
	b.reply.done.Store(false)
	b.reply.status = 0
	return d.watched("mapping a buffer", func() {
		d.invokeWithInfo(d.lib.c.BufferMapAsync, d.lib.cb.info(d.lib.cb.status, b.reply.id), b.handle, forReading, 0, uintptr(n))
	})
}

// Unmap releases mapped bytes to the device.
func (b *Buffer) Unmap() {
	if b.mapped && b.d.handle != 0 {
		b.invoke(b.d.lib.c.BufferUnmap, b.handle)
	}
	b.mapped = false
}

// Release releases the memory once nothing submitted uses it.
func (b *Buffer) Release() {
	b.Unmap()
	b.d.mu.Lock()
	defer b.d.mu.Unlock()
	if b.handle != 0 && b.d.handle != 0 {
		b.d.lib.c.BufferRelease.call(b.handle)
		b.d.Live--
	}
	b.handle = 0
	if b.reply != nil {
		b.reply.drop()
	}
}
