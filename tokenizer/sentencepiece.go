package tokenizer

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// A spmModel is what counts of a SentencePiece file, which is a message of sentencepiece_model.proto.
type spmModel struct {
	pieces      []spmPiece
	kind        uint64 // 1: Unigram, 2: BPE
	unknown     int64
	unknownText string
	charsmap    []byte
}

// A spmPiece is a token of the model.
type spmPiece struct {
	text  string
	score float64
	kind  uint64
}

const (
	spmUnigram, spmBPE         = 1, 2
	spmControl, spmUserDefined = 3, 4
	spmLargest                 = 1 << 22 // pieces
	spmNotProtobuf             = "it is not a SentencePiece file: %w"
)

// readSPM reads a SentencePiece file.
func readSPM(data []byte) (*spmModel, error) {
	m := &spmModel{kind: spmUnigram, unknownText: "<unk>"}
	whole := false // the settings were read, which SentencePiece writes after the pieces
	err := eachField(data, func(number protowire.Number, value uint64, content []byte) error {
		switch number {
		case 1:
			p := spmPiece{kind: 1}
			err := eachField(content, func(number protowire.Number, value uint64, content []byte) error {
				switch number {
				case 1:
					p.text = string(content)
				case 2:
					p.score = float64(math.Float32frombits(uint32(value)))
				case 3:
					p.kind = value
				}
				return nil
			})
			if err == nil && !utf8.ValidString(p.text) {
				err = fmt.Errorf("piece %d is not UTF-8", len(m.pieces))
			}
			if m.pieces = append(m.pieces, p); len(m.pieces) > spmLargest {
				err = fmt.Errorf("more than %d pieces", spmLargest)
			}
			return err
		case 2:
			whole = true
			return eachField(content, func(number protowire.Number, value uint64, content []byte) error {
				switch number {
				case 3:
					m.kind = value
				case 40:
					m.unknown = int64(int32(value))
				case 45:
					m.unknownText = string(content)
				}
				return nil
			})
		case 3:
			return eachField(content, func(number protowire.Number, _ uint64, content []byte) error {
				if number == 2 {
					m.charsmap = content
				}
				return nil
			})
		}
		return nil
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf(spmNotProtobuf, err)
	case len(m.pieces) == 0:
		return nil, fmt.Errorf(spmNotProtobuf, errors.New("it has no pieces"))
	case !whole:
		return nil, fmt.Errorf(spmNotProtobuf, fmt.Errorf("it ends after %d pieces without a model type: is the file truncated?",
			len(m.pieces)))
	case m.kind != spmUnigram && m.kind != spmBPE:
		return nil, fmt.Errorf("its model has the type %d; known are 1 (Unigram) and 2 (BPE)", m.kind)
	}
	return m, nil
}

// eachField calls do for each field of a message: with its value if it is a number, or else its content.
func eachField(message []byte, do func(number protowire.Number, value uint64, content []byte) error) error {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return protowire.ParseError(n)
		}
		message = message[n:]
		var value uint64
		var content []byte
		switch kind {
		case protowire.VarintType:
			value, n = protowire.ConsumeVarint(message)
		case protowire.Fixed32Type:
			var v uint32
			v, n = protowire.ConsumeFixed32(message)
			value = uint64(v)
		case protowire.BytesType:
			content, n = protowire.ConsumeBytes(message)
		default:
			n = protowire.ConsumeFieldValue(number, kind, message)
		}
		if n < 0 {
			return protowire.ParseError(n)
		}
		message = message[n:]
		if err := do(number, value, content); err != nil {
			return err
		}
	}
	return nil
}

// find returns the index of a piece, or -1.
func (m *spmModel) find(text string) int {
	return slices.IndexFunc(m.pieces, func(p spmPiece) bool { return p.text == text })
}

// A spmMerge is a pair of pieces that are a piece together, with the score of that.
type spmMerge struct {
	pair         [2][]byte
	score        float64
	lengths, ids [2]int
}

// spmMerges returns the merges of a BPE model, which SentencePiece does not keep: for each piece with its score, the ways to make it of
// two others, the best score first. known are the pieces by their text.
func spmMerges(pieces []spmPiece, known map[string]int) [][2][]byte {
	var merges []spmMerge
	seen := make(map[string]float64, len(pieces)) // of equal pieces the last score counts, at the position of the first
	for _, p := range pieces {
		seen[p.text] = p.score
	}
	for _, p := range pieces {
		score, ok := seen[p.text]
		if !ok {
			continue
		}
		delete(seen, p.text)
		first, count := len(merges), 0
		for i := range p.text {
			if i > 0 {
				left, right := p.text[:i], p.text[i:]
				a, ok := known[left]
				b, also := known[right]
				if ok && also {
					merges = append(merges, spmMerge{[2][]byte{[]byte(left), []byte(right)}, score,
						[2]int{count, utf8.RuneCountInString(right)}, [2]int{a, b}})
				}
			}
			count++
		}
		slices.SortStableFunc(merges[first:], func(a, b spmMerge) int {
			return cmp.Or(cmp.Compare(a.ids[0], b.ids[0]), cmp.Compare(a.ids[1], b.ids[1]))
		})
	}
	slices.SortStableFunc(merges, func(a, b spmMerge) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(b.lengths[0], a.lengths[0]), cmp.Compare(b.lengths[1], a.lengths[1]))
	})
	out := make([][2][]byte, len(merges))
	for i, m := range merges {
		out[i] = m.pair
	}
	return out
}
