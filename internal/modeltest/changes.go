package modeltest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Changes changes the values of JSON one at a time: each goes away, or becomes one of another type, another number, truth, text or list.
// read says what comes of a text. For each path it returns a checksum of what is read where that differs from what is read of the
// unchanged text, and "unread" where nothing differs. details has what is read, by path. Of long lists and of objects with many fields
// only some are changed.
func Changes(t *testing.T, text []byte, read func(changed []byte) string) (paths []string, sums, details map[string]string) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var tree any
	require.NoError(t, d.Decode(&tree))
	c := &changes{t: t, tree: &tree, read: read, sums: map[string]string{}, details: map[string]string{}}
	c.before = c.result()
	c.value("", tree, func(v any) { tree = v })
	return c.paths, c.sums, c.details
}

type changes struct {
	t             *testing.T
	tree          *any
	read          func([]byte) string
	before        string
	paths         []string
	sums, details map[string]string
}

func (c *changes) result() string {
	text, err := json.Marshal(c.tree)
	require.NoError(c.t, err)
	return c.read(text)
}

// sometimes are how many parts of a list and fields of an object are changed.
const sometimes = 3

type absent struct{}

// value changes the value at a path and those in it. set replaces or removes it.
func (c *changes) value(path string, v any, set func(any)) {
	var b strings.Builder
	differs := func(others ...any) {
		for _, other := range others {
			set(other)
			if got := c.result(); got != c.before {
				fmt.Fprintf(&b, "%v: %s\n", other, got)
			}
		}
		set(v)
	}
	if path != "" {
		differs(absent{})
	}
	wrong := any(map[string]any{})
	if _, ok := v.(map[string]any); ok {
		wrong = []any{}
	}
	differs(wrong)
	if b.Len() > 0 { // it is read at all
		differs(nil)
		switch v := v.(type) {
		case json.Number:
			n, err := v.Float64()
			require.NoError(c.t, err)
			differs(n+1, n-1, 0, -1, 1e9, 0.5, "x")
		case bool:
			differs(!v, 1)
		case string:
			differs("", "x", v+"x", "<s>", 1)
		case []any:
			if len(v) > 0 {
				differs(v[1:], slices.Concat(v, v[:1]), 1)
			}
		case nil:
			differs(1, true, "x")
		default:
			differs(1)
		}
	}
	c.paths = append(c.paths, path)
	c.sums[path], c.details[path] = "unread", b.String()
	if b.Len() == 0 {
		return
	}
	c.sums[path] = fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(b.String())))
	switch v := v.(type) {
	case []any:
		for i, x := range v[:min(len(v), sometimes)] {
			c.value(fmt.Sprintf("%s[%d]", path, i), x, func(other any) {
				if _, gone := other.(absent); gone {
					set(slices.Delete(slices.Clone(v), i, i+1))
				} else {
					changed := slices.Clone(v)
					changed[i] = other
					set(changed)
				}
			})
		}
		set(v)
	case map[string]any:
		names := slices.Sorted(maps.Keys(v))
		if len(names) > 100 { // a vocabulary
			names = names[:sometimes]
		}
		for _, name := range names {
			c.value(path+"."+name, v[name], func(other any) {
				changed := maps.Clone(v)
				if _, gone := other.(absent); gone {
					delete(changed, name)
				} else {
					changed[name] = other
				}
				set(changed)
			})
		}
		set(v)
	}
}

// Changed compares the checksums of Changes with those recorded in a file, for texts by their names. With update, the file is written.
func Changed(t *testing.T, file string, update bool, texts []string,
	read func(name string) (text []byte, read func(changed []byte) string)) {
	recorded := map[string]string{}
	if data, err := os.ReadFile(file); err == nil {
		for line := range strings.Lines(string(data)) {
			at := strings.LastIndex(strings.TrimSuffix(line, "\n"), " ")
			recorded[line[:at]] = strings.TrimSpace(line[at:])
		}
	}
	var all strings.Builder
	for _, name := range texts {
		text, reads := read(name)
		paths, sums, details := Changes(t, text, reads)
		for _, path := range paths {
			key := name + " " + path
			fmt.Fprintf(&all, "%s %s\n", key, sums[path])
			if !update && recorded[key] != sums[path] {
				t.Errorf("%s: what is read is not as recorded: %s\n%s", key, sums[path], details[path])
			}
		}
	}
	if update {
		require.NoError(t, os.WriteFile(file, []byte(all.String()), 0o666))
	}
}
