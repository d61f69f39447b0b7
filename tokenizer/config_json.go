package tokenizer

import (
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// A jsonClass is what transformers does for a class with the settings of tokenizer_config.json beside a tokenizer.json. Versions 4 and 5
// differ: version 4 changes the parts of tokenizer.json, and version 5 makes those of its classes again.
type jsonClass struct {
	bert     bool   // a BertNormalizer has the settings of the config, and the defaults of BERT for those that it does not name
	prefix   bool   // ByteLevel has add_prefix_space of the config, which is off by default; else only version 4 applies it
	trims    bool   // the post-processor has add_prefix_space and trim_offsets too
	ends     bool   // version 4 applies add_bos_token and add_eos_token too
	bos, eos string // the tokens, where the config names none
}

// jsonClasses are the classes by the name of tokenizer_class, without "Tokenizer" and "Fast". Others are as the zero value.
var jsonClasses = map[string]jsonClass{
	"Bert": {bert: true}, "DistilBert": {bert: true}, "Electra": {bert: true}, "MobileBert": {bert: true}, "ConvBert": {bert: true},
	"LayoutLM": {bert: true}, "SqueezeBert": {bert: true}, "Lxmert": {bert: true}, "Funnel": {bert: true}, "MPNet": {bert: true},
	"Roberta":    {prefix: true, trims: true, bos: "<s>", eos: "</s>"},
	"Longformer": {prefix: true, trims: true, bos: "<s>", eos: "</s>"},
	"Bart":       {prefix: true, trims: true, bos: "<s>", eos: "</s>"},
	"GPT2":       {prefix: true, bos: "<|endoftext|>", eos: "<|endoftext|>"},
	"Qwen2":      {eos: "<|endoftext|>"},
	"Llama":      {ends: true, bos: "<s>", eos: "</s>"},
	"CodeLlama":  {ends: true, bos: "<s>", eos: "</s>"},
	"Gemma":      {ends: true, bos: "<bos>", eos: "<eos>"},
	"GPTNeoX":    {ends: true, prefix: true, bos: "<|endoftext|>", eos: "<|endoftext|>"},
	"Cohere":     {ends: true, bos: "<BOS_TOKEN>", eos: "<|END_OF_TURN_TOKEN|>"},
}

// className returns tokenizer_class without the endings that versions of transformers add.
func (c *config) className() string {
	return strings.TrimSuffix(strings.TrimSuffix(c.Class, "Fast"), "Tokenizer")
}

// applyJSON changes what a tokenizer.json defines, as transformers does with the config beside it.
func (c *config) applyJSON(d *definition) error {
	class := jsonClasses[c.className()]
	if class.bert && d.bert != nil {
		d.bert.Lower, d.bert.Chinese, d.bert.Strip = true, true, nil
	}
	c.applyPrefix(d, class)
	if c.SplitSpecial != nil && *c.SplitSpecial {
		d.splitSpecial = true
	}
	if err := c.changeTokens(d); err != nil {
		return err
	}
	c.applyEnds(d, class)
	if len(c.AutoMap.AutoTokenizer) > 0 {
		return c.appendEnd(d)
	}
	return nil
}

// applyPrefix applies add_prefix_space to a ByteLevel that is the whole pre-tokenizer.
func (c *config) applyPrefix(d *definition, class jsonClass) {
	level, ok := d.pre.(*byteLevel)
	if !ok {
		if c.AddPrefixSpace != nil && *c.AddPrefixSpace && lastByteLevel(d.pre) != nil && !lastByteLevel(d.pre).AddPrefixSpace {
			d.note("add_prefix_space of tokenizer_config.json is ignored as in transformers 4; version 5 may apply it")
		}
		return
	}
	want := isSet(c.AddPrefixSpace, false)
	switch {
	case class.prefix:
		level.AddPrefixSpace = want
	case c.AddPrefixSpace != nil && level.AddPrefixSpace != want:
		level.AddPrefixSpace = want
		d.note("add_prefix_space is %v as in tokenizer_config.json, with transformers 4; version 5 takes tokenizer.json's", want)
	case c.Class != "" && level.AddPrefixSpace:
		d.note("add_prefix_space is true as in tokenizer.json, with transformers 5; version 4 takes false if the config does not name it")
	}
	if class.trims && len(d.post.trims) <= 1 {
		if c.TrimOffsets != nil && !*c.TrimOffsets {
			d.post.trims = nil
		} else if isSet(c.TrimOffsets, true) && class.prefix {
			d.post.trims = []bool{want}
		}
	}
}

// changeTokens gives added tokens the attributes of added_tokens_decoder, adds its other tokens, and makes the tokens that have a role
// special.
func (c *config) changeTokens(d *definition) error {
	ids, next := d.idsOf(func(yield func(string) bool) {
		for _, a := range c.AddedTokens {
			if !yield(a.Content) {
				return
			}
		}
		for _, n := range c.named() {
			if !yield(n.content) {
				return
			}
		}
	})
	numbers := make([]int, 0, len(c.AddedTokens))
	for number := range c.AddedTokens {
		id, err := strconv.ParseUint(number, 10, 31)
		if err != nil {
			return fmt.Errorf("tokenizer_config.json beside it: added_tokens_decoder: %q is not an id", number)
		}
		numbers = append(numbers, int(id))
	}
	slices.Sort(numbers)
	for _, number := range numbers {
		a := c.AddedTokens[strconv.Itoa(number)]
		id, known := ids[a.Content]
		if !known {
			if id = int32(number); id != next {
				d.note("the added token %q of tokenizer_config.json has the id %d; transformers numbers it %d", a.Content, id, next)
			}
			next = max(next, id+1)
		}
		a.ID = id
		d.addSpecial(a)
	}
	for _, role := range roleNames {
		n := c.named()[role]
		id, known := ids[n.content]
		if n.content == "" || !known || slices.ContainsFunc(d.added, func(a addedToken) bool { return a.Content == n.content }) {
			continue
		}
		n.token.Content, n.token.ID, n.token.Special = n.content, id, true
		d.addSpecial(n.token)
	}
	return nil
}

// applyEnds makes the templates of add_bos_token and add_eos_token, which version 4 does for a few classes. Version 5 takes the file's.
// Where the two differ, the config's is taken if it names a key.
func (c *config) applyEnds(d *definition, class jsonClass) {
	if !class.ends {
		return
	}
	first, last := c.Bos.or(class.bos), c.Eos.or(class.eos)
	single, pair := "$A:0", "$B:1"
	if isSet(c.AddBos, c.className() != "GPTNeoX") {
		single, pair = first+":0 "+single, first+":1 "+pair
	}
	if isSet(c.AddEos, false) {
		single, pair = single+" "+last+":0", pair+" "+last+":1"
	}
	made := definition{model: d.model, added: slices.Clone(d.added)}
	if made.parseTemplates(single, single+" "+pair) != nil ||
		reflect.DeepEqual(made.post.single, d.post.single) && reflect.DeepEqual(made.post.pair, d.post.pair) {
		return // without these tokens version 4 fails
	}
	if c.AddBos == nil && c.AddEos == nil {
		d.note("sequences are as in tokenizer.json, with transformers 5; version 4 writes them as %q", single)
		return
	}
	d.note("sequences are %q as in tokenizer_config.json, with transformers 4; version 5 takes tokenizer.json's", single)
	d.post = made.post
}

// appendEnd appends the end token to texts, if the config asks for it and the template has not done so. The code of some models' own
// tokenizer classes does it; both versions ignore add_eos_token otherwise.
func (c *config) appendEnd(d *definition) error {
	class := jsonClasses[c.className()]
	if !isSet(c.AddEos, false) || class.ends {
		return nil
	}
	name := c.Eos.or(class.eos)
	ids, _ := d.idsOf(slices.Values([]string{name}))
	end, ok := ids[name]
	if !ok {
		return fmt.Errorf("tokenizer_config.json beside it: add_eos_token is set, but the vocabulary lacks the eos_token %q", name)
	}
	appended := false
	for _, t := range []*template{&d.post.single, &d.post.pair} {
		var out template
		for i, s := range *t {
			out = append(out, s)
			if s.text == special || i+1 < len(*t) && slices.Equal((*t)[i+1].ids, []int64{int64(end)}) {
				continue
			}
			out, appended = append(out, slot{special, []int64{int64(end)}, s.segment}), true
		}
		*t = out
	}
	if appended {
		d.note("the end token %q is appended as add_eos_token of tokenizer_config.json asks; transformers does so by the model's own code",
			name)
	}
	return nil
}

// idsOf returns the ids of tokens that the definition has, and the id of a new one.
func (d *definition) idsOf(tokens iter.Seq[string]) (ids map[string]int32, next int32) {
	ids = map[string]int32{}
	wanted := map[string]bool{}
	for token := range tokens {
		wanted[token] = true
	}
	for _, a := range d.added {
		if wanted[a.Content] {
			ids[a.Content] = a.ID
		}
		next = max(next, a.ID+1)
	}
	for _, e := range d.model.entries { // of both, the model's id counts
		if wanted[string(e.token)] {
			ids[string(e.token)] = e.id
		}
		next = max(next, e.id+1)
	}
	return ids, next
}

// note adds what Notes returns.
func (d *definition) note(format string, values ...any) {
	d.notes = append(d.notes, fmt.Sprintf(format, values...))
}
