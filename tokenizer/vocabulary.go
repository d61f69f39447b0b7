package tokenizer

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"math/bits"
)

// A vocabulary is the tokens of a model and their ids.
type vocabulary struct {
	text  []byte   // the tokens, in the order of their ids
	start []uint32 // offset in text of each token, by id, and the length of text
	holes []uint64 // a bit for each id that no token has
	slots []int32  // hash table of ids with open addressing; none for a free slot
	count int      // number of tokens
}

// An entry is a token and its id.
type entry struct {
	token []byte
	id    int32
}

// maxID bounds ids: tables have a row for each up to the largest.
const maxID = 1 << 23

var hashSeed = maphash.MakeSeed()

// newVocabulary makes a vocabulary. Two ids may have the same token, of which the last counts; two tokens may not have the same id.
func newVocabulary(entries []entry) (*vocabulary, error) {
	size, length := 0, 0
	for _, e := range entries {
		if e.id < 0 || e.id >= maxID {
			return nil, fmt.Errorf("the token %q has the id %d; an id is at least 0 and less than %d", shorten(e.token), e.id, maxID)
		}
		size = max(size, int(e.id)+1)
		length += len(e.token)
	}
	if uint64(length) >= 1<<32 {
		return nil, fmt.Errorf("%d tokens of %d bytes in all: more than 4 GiB", len(entries), length)
	}
	at := make([]int32, size) // by id: the index of its entry, from 1
	for i, e := range entries {
		if other := at[e.id]; other != 0 && !bytes.Equal(entries[other-1].token, e.token) {
			return nil, fmt.Errorf("the tokens %q and %q have the same id %d", shorten(entries[other-1].token), shorten(e.token), e.id)
		}
		at[e.id] = int32(i + 1)
	}
	v := &vocabulary{
		text: make([]byte, 0, length), start: make([]uint32, size+1), holes: make([]uint64, (size+63)/64),
		slots: make([]int32, 1<<bits.Len(uint(len(entries)*3/2))), count: len(entries),
	}
	for id, i := range at {
		v.start[id] = uint32(len(v.text))
		if i == 0 {
			v.holes[id/64] |= 1 << (id % 64)
		} else {
			v.text = append(v.text, entries[i-1].token...)
		}
	}
	v.start[size] = uint32(len(v.text))
	for i := range v.slots {
		v.slots[i] = none
	}
	for _, e := range entries {
		v.slots[v.slot(e.token)] = e.id
	}
	return v, nil
}

// size is one more than the largest id.
func (v *vocabulary) size() int { return len(v.start) - 1 }

// slot returns the position of a token in slots.
func (v *vocabulary) slot(token []byte) int {
	mask := len(v.slots) - 1
	i := int(maphash.Bytes(hashSeed, token)) & mask
	for v.slots[i] != none && !bytes.Equal(v.bytes(v.slots[i]), token) {
		i = (i + 1) & mask
	}
	return i
}

// find returns the id of a token, or none.
func (v *vocabulary) find(token []byte) int32 { return v.slots[v.slot(token)] }

// bytes returns the token with an id that is in use.
func (v *vocabulary) bytes(id int32) []byte { return v.text[v.start[id]:v.start[id+1]] }

// token returns the token with an id.
func (v *vocabulary) token(id int64) (string, bool) {
	if id < 0 || id >= int64(v.size()) || v.holes[id/64]>>(id%64)&1 != 0 {
		return "", false
	}
	return string(v.bytes(int32(id))), true
}

// each calls do for each token in the order of ids.
func (v *vocabulary) each(do func(id int32, token []byte)) {
	for id := range v.size() {
		if v.holes[id/64]>>(id%64)&1 == 0 {
			do(int32(id), v.bytes(int32(id)))
		}
	}
}
