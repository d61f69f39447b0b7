package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A conversion is what transformers makes of a SentencePiece file for a class of models.
type conversion struct {
	pieces       func(c *config, m *spmModel) // changes the pieces
	unknown      string                       // the piece that stands for unknown characters; none: as the file says
	normalizer   func(c *config, charsmap normalizer) sequence
	pre          func(c *config) preTokenizer
	decoder      func(c *config) decoder
	fallback     bool
	single, pair string // the templates of sequences: "[CLS]:0 $A:0 [SEP]:0"
	specials     string // the class's special tokens; one that ends with "<" takes the white space before it
}

// fairseq are the special tokens of the models that were trained with fairseq.
const fairseq = "<s> </s> <unk> <pad> <mask><"

const (
	bertSingle, bertPair       = "[CLS]:0 $A:0 [SEP]:0", "[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1"
	robertaSingle, robertaPair = "<s> $A </s>", "<s> $A </s> </s> $B </s>"
)

const mbartLanguages = "ar_AR cs_CZ de_DE en_XX es_XX et_EE fi_FI fr_XX gu_IN hi_IN it_IT ja_XX kk_KZ ko_KR lt_LT lv_LV my_MM ne_NP " +
	"nl_XX " +
	"ro_RO ru_RU si_LK tr_TR vi_VN zh_CN"

// conversions are the classes by the name of tokenizer_class, without "Tokenizer" and "Fast".
var conversions = map[string]conversion{
	"XLMRoberta": {
		pieces:  replacePieces(3, "<s> <pad> </s> <unk>", "<mask>"),
		unknown: "<unk>", normalizer: plainSPM, pre: metaspaceWords, decoder: metaspaceDecoder,
		single: robertaSingle, pair: robertaPair, specials: fairseq,
	},
	"Camembert": {
		pieces: func(c *config, m *spmModel) {
			replacePieces(1, "<s>NOTUSED <pad> </s>NOTUSED <unk> <unk>NOTUSED", "<mask>")(c, m)
			m.pieces[4].score = -100
		},
		unknown: "<unk>", normalizer: plainSPM, pre: metaspaceWords, decoder: metaspaceDecoder,
		single: robertaSingle, pair: robertaPair, specials: fairseq + " <s>NOTUSED </s>NOTUSED <unk>NOTUSED",
	},
	"MBart": {
		pieces:  replacePieces(3, "<s> <pad> </s> <unk>", mbartLanguages+" <mask>"),
		unknown: "<unk>", normalizer: plainSPM, pre: metaspaceWords, decoder: metaspaceDecoder,
		single: "$A </s> en_XX", pair: "$A $B </s> en_XX", specials: fairseq + " " + mbartLanguages,
	},
	"Albert": {
		pieces: func(_ *config, m *spmModel) {
			for i, p := range m.pieces {
				if endsInNumber(p.text) {
					m.pieces[i].score -= 100 // a number and a comma are better apart
				}
			}
		},
		normalizer: func(c *config, charsmap normalizer) sequence {
			s := sequence{replace{literal("``"), `"`}, replace{literal("''"), `"`}}
			if !isSet(c.KeepAccents, false) {
				decompose, _ := form(compatible, decomposing)(nil, 0)
				s = append(s, decompose, mapping(stripAccents))
			}
			if isSet(c.DoLowerCase, true) {
				s = append(s, mapping(lowercase))
			}
			return append(s, charsmap, replace{spaces{}, " "})
		},
		pre: metaspaceWords, decoder: metaspaceDecoder,
		single: bertSingle, pair: bertPair, specials: "[CLS] [SEP] <unk> <pad> [MASK]<",
	},
	"DebertaV2": {
		normalizer: func(c *config, charsmap normalizer) sequence {
			s := sequence{strip{true, true}, charsmap, replace{spaces{}, " "}}
			if isSet(c.DoLowerCase, false) {
				s = append(sequence{mapping(lowercase)}, s...)
			}
			return s
		},
		pre: func(c *config) preTokenizer {
			if isSet(c.SplitByPunct, false) {
				return preSequence{splitter{hasClass(punct), isolated, false}, metaspaceWords(c)}
			}
			return metaspaceWords(c)
		},
		decoder: metaspaceDecoder,
		single:  bertSingle, pair: bertPair, specials: "[CLS] [SEP] [UNK] [PAD] [MASK]",
	},
	"T5": {
		pieces: func(c *config, m *spmModel) {
			for i := extraIDs(c) - 1; i >= 0; i-- {
				m.pieces = append(m.pieces, spmPiece{text: extraID(i)})
			}
		},
		normalizer: plainSPM, pre: metaspaceWords, decoder: metaspaceDecoder,
		single: "$A </s>", pair: "$A </s> $B </s>", specials: "</s> <unk> <pad>",
	},
	"Llama": {
		normalizer: func(c *config, _ normalizer) sequence {
			switch {
			case !isSet(c.Legacy, true):
				return nil
			case isSet(c.AddPrefixSpace, true):
				return sequence{prepend("▁"), replace{literal(" "), "▁"}}
			}
			return sequence{replace{literal(" "), "▁"}}
		},
		pre: func(c *config) preTokenizer {
			if isSet(c.Legacy, true) {
				return nil
			}
			return metaspace{string(metaspaceRune), c.scheme(), false}
		},
		decoder: func(c *config) decoder {
			s := byteDecoder(c).(decoderSequence)
			if isSet(c.AddPrefixSpace, true) {
				first, _ := readStripDecoder([]byte(`{"content": " ", "start": 1}`), 0)
				s = append(s, first)
			}
			return s
		},
		fallback: true,
		single:   "<s>:0 $A:0", pair: "<s>:0 $A:0 <s>:1 $B:1", specials: "<s> </s> <unk>",
	},
	"Gemma": {
		pieces: func(c *config, m *spmModel) {
			replacePieces(3, "<pad> <eos> <bos>", "")(c, m)
			if i := m.find("<0x09>"); i >= 0 && m.find("\t") < 0 {
				m.pieces[i] = spmPiece{text: "\t"} // the first models lacked it
			}
		},
		normalizer: func(*config, normalizer) sequence { return sequence{replace{literal(" "), "▁"}} },
		pre:        func(*config) preTokenizer { return splitter{literal(" "), mergedWithPrevious, false} },
		decoder:    byteDecoder,
		fallback:   true,
		single:     "<bos>:0 $A:0", pair: "<bos>:0 $A:0 <bos>:1 $B:1", specials: "<pad> <eos> <bos> <unk>",
	},
}

