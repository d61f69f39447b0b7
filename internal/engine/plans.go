package engine

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/options"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
)

// plans are the second stage of a program, bind: they plan stages of the compiled graph, and keep the bindings used last.
type plans struct {
	lifetime
	common
	graph       *ir.Graph              // the compiled program
	main        *unit                  // graph, cut into stages
	packing     *packing               // nil unless the program is unpadded
	independent func() (*batch, error) // the proof that elements of a batch are independent, made once
}

// common is what a program and those that return some of its outputs have in common.
type common struct {
	opts       options.Compile
	device     backend.Device
	late       *target.Target // the device's, if kernels are to read late; nil otherwise
	cache      *cache         // cache of bindings
	filePacked bool           // the file has the weights as kernels read them
	uploaded   func()         // is called after each planning, when the device has the weights; nil if it reads those of the host
	// pieces has the bytes of a table that a page fault brings into memory, by the address of its first byte; none if that is unknown.
	pieces map[*byte]int64
}

// A lifetime counts the uses of a program.
type lifetime struct {
	mu     sync.Mutex
	users  int                   // its sessions, its device tensors, calls under way, and itself until it is closed; mu guards it
	closed atomic.Bool           // no other use may begin
	left   func(users int) error // is called with the number of users when one has left
}

// use begins a use, which leave ends.
func (l *lifetime) use() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed.Load() {
		return ClosedError("program")
	}
	l.users++
	return nil
}

// leave ends one use.
func (l *lifetime) leave() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.users--
	return l.left(l.users)
}

// Close ends the use of the program. Sessions continue.
func (l *lifetime) Close() error {
	if l.closed.Swap(true) {
		return ClosedError("program")
	}
	return l.leave()
}

// CacheStats says what the cache of bindings holds and what it did.
func (p *plans) CacheStats() CacheStats { return p.cache.read() }

// sizes returns the sizes that are known before a run, and the index of the stage that is planned.
func (p *plans) sizes(dims map[string]int) (b ir.Binding, main int, err error) {
	b = ir.Binding{}
	names := p.graph.FreeSymbols()
	if k := p.packing; k != nil {
		if dims, err = k.sizes(dims); err != nil {
			return nil, 0, err
		}
		names, main = append(names, k.tokens), k.main
	}
	for _, name := range names {
		n, ok := dims[name]
		if !ok {
			return nil, 0, WithKind(ErrInput, fmt.Errorf("dimension %s has no size: the model has %s", name, strings.Join(names, ", ")))
		}
		if n < 0 {
			return nil, 0, WithKind(ErrInput, fmt.Errorf("dimension %s = %d is negative", name, n))
		}
		b[name] = n
	}
	for name := range dims {
		if _, ok := b[name]; !ok {
			return nil, 0, WithKind(ErrInput, noDimension(name, names))
		}
	}
	for p.packing == nil && p.main.stages[main].node != nil {
		grow(b, p.main.stages[main].node)
		main++
	}
	return b, main, nil
}

func noDimension(name string, free []string) error {
	if len(free) == 0 {
		return fmt.Errorf("the model has no dimension %q: all its sizes are fixed", name)
	}
	return fmt.Errorf("the model has no dimension %q: it has %s", name, strings.Join(free, ", "))
}

// target is the device's, under the options.
func (p *plans) target() *target.Target {
	if t := p.device.Target(); p.opts.LateReads <= 0 {
		return t
	}
	return p.late
}

// bind returns the stage's binding for these sizes, planning it when it is not among the last ones used.
func (p *plans) bind(s *stage, b ir.Binding, at ports) (*entry, error) {
	return p.cache.bind(keyOf(s, b, at), func() (*Binding, error) { return p.plan(s.graph, restrict(b, s.symbols), at, nil) })
}
