package tokenizer

import (
	"errors"
	"fmt"
	"time"
)

// ErrWork: the tokenizer's files make more tokens of a text, or need more steps for it, than those of any tokenizer in use.
var ErrWork = errors.New("the text has too many tokens or takes too long to tokenize")

// A budget bounds what the work on one text takes, whatever the tokenizer's files say. Its parts are far above what tokenizers in use take.
// The zero value bounds nothing.
type budget struct {
	steps, most int // bytes read or written, and what they may come to; 0 for no bound
	room        int // bytes that normal text may have
	engines     time.Duration
	asked       int                     // steps when ask was called last
	ask         func(bytes int64) error // nil for none
	err         error                   // the first
}

const (
	stepsPerByte, freeSteps = 512, 1 << 20
	roomPerByte, freeRoom   = 32, 64 << 10
	stepsPerAsk             = 64 << 10
)

// begin begins the work on a text of that many bytes.
func (b *budget) begin(length int, ask func(bytes int64) error) {
	*b = budget{most: freeSteps + stepsPerByte*length, room: freeRoom + roomPerByte*length, engines: patternTimeout +
		time.Duration(length)*timePerByte, ask: ask}
}

// spend notes steps and reports whether the work may continue.
func (b *budget) spend(steps int) bool {
	if b.err != nil || b.most == 0 {
		return b.err == nil
	}
	if b.steps += steps; b.steps > b.most {
		b.err = fmt.Errorf("tokenizer: %w: more than %d steps", ErrWork, b.most)
	} else if b.ask != nil && b.steps-b.asked >= stepsPerAsk {
		b.asked = b.steps
		b.err = b.ask(0)
	}
	return b.err == nil
}

// fits reports whether normal text may have that many bytes.
func (b *budget) fits(bytes int) bool {
	if b.err == nil && b.most > 0 && bytes > b.room {
		b.err = fmt.Errorf("tokenizer: %w: more than %d bytes", ErrWork, b.room)
	}
	return b.err == nil
}

// take asks for memory.
func (b *budget) take(bytes int) error {
	if b.err == nil && b.ask != nil {
		b.err = b.ask(int64(bytes))
	}
	return b.err
}

// Ask calls ask with a number of bytes before memory for sequences is allocated. A negative number means that temporary memory is free
// again. Ask also calls ask with 0 from time to time. An error of ask ends the work.
func Ask(ask func(bytes int64) error) EncodeOption { return func(o *encodeOptions) { o.ask = ask } }
