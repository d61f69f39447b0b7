package options

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTable: every field has a row, in the same order, and the value of a row's flag sets that field and no other.
func TestTable(t *testing.T) {
	fields := reflect.VisibleFields(reflect.TypeFor[Compile]())
	require.Len(t, Table, len(fields))
	for i, row := range Table {
		require.Equal(t, fields[i].Name, row.Field)
		require.NotEmpty(t, row.Usage)
		require.Equal(t, row.Flag != "", row.Value != nil, row.Field)
		if row.Value == nil {
			continue
		}
		var o Compile
		require.NoError(t, row.Value(&o).Set(other(row)), row.Field)
		for _, f := range fields {
			require.Equal(t, f.Name != row.Field, reflect.ValueOf(o).FieldByIndex(f.Index).IsZero(), "%s sets %s", row.Field, f.Name)
		}
		set := row.Value(&o).String()
		require.Equal(t, other(row), set, row.Field)
		require.NotEqual(t, set, row.Value(&Compile{}).String(), row.Field)
	}
}

func TestResolve(t *testing.T) {
	t.Setenv(EnvVerify, "1")
	o, err := Resolve(Compile{})
	require.NoError(t, err)
	require.Equal(t, Compile{Backend: "cpu", Level: O2, Verify: true}, o)
	for want, o := range map[string]Compile{"invalid level": {Level: "3"}, "planner mode": {Mode: 99}, "liveness policy": {Liveness: 99}} {
		_, err := Resolve(o)
		require.ErrorContains(t, err, want)
	}
}

func TestDims(t *testing.T) {
	var o Compile
	d := (*sizes)(&o.Dims)
	require.NoError(t, d.Set("batch=2"))
	require.NoError(t, d.Set("seq=8,past=0"))
	require.Equal(t, map[string]int{"batch": 2, "seq": 8, "past": 0}, o.Dims)
	for _, text := range []string{"seq", "=3", "more=", "more=-1", "more=4:5", "seq=1", ""} {
		require.Error(t, d.Set(text), text)
	}
}

func TestSizeFlag(t *testing.T) {
	for text, want := range map[string]Size{"1": 1, "64KiB": 64 << 10, "1.5MiB": 3 << 19, "2GiB": 2 << 30, "3MB": 3e6} {
		var n Size
		require.NoError(t, n.Set(text), text)
		require.Equal(t, want, n, text)
		var again Size
		require.NoError(t, again.Set(n.String()))
		require.Equal(t, n, again, text)
	}
	for _, text := range []string{"", "0", "-1", "x", "1TiB", "MiB", "1e30"} {
		var n Size
		require.Error(t, n.Set(text), text)
	}
}

// other is a text for a row's flag that is not its default.
func other(row Option) string {
	switch v := row.Value(&Compile{}).(type) {
	case Choice:
		for _, w := range v.Words() {
			if w != v.String() {
				return w
			}
		}
	case *boolean:
		return "true"
	case *sizes:
		return "batch=3"
	case *Size:
		return "64MiB"
	}
	return "1"
}
