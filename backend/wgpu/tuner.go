package wgpu

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/rlxc/rlxc/internal/gpu"
	"github.com/rlxc/rlxc/internal/native"
	"github.com/rlxc/rlxc/tensor"
)

// A tuner runs single kernels on an arena of one segment and on constants, all of which are zero. Operands get their offsets first, which
// needs no device. Memory is allocated when launches are made ready.
type tuner struct {
	d         *Device
	size      int64 // bytes of the arena
	arena     *native.Buffer
	constants []*native.Buffer                  // placeholders, which have sizes but no memory; launches refer to them
	real      map[*native.Buffer]*native.Buffer // the allocated buffer of each placeholder
	made      []interface{ Release() }
}

// operand returns a row-major operand, for which it reserves memory in the arena.
func (l *tuner) operand(t tensor.DType, shape ...int) *operand {
	o := &operand{Operand: gpu.RowMajor(t, shape...), off: int(l.size)}
	l.size += int64(pad(o.Width*o.Elements(), alignment))
	return o
}

// constant lays out a constant of a number of bytes.
func (l *tuner) constant(word string, size int) memory {
	c := &native.Buffer{Size: int64(pad(size, alignment))}
	l.constants = append(l.constants, c)
	return memory{constant: c, word: word}
}

// A call is a launch that is ready.
type call struct {
	pipeline *native.Pipeline
	group    *native.BindGroup
	groups   [3]uint32
}

// ready compiles the launches of several runs, all at a time, and binds their memories.
func (l *tuner) ready(runs [][]launch) ([][]call, error) {
	var shaders []*shader
	for _, run := range runs {
		for _, x := range run {
			shaders = append(shaders, x.shader)
		}
	}
	pipelines, err := l.d.compile(shaders)
	if err != nil {
		return nil, err
	}
	l.real = map[*native.Buffer]*native.Buffer{}
	for _, c := range l.constants {
		if l.real[c], err = l.buffer(c.Size, native.ForStorage|native.CopyTarget); err != nil {
			return nil, err
		}
	}
	if l.arena, err = l.buffer(l.size, native.ForStorage|native.CopySource|native.CopyTarget); err != nil {
		return nil, err
	}
	params, err := l.buffer(int64(paramBytes*len(shaders)), native.ForUniforms|native.CopyTarget)
	if err != nil {
		return nil, err
	}
	calls := make([][]call, len(runs))
	number := 0
	for i, run := range runs {
		for _, x := range run {
			if !l.d.fits(x.shader) {
				return nil, errOnHost
			}
			at := int64(number) * paramBytes
			if err := params.Write(at, x.shader.block()); err != nil {
				return nil, err
			}
			ranges := []native.Range{{Buffer: params, Offset: at, Size: paramBytes}}
			for _, m := range x.shader.memories {
				b := l.arena
				if m.constant != nil {
					b = l.real[m.constant]
				}
				ranges = append(ranges, native.Range{Buffer: b, Size: b.Size})
			}
			g, err := l.d.gpu.Bind(pipelines[number], ranges)
			if err != nil {
				return nil, err
			}
			l.made = append(l.made, g)
			calls[i] = append(calls[i], call{pipelines[number], g, x.groups})
			number++
		}
	}
	return calls, nil
}

// buffer allocates memory that can be bound.
func (l *tuner) buffer(size int64, use native.Usage) (*native.Buffer, error) {
	if size > l.d.binding {
		return nil, fmt.Errorf("%d bytes are more than a binding holds", size)
	}
	b, err := l.d.gpu.Buffer("a trial", size, use)
	if err == nil {
		l.made = append(l.made, b)
	}
	return b, err
}

// release releases all.
func (l *tuner) release() {
	for _, x := range l.made {
		x.Release()
	}
	l.made = nil
}

// block is the shader's parameters as they are in memory.
func (s *shader) block() []byte {
	block := make([]byte, paramBytes)
	for i, v := range s.params {
		binary.LittleEndian.PutUint32(block[4*i:], v)
	}
	return block
}

// A stopwatch times runs, each several times over: by the device's clock where it can be read between dispatches, which knows
// nothing of what others have the device do, elsewhere by the host's.
type stopwatch struct {
	runs   [][]call
	repeat int
	d      *Device
	e      *native.Encoder
	stamps *stamps // nil for the host's clock
}

func (l *tuner) stopwatch(runs [][]launch, repeat int) (*stopwatch, error) {
	calls, err := l.ready(runs)
	if err != nil {
		return nil, err
	}
	w := &stopwatch{runs: calls, repeat: repeat, d: l.d, e: l.d.gpu.Encoder()}
	if l.d.gpu.CanTime() {
		w.stamps, err = l.d.stamps(2)
	}
	return w, err
}

func (w *stopwatch) release() {
	if w.stamps != nil {
		w.stamps.release()
	}
}

// time does a run, and returns what it took.
func (w *stopwatch) time(run int) (time.Duration, error) {
	start := time.Now()
	if err := w.e.Begin(); err != nil {
		return 0, err
	}
	if w.stamps != nil {
		w.e.Timestamp(w.stamps.Queries, 0)
	}
	for range w.repeat {
		for _, c := range w.runs[run] {
			w.e.Dispatch(c.pipeline, c.group, c.groups)
		}
	}
	if w.stamps != nil {
		w.e.Timestamp(w.stamps.Queries, 1)
		ticks, err := w.stamps.read(w.e)
		if err != nil {
			return 0, err
		}
		return w.stamps.Since(ticks[0], ticks[1]), nil
	}
	if err := w.e.Submit(); err != nil {
		return 0, err
	}
	err := w.d.gpu.Poll()
	return time.Since(start), err
}
