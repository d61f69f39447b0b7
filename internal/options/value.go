package options

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// A Value is an option as a flag: a pflag.Value.
type Value interface {
	String() string
	Set(string) error
	Type() string
}

// A Choice is a Value that takes one of a few words.
type Choice interface {
	Value
	Words() []string
}

// Join lists alternatives.
func Join[T any](list []T) string { return strings.Join(names(list), ", ") }

func names[T any](list []T) []string {
	out := make([]string, len(list))
	for i, x := range list {
		out[i] = fmt.Sprint(x)
	}
	return out
}

// A Word is a word that a flag accepts, with its value.
type Word[T any] struct {
	Name  string
	Value T
}

// Words are words that stand for themselves.
func Words[T ~string](values ...T) []Word[T] {
	words := make([]Word[T], len(values))
	for i, v := range values {
		words[i] = Word[T]{string(v), v}
	}
	return words
}

// OneOf sets to to what one of a few words stands for. What none stands for reads as empty.
func OneOf[T comparable](to *T, empty string, words []Word[T]) Choice {
	return &choice[T]{to, empty, words}
}

type choice[T comparable] struct {
	to    *T
	empty string
	words []Word[T]
}

func (c *choice[T]) String() string {
	for _, w := range c.words { // none in a zero choice, of which pflag asks its text
		if w.Value == *c.to {
			return w.Name
		}
	}
	return c.empty
}

func (*choice[T]) Type() string { return "word" }

func (c *choice[T]) Words() (list []string) {
	for _, w := range c.words {
		list = append(list, w.Name)
	}
	return list
}

func (c *choice[T]) Set(s string) error {
	for _, w := range c.words {
		if w.Name == s {
			*c.to = w.Value
			return nil
		}
	}
	return fmt.Errorf("want one of %s", Join(c.Words()))
}

// parsed is a choice whose type reads and writes itself.
type parsed[T fmt.Stringer] struct {
	to    *T
	parse func(string) (T, error)
	words []string
}

func (p parsed[T]) String() string {
	return (*p.to).String()
}

func (parsed[T]) Type() string      { return "word" }
func (p parsed[T]) Words() []string { return p.words }

func (p parsed[T]) Set(s string) (err error) {
	v, err := p.parse(s)
	if err == nil {
		*p.to = v
	}
	return err
}

type text string

func (v *text) String() string     { return string(*v) }
func (*text) Type() string         { return "string" }
func (v *text) Set(s string) error { *v = text(s); return nil }

type boolean bool

func (v *boolean) String() string { return strconv.FormatBool(bool(*v)) }
func (*boolean) Type() string     { return "bool" }

func (v *boolean) Set(s string) error {
	b, err := strconv.ParseBool(s)
	if err != nil {
		return fmt.Errorf("want true or false")
	}
	*v = boolean(b)
	return nil
}

// An integer is a number of either size.
type integer[T int | int64] struct{ to *T }

func (v integer[T]) String() string {
	return strconv.FormatInt(int64(*v.to), 10)
}

func (integer[T]) Type() string { return "int" }

func (v integer[T]) Set(s string) error {
	n, err := strconv.ParseInt(s, 0, 64)
	if err != nil || int64(T(n)) != n {
		return fmt.Errorf("invalid value %q: want a number", s)
	}
	*v.to = T(n)
	return nil
}

// sizes are dimensions by name, which several flags or one list give.
type sizes map[string]int

func (d *sizes) String() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(*d)) {
		parts = append(parts, fmt.Sprintf("%s=%d", name, (*d)[name]))
	}
	return strings.Join(parts, ",")
}

func (*sizes) Type() string { return "name=size" }

func (d *sizes) Set(list string) error {
	for s := range strings.SplitSeq(list, ",") {
		name, size, ok := strings.Cut(s, "=")
		if !ok || name == "" {
			return fmt.Errorf("want name=size, such as seq=128")
		}
		if _, twice := (*d)[name]; twice {
			return fmt.Errorf("duplicate dimension %q", name)
		}
		n, err := strconv.Atoi(size)
		if err != nil || n < 0 {
			return fmt.Errorf("invalid size %q: want a size of 0 or more (plan alone takes a range)", size)
		}
		if *d == nil {
			*d = sizes{}
		}
		(*d)[name] = n
	}
	return nil
}

// A Size is a Value for a number of bytes.
type Size int64

var units = []struct {
	suffix string
	bytes  int64
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"GB", 1e9}, {"MB", 1e6}, {"KB", 1e3}, {"", 1}}

// String implements Value.
func (n *Size) String() string {
	for _, u := range units {
		if v := int64(*n); v > 0 && v%u.bytes == 0 && u.bytes != 1 {
			return fmt.Sprintf("%d%s", v/u.bytes, u.suffix)
		}
	}
	return strconv.FormatInt(int64(*n), 10)
}

// Type implements Value.
func (*Size) Type() string { return "bytes" }

// Set implements Value.
func (n *Size) Set(s string) error {
	for _, u := range units {
		if number, ok := strings.CutSuffix(s, u.suffix); ok {
			v, err := strconv.ParseFloat(number, 64)
			if err != nil || v <= 0 || v*float64(u.bytes) >= 1<<62 {
				return fmt.Errorf("want a number of bytes, such as 16MiB")
			}
			*n = Size(v * float64(u.bytes))
			return nil
		}
	}
	return nil
}