// replacePieces puts pieces of the score 0 instead of that many, and others at the end.
func replacePieces(count int, first, last string) func(*config, *spmModel) {
	return func(_ *config, m *spmModel) {
		var pieces []spmPiece
		for text := range strings.FieldsSeq(first) {
			pieces = append(pieces, spmPiece{text: text})
		}
		pieces = append(pieces, m.pieces[min(count, len(m.pieces)):]...)
		for text := range strings.FieldsSeq(last) {
			pieces = append(pieces, spmPiece{text: text})
		}
		m.pieces = pieces
	}
}

// endsInNumber reports whether a piece ends with a digit and a comma.
func endsInNumber(text string) bool {
	head, found := strings.CutSuffix(text, ",")
	r, _ := utf8.DecodeLastRuneInString(head)
	return found && unicode.IsDigit(r)
}

func plainSPM(_ *config, charsmap normalizer) sequence {
	return sequence{charsmap, strip{Right: true}, replace{spaces{}, string(metaspaceRune)}}
}

// scheme is where a space is put in front.
func (c *config) scheme() prependScheme {
	switch {
	case !isSet(c.AddPrefixSpace, true):
		return prependNever
	case !isSet(c.Legacy, true):
		return prependFirst
	}
	return prependAlways
}

func metaspaceWords(c *config) preTokenizer {
	return metaspace{string(metaspaceRune), c.scheme(), true}
}

func metaspaceDecoder(c *config) decoder { return metaspace{string(metaspaceRune), c.scheme(), true} }

func byteDecoder(*config) decoder {
	return decoderSequence{replace{literal(string(metaspaceRune)), " "}, decoderFunc(decodeByteFallback),
		decoderFunc(func(tokens []string) []string { return []string{strings.Join(tokens, "")} })}
}

// isSet returns a switch of a file, or what holds where the file does not name it.
func isSet(value *bool, otherwise bool) bool {
	if value != nil {
		return *value
	}
	return otherwise
}

func extraIDs(c *config) int {
	if c.ExtraIDs != nil {
		return min(*c.ExtraIDs, 1<<16)
	}
	return 100
}

func extraID(i int) string { return "<extra_id_" + strconv.Itoa(i) + ">" }

// classOfModel returns the conversion for a file: by tokenizer_class, else by the pieces.
func classOfModel(c *config, m *spmModel) (conversion, error) {
	name := strings.TrimSuffix(strings.TrimSuffix(c.Class, "Fast"), "Tokenizer")
	if known, ok := conversions[name]; ok {
		return known, nil
	}
	if name != "" && name != "PreTrained" {
		return conversion{}, fmt.Errorf("unknown tokenizer_class %q in tokenizer_config.json; known are %s", c.Class, names(conversions))
	}
	switch has := func(text string) bool { return m.find(text) >= 0 }; {
	case m.kind == spmBPE && has("<start_of_turn>"):
		name = "Gemma"
	case m.kind == spmBPE:
		name = "Llama"
	case has("[CLS]") && has("[UNK]"):
		name = "DebertaV2"
	case has("[CLS]"):
		name = "Albert"
	case has("<s>"):
		name = "XLMRoberta"
	default:
		name = "T5"
	}
	return conversions[name], nil
}

