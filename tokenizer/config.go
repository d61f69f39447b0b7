package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/rlxc/rlxc/internal/files"
)

// A config is what counts of tokenizer_config.json.
type config struct {
	ModelMaxLength       *float64              `json:"model_max_length"` // 1e30 where the model has no limit
	DoLowerCase          *bool                 `json:"do_lower_case"`
	StripAccents         *bool                 `json:"strip_accents"`
	TokenizeChineseChars *bool                 `json:"tokenize_chinese_chars"`
	AddedTokens          map[string]addedToken `json:"added_tokens_decoder"` // added tokens by their ids

	Class          string `json:"tokenizer_class"`
	AddPrefixSpace *bool  `json:"add_prefix_space"`
	TrimOffsets    *bool  `json:"trim_offsets"`
	AddBos         *bool  `json:"add_bos_token"`
	AddEos         *bool  `json:"add_eos_token"`
	SplitSpecial   *bool  `json:"split_special_tokens"`
	AutoMap        struct {
		AutoTokenizer json.RawMessage // the model's own class
	} `json:"auto_map"`
	Legacy         *bool    `json:"legacy"`
	KeepAccents    *bool    `json:"keep_accents"`
	SplitByPunct   *bool    `json:"split_by_punct"`
	ExtraIDs       *int     `json:"extra_ids"`
	PaddingSide    sideName `json:"padding_side"`
	TruncationSide sideName `json:"truncation_side"`

	Unk  tokenName `json:"unk_token"`
	Bos  tokenName `json:"bos_token"`
	Eos  tokenName `json:"eos_token"`
	Sep  tokenName `json:"sep_token"`
	Pad  tokenName `json:"pad_token"`
	Cls  tokenName `json:"cls_token"`
	Mask tokenName `json:"mask_token"`
}

// A tokenName is written "[PAD]" or {"content": "[PAD]", "lstrip": true, …}.
type tokenName struct {
	content string
	token   addedToken // all fields, if the file has an object and not a string
}

func (n *tokenName) UnmarshalJSON(data []byte) error {
	*n = tokenName{}
	if data[0] == '{' {
		err := json.Unmarshal(data, &n.token)
		n.content = n.token.Content
		return err
	}
	return json.Unmarshal(data, &n.content)
}

// or returns the name, or another one where there is none.
func (n tokenName) or(other string) string {
	if n.content == "" {
		return other
	}
	return n.content
}

// roleNames are the roles of special tokens, in the order in which transformers adds their tokens.
var roleNames = []string{"unk", "bos", "eos", "sep", "pad", "cls", "mask"}

// named returns the tokens that have a part to play, by it.
func (c *config) named() map[string]tokenName {
	return map[string]tokenName{"unk": c.Unk, "bos": c.Bos, "eos": c.Eos, "sep": c.Sep, "pad": c.Pad, "cls": c.Cls, "mask": c.Mask}
}

// readConfig reads tokenizer_config.json, special_tokens_map.json and added_tokens.json of a folder, as far as they exist. If they
// contradict each other, tokenizer_config.json is right.
func readConfig(system files.System, folder string) (*config, error) {
	c := &config{}
	var ids map[string]int32
	for _, f := range []struct {
		name string
		to   any
	}{{"special_tokens_map.json", c}, {"tokenizer_config.json", c}, {"added_tokens.json", &ids}} {
		data, err := readWhole(system, filepath.Join(folder, f.name))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return nil, err
		}
		if err := json.Unmarshal(data, f.to); err != nil {
			return nil, fmt.Errorf("%s beside it: %w", f.name, err)
		}
	}
	for token, id := range ids {
		number := strconv.Itoa(int(id))
		if _, ok := c.AddedTokens[number]; !ok {
			if c.AddedTokens == nil {
				c.AddedTokens = map[string]addedToken{}
			}
			c.AddedTokens[number] = c.attributes(token)
		}
	}
	return c, nil
}

// attributes returns a token that added_tokens.json adds: as special as the other files say.
func (c *config) attributes(content string) addedToken {
	for _, n := range c.named() {
		if n.content == content {
			n.token.Content, n.token.Special = content, true
			return n.token
		}
	}
	return addedToken{Content: content, Normalized: true}
}

// longestRow is above the maximum length of any model: more stands for no limit.
const longestRow = 1 << 30

// apply changes what the config names.
func (c *config) apply(d *definition) {
	if other := d.fromJSON && c.Class != "" && !jsonClasses[c.className()].bert; d.bert != nil && !other {
		set(&d.bert.Lower, c.DoLowerCase)
		set(&d.bert.Chinese, c.TokenizeChineseChars)
		if c.StripAccents != nil {
			d.bert.Strip = c.StripAccents
		}
	}
	if c.ModelMaxLength != nil && *c.ModelMaxLength >= 1 && *c.ModelMaxLength < longestRow {
		d.maxLength = int(*c.ModelMaxLength)
	}
	d.cutSide, d.padSide = c.TruncationSide.or(d.cutSide), c.PaddingSide.or(d.padSide)
	for role, name := range c.named() {
		if name.content != "" {
			d.roles[role] = name.content
		}
	}
}

// A sideName is "left" or "right".
type sideName string

// or returns the side, or another one where there is none.
func (n sideName) or(other Side) Side {
	switch n {
	case "left":
		return Left
	case "right":
		return Right
	}
	return other
}

// addTokens adds the special tokens that the files name, and those of added_tokens_decoder, by their ids.
func (c *config) addTokens(d *definition) error {
	for _, role := range roleNames {
		n := c.named()[role]
		known := slices.ContainsFunc(d.added, func(a addedToken) bool { return a.Content == n.content })
		if n.content != "" && (!known || n.token.Content != "") {
			n.token.Content, n.token.Special = n.content, true
			d.addSpecial(n.token)
		}
	}
	d.number()
	ids := make([]int, 0, len(c.AddedTokens))
	for number := range c.AddedTokens {
		id, err := strconv.ParseUint(number, 10, 31)
		if err != nil {
			return fmt.Errorf("tokenizer_config.json beside it: added_tokens_decoder: %q is not an id", number)
		}
		ids = append(ids, int(id))
	}
	slices.Sort(ids)
	for _, id := range ids {
		a := c.AddedTokens[strconv.Itoa(id)]
		a.ID = int32(id)
		d.addSpecial(a)
	}
	return nil
}
