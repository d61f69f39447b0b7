package tokenizer

import (
	"iter"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// An addedToken is found in the text unchanged, before words are split: "[MASK]", or what a model's authors added later.
type addedToken struct {
	ID         int32  `json:"id"`
	Content    string `json:"content"`
	Special    bool   `json:"special"`     // is left out of decoded text
	SingleWord bool   `json:"single_word"` // only where no letter or digit touches it
	LStrip     bool   `json:"lstrip"`      // takes the white space before it
	RStrip     bool   `json:"rstrip"`      // takes the white space after it
	Normalized bool   `json:"normalized"`  // is looked for, in its normal form, in the normal text
}

// A finder splits text at added tokens.
type finder struct {
	tokens []addedToken
	trie   *trie     // contents of the tokens; an id in the trie is an index in tokens
	begins [256]bool // bytes with which a token begins
	first  byte      // one of the bytes in begins
	lone   bool      // first is the only byte in begins
}

// newFinder makes a finder of tokens whose contents are in the form in which the text will be; nil if there is none to find. Of two
// tokens that have become the same the first counts; tokenizers leaves that to chance.
func newFinder(tokens []addedToken) *finder {
	f := &finder{tokens: tokens}
	var entries []entry
	for i := len(tokens) - 1; i >= 0; i-- {
		if content := tokens[i].Content; content != "" { // the normal form of an accent is empty
			entries = append(entries, entry{[]byte(content), int32(i)})
			f.begins[content[0]] = true
		}
	}
	if len(entries) == 0 {
		return nil
	}
	f.trie = newTrie(entries)
	f.first = entries[0].token[0]
	f.lone = !slices.ContainsFunc(entries, func(e entry) bool { return e.token[0] != f.first })
	return f
}

// next returns where, from byte i on, a token may begin.
func (f *finder) next(text string, i int) int {
	if f.lone {
		if n := strings.IndexByte(text[i:], f.first); n >= 0 {
			return i + n
		}
		return len(text)
	}
	for i < len(text) && !f.begins[text[i]] {
		i++
	}
	return i
}

// parts yields, in order, the added tokens in text and, with the id none, the stretches of text between them. The token that begins
// first wins, and of those the longest. A nil finder finds nothing, and one whose budget has ended nothing more.
func (f *finder) parts(text string, b *budget) iter.Seq[part] {
	return func(yield func(part) bool) {
		done := 0 // what is before has been yielded
		for i := 0; f != nil; {
			if i = f.next(text, i); i == len(text) {
				break
			}
			index, size := longest(f.trie, 0, text[i:], b)
			if size == 0 {
				i++
				continue
			}
			token, start, end := &f.tokens[index], i, i+size
			i = end
			if token.SingleWord && (endsInWord(text[:start]) || beginsInWord(text[end:])) {
				continue
			}
			if token.LStrip && done < start {
				start = done + len(strings.TrimRightFunc(text[done:start], unicode.IsSpace))
			}
			if token.RStrip {
				end = len(text) - len(strings.TrimLeftFunc(text[end:], unicode.IsSpace))
			}
			if done < start && !yield(part{int32(done), int32(start), none}) {
				return
			}
			if !yield(part{int32(start), int32(end), token.ID}) {
				return
			}
			done = end
		}
		if done < len(text) {
			yield(part{int32(done), int32(len(text)), none})
		}
	}
}

func endsInWord(text string) bool {
	r, _ := utf8.DecodeLastRuneInString(text)
	return isWord(r)
}

func beginsInWord(text string) bool {
	r, _ := utf8.DecodeRuneInString(text)
	return isWord(r)
}

// isWord is \w of the regular expressions of Unicode 16 (Technical Standard 18, annex C).
func isWord(r rune) bool { return classOf(r)&word != 0 }
