package engine

import (
	"container/list"
	"strconv"
	"sync"
	"unsafe"

	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/planner"
)

// A cache keeps the bindings of a program, of its subgraphs and of all their stages, and each session's instances with them: the
// ones used last, up to a number of bytes. What is forgotten lives on while a session runs it.
type cache struct {
	limit int64 // bytes

	mu      sync.Mutex
	entries map[cacheKey]*list.Element
	order   list.List // elements are *entry, the last used in front
	stats   CacheStats
}

// CacheStats say what a program's cache of bindings holds and what it did.
type CacheStats struct {
	Plans, Planned, Evicted, Rejected int
	Bytes, Limit                      int64
}

// A cacheKey is a stage, the numbers of its symbols, in their order, and which of its inputs and outputs are device tensors. A box of a
// session has a number instead of those.
type cacheKey struct {
	stage *stage
	sizes string
	ports string
	of    owner
	box   int
}

// An owner is a session, of which the cache compares the address alone.
type owner any

type entry struct {
	key cacheKey

	once    sync.Once
	binding *Binding
	err     error

	// The cache guards these.
	bytes     int64
	evicted   bool
	instances map[owner]backend.Instance
}

// defaultCache is the limit of a cache where the options say nothing. A binding of a BERT base takes about a third of a megabyte.
const defaultCache = 64 << 20

func newCache(limit int64) *cache {
	if limit <= 0 {
		limit = defaultCache
	}
	return &cache{limit: limit, entries: map[cacheKey]*list.Element{}}
}

func keyOf(s *stage, b ir.Binding, at ports) cacheKey {
	var sizes []byte
	for _, name := range s.symbols {
		sizes = append(strconv.AppendInt(sizes, int64(b[name]), 10), ',')
	}
	return cacheKey{stage: s, sizes: string(sizes), ports: at.key()}
}

// bind returns the entry of a key, which plan fills on first use; several callers at once wait for one. Errors are kept as well:
// the same sizes fail again.
func (c *cache) bind(key cacheKey, plan func() (*Binding, error)) (*entry, error) {
	c.mu.Lock()
	var e *entry
	if found, ok := c.entries[key]; ok {
		c.order.MoveToFront(found)
		e = found.Value.(*entry)
	} else {
		e = &entry{key: key, instances: map[owner]backend.Instance{}}
		c.entries[key] = c.order.PushFront(e)
	}
	c.mu.Unlock()
	e.once.Do(func() {
		e.binding, e.err = plan()
		c.mu.Lock()
		c.stats.Planned++
		c.charge(e, bindingBytes(e.binding))
		c.mu.Unlock()
	})
	return e, e.err
}

// instance returns the session's instance of an entry, which attach makes where there is none.
func (c *cache) instance(e *entry, s owner, attach func() (backend.Instance, error)) (backend.Instance, error) {
	c.mu.Lock()
	made := e.instances[s]
	c.mu.Unlock()
	if made != nil {
		return made, nil
	}
	made, err := attach()
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	e.instances[s] = made
	c.charge(e, instanceBytes(e.binding))
	c.mu.Unlock()
	return made, nil
}

// charge counts bytes of the entry that is in use, and forgets others when there are too many.
func (c *cache) charge(e *entry, bytes int64) {
	if e.evicted {
		return
	}
	e.bytes += bytes
	c.stats.Bytes += bytes
	c.order.MoveToFront(c.entries[e.key]) // others may have passed it while it was planned
	for c.stats.Bytes > c.limit {
		oldest := c.order.Back().Value.(*entry)
		if oldest == e {
			return // one is kept, however large
		}
		c.order.Remove(c.entries[oldest.key])
		delete(c.entries, oldest.key)
		oldest.evicted = true
		c.stats.Bytes -= oldest.bytes
		c.stats.Evicted++
	}
}

// share is what each entry may have of the limit, if all have as much.
func (c *cache) share() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.limit / int64(max(1, len(c.entries)))
}

// plannedAgain counts a plan of an entry that had one.
func (c *cache) plannedAgain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.Planned++
}

// rejected counts a plan that the check did not accept.
func (c *cache) rejected() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.Rejected++
}

// has reports whether an entry is there, and counts that as a use.
func (c *cache) has(e *entry) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !e.evicted {
		c.order.MoveToFront(c.entries[e.key])
	}
	return !e.evicted
}

// add counts more bytes of an entry that is in use.
func (c *cache) add(e *entry, bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.charge(e, bytes)
}

// drop forgets an entry that is of no use any more.
func (c *cache) drop(e *entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !e.evicted {
		c.order.Remove(c.entries[e.key])
		delete(c.entries, e.key)
		e.evicted = true
		c.stats.Bytes -= e.bytes
	}
}

// forget drops the instances of a session that ends.
func (c *cache) forget(s owner) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, at := range c.entries {
		e := at.Value.(*entry)
		if key.of == s { // no other caller can use it
			c.order.Remove(at)
			delete(c.entries, key)
			e.evicted = true // a session that makes room for slices still has it
			c.stats.Bytes -= e.bytes
			continue
		}
		if e.instances[s] != nil {
			delete(e.instances, s)
			e.bytes -= instanceBytes(e.binding)
			c.stats.Bytes -= instanceBytes(e.binding)
		}
	}
}

func (c *cache) read() CacheStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	s.Plans, s.Limit = len(c.entries), c.limit
	return s
}

// What bindings and instances take of Go's heap, measured on encoders of 118 to 490 nodes at both levels: TestCacheCountsBytes
// holds the estimate to the heap.
const (
	entryBytes  = 512
	nodeBytes   = 2000 // a node of a binding, with its values, layouts, lives, and its step
	columnBytes = 17   // tables for each column of a product of quantised values
	stepBytes   = 40   // a step of an instance

	boundEntryBytes = 11_000 // each binding of a box but the first
	operandBytes    = 160    // each operand and result of its steps, absent ones too, except those that share another's
)

func bindingBytes(b *Binding) int64 {
	if b == nil {
		return entryBytes // it failed
	}
	return entryBytes + nodeBytes*int64(len(b.Planned.Graph.Nodes)) + tableBytes(b)
}

// tableBytes are those of tables for the columns of products.
func tableBytes(b *Binding) (bytes int64) {
	for _, n := range b.Planned.Graph.Nodes {
		if k := n.Op.Kind(); k == ir.KindQMatMul || k == ir.KindQConv {
			columns := n.Outputs[0].Type.Sizes()
			bytes += columnBytes * int64(columns[len(columns)-1])
		}
	}
	return bytes
}

// boundBytes are those of another binding of a box, with its instance.
func boundBytes(b *Binding) int64 {
	bytes := boundEntryBytes + tableBytes(b) + int64(len(b.Planned.Problem.Buffers))*int64(unsafe.Sizeof(planner.Buffer{}))
	for i, n := range b.Planned.Steps {
		if b.Planned.Like[i] < 0 {
			bytes += operandBytes * int64(max(len(n.Inputs), ir.DefOf(n.Op).MaxIn)+len(n.Outputs))
		}
	}
	return bytes + b.bound.ConstantBytes()
}

func instanceBytes(b *Binding) int64 { return entryBytes + stepBytes*int64(len(b.Planned.Steps)) }
