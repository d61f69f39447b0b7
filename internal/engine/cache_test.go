package engine

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/ir"
)

// TestCache: what was used last stays, an instance is made once, and what a session kept goes with it.
func TestCache(t *testing.T) {
	binding := &Binding{Planned: &backend.Planned{Graph: ir.NewGraph("empty")}} // of entryBytes, as its instance
	c := newCache(3 * entryBytes)
	at, planned := &stage{symbols: []string{"a", "b"}}, 0
	get := func(a int) *entry {
		e, err := c.bind(keyOf(at, ir.Binding{"a": a, "b": 1}, nil), func() (*Binding, error) { planned++; return binding, nil })
		require.NoError(t, err)
		return e
	}
	get(1)
	get(2)
	get(1)
	require.Equal(t, 2, planned)
	s, attached := &Session{}, 0
	for range 2 {
		_, err := c.instance(get(1), s, func() (backend.Instance, error) { attached++; return struct{ backend.Instance }{}, nil })
		require.NoError(t, err)
	}
	require.Equal(t, 1, attached)
	require.Equal(t, CacheStats{Plans: 2, Planned: 2, Bytes: 3 * entryBytes, Limit: 3 * entryBytes}, c.read())
	get(3) // forgets 2
	get(1)
	require.Equal(t, 3, planned)
	c.forget(s)
	require.Equal(t, CacheStats{Plans: 2, Planned: 3, Evicted: 1, Bytes: 2 * entryBytes, Limit: 3 * entryBytes}, c.read())
	get(2)
	require.Equal(t, 4, planned)
	require.Equal(t, 1, c.read().Evicted)
}

// TestCacheOfFailures: sizes that fail are not planned again, and one entry stays, however large.
func TestCacheOfFailures(t *testing.T) {
	c, planned := newCache(1), 0
	for range 3 {
		_, err := c.bind(cacheKey{sizes: "1,"}, func() (*Binding, error) { planned++; return nil, errors.New("too large") })
		require.EqualError(t, err, "too large")
	}
	require.Equal(t, 1, planned)
}

// TestCacheLimitHoldsWhatPasses: an entry that others pass while it is planned does not keep them above the limit.
func TestCacheLimitHoldsWhatPasses(t *testing.T) {
	binding := &Binding{Planned: &backend.Planned{Graph: ir.NewGraph("empty")}} // of entryBytes
	c := newCache(2 * entryBytes)
	get := func(sizes string, meanwhile func()) {
		_, err := c.bind(cacheKey{sizes: sizes}, func() (*Binding, error) { meanwhile(); return binding, nil })
		require.NoError(t, err)
	}
	get("slow", func() {
		get("1", func() {})
		get("2", func() {})
	})
	require.Equal(t, CacheStats{Plans: 2, Planned: 3, Evicted: 1, Bytes: 2 * entryBytes, Limit: 2 * entryBytes}, c.read())
}

func TestKeyOf(t *testing.T) {
	s := &stage{symbols: []string{"a", "b"}}
	one := keyOf(s, ir.Binding{"a": 1, "b": 23}, nil)
	require.True(t, one == keyOf(s, ir.Binding{"b": 23, "a": 1, "c": 3}, nil))
	require.False(t, one == keyOf(s, ir.Binding{"a": 12, "b": 3}, nil))
	require.False(t, one == keyOf(s, ir.Binding{"a": 1, "b": 23}, ports{{outside: true}, {axis: -1}}))
	require.False(t, one == keyOf(&stage{symbols: s.symbols}, ir.Binding{"a": 1, "b": 23}, nil))
}
