package engine

import (
	"container/list"
	"sync"
)

// lru keeps the entries used last. Its owner guards it; entries guard themselves.
type lru[T any] struct {
	limit   int
	entries map[string]*list.Element
	order   *list.List // of *entry[T], the last used in front
}

type entry[T any] struct {
	key  string
	once sync.Once
	val  T
	err  error
}

func newLRU[T any](limit int) *lru[T] {
	return &lru[T]{limit: limit, entries: map[string]*list.Element{}, order: list.New()}
}

// get finds the entry of a key or makes an empty one, forgetting the one that was not used for longest.
func (l *lru[T]) get(key string) *entry[T] {
	if e, ok := l.entries[key]; ok {
		l.order.MoveToFront(e)
		return e.Value.(*entry[T])
	}
	e := &entry[T]{key: key}
	l.entries[key] = l.order.PushFront(e)
	if l.order.Len() > l.limit {
		old := l.order.Remove(l.order.Back()).(*entry[T])
		delete(l.entries, old.key)
	}
	return e
}

// make fills the entry on first use; several callers at once wait for one. Errors are kept as well: the same sizes fail
// again.
func (e *entry[T]) make(f func() (T, error)) (T, error) {
	e.once.Do(func() { e.val, e.err = f() })
	return e.val, e.err
}