// convert makes a definition of a SentencePiece file.
func (m *spmModel) convert(c *config) (*definition, error) {
	class, err := classOfModel(c, m)
	if err != nil {
		return nil, err
	}
	fillClasses()
	charsmap, err := newCharsmap(m.charsmap)
	if err != nil {
		return nil, fmt.Errorf("normalizer_spec: %w", err)
	}
	d := &definition{roles: map[string]string{}}
	known := make(map[string]int, len(m.pieces)) // the pieces as the file has them: merges are made of these
	for i, p := range m.pieces {
		known[p.text] = i
		if p.kind == spmControl || p.kind == spmUserDefined {
			d.added = append(d.added, addedToken{Content: p.text, Special: p.kind == spmControl || p.text == "<start_of_turn>" ||
				p.text == "<end_of_turn>"})
		}
	}
	if tab, ok := known["<0x09>"]; ok && class.single == conversions["Gemma"].single {
		if _, ok := known["\t"]; !ok {
			known["\t"] = tab
		}
	}
	if class.pieces != nil {
		class.pieces(c, m)
	}
	d.setModel(m, class, known)

	for _, n := range class.normalizer(c, charsmap) {
		if n != nil {
			d.normalizer = append(sequenceOf(d.normalizer), n)
		}
	}
	d.pre, d.decoder = class.pre(c), class.decoder(c)
	for token := range strings.FieldsSeq(class.specials) {
		content, left := cutLeftStrip(token)
		d.addSpecial(addedToken{Content: content, LStrip: left, Special: true})
	}
	if class.single == conversions["T5"].single {
		for i := range extraIDs(c) {
			d.addSpecial(addedToken{Content: extraID(i), Special: true})
		}
	}
	if err := c.addTokens(d); err != nil {
		return nil, err
	}
	return d, d.parseTemplates(class.single, class.pair)
}

// cutLeftStrip takes the mark of a special token that takes the white space before it off.
func cutLeftStrip(token string) (content string, left bool) {
	if strings.HasSuffix(token, "><") || strings.HasSuffix(token, "]<") {
		return token[:len(token)-1], true
	}
	return token, false
}

// sequenceOf returns the normalizers of a sequence that may be nil.
func sequenceOf(n normalizer) sequence {
	s, _ := n.(sequence)
	return s
}

// setModel makes the model of a SentencePiece file's pieces.
func (d *definition) setModel(m *spmModel, class conversion, known map[string]int) {
	index := map[string]int32{}
	for i, p := range m.pieces {
		index[p.text] = int32(i)
		d.model.entries = append(d.model.entries, entry{[]byte(p.text), int32(i)})
	}
	rest := map[string]any{"byte_fallback": class.fallback}
	if m.kind == spmUnigram {
		d.model.kind = "Unigram"
		for _, p := range m.pieces {
			d.model.scores = append(d.model.scores, p.score)
		}
		rest["unk_id"] = m.unknown
		if id, ok := index[class.unknown]; ok && class.unknown != "" {
			rest["unk_id"] = id
		}
	} else {
		d.model.kind = "BPE"
		rest["unk_token"], rest["fuse_unk"] = m.unknownText, true
		d.model.merges = spmMerges(m.pieces, known)
	}
	d.model.rest, _ = json.Marshal(rest)
}

// addSpecial adds a token to the added ones, instead of one with the same content.
func (d *definition) addSpecial(a addedToken) {
	if i := slices.IndexFunc(d.added, func(b addedToken) bool { return b.Content == a.Content }); i >= 0 {
		d.added[i] = a
	} else {
		d.added = append(d.added, a)
	}
}

// number assigns the added tokens their ids: that of the vocabulary, or the next one.
func (d *definition) number() map[string]int32 {
	ids := make(map[string]int32, len(d.model.entries))
	next := int32(0)
	for _, e := range d.model.entries {
		ids[string(e.token)] = e.id
		next = max(next, e.id+1)
	}
	for i, a := range d.added {
		id, ok := ids[a.Content]
		if !ok {
			if id = a.ID; id == 0 {
				id = next
			}
			next = max(next, id+1)
			ids[a.Content] = id
		}
		d.added[i].ID = id
	}
	return ids
}

// parseTemplates sets the templates of sequences, written as tokenizers' Python API takes them.
func (d *definition) parseTemplates(single, pair string) error {
	ids := d.number()
	parse := func(text string) (template, error) {
		var t template
		for field := range strings.FieldsSeq(text) {
			name, kind, _ := strings.Cut(field, ":")
			segment, _ := strconv.ParseInt(kind, 10, 64)
			switch name {
			case "$A", "$B":
				t = append(t, slot{text: int(name[1] - 'A'), segment: segment})
			default:
				id, ok := ids[name]
				if !ok {
					return nil, fmt.Errorf("the vocabulary lacks %q, which sequences of this class need", name)
				}
				t = append(t, slot{special, []int64{int64(id)}, segment})
			}
		}
		return t, nil
	}
	var errs [2]error
	d.post.single, errs[0] = parse(single)
	d.post.pair, errs[1] = parse(pair)
	d.post.ownTypes = true
	return errors.Join(errs[:]...)
}
