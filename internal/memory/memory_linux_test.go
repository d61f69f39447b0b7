package memory

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

func TestGroupLimit(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	const most = 1 << 40
	for name, c := range map[string]struct {
		groups string
		files  fstest.MapFS
		want   int64
	}{
		"none":                     {"0::/\n", nil, most},
		"a container":              {"0::/\n", fstest.MapFS{"memory.max": file("536870912\n")}, 512 << 20},
		"the group above":          {"0::/a/b\n", fstest.MapFS{"a/memory.max": file("1000"), "a/b/memory.max": file("max")}, 1000},
		"the smallest":             {"0::/a/b\n", fstest.MapFS{"a/memory.max": file("1000"), "a/b/memory.max": file("500")}, 500},
		"version 1":                {"5:cpu:/x\n4:memory,hugetlb:/x\n", fstest.MapFS{"memory/x/memory.limit_in_bytes": file("700")}, 700},
		"version 1 without bounds": {"4:memory:/\n", fstest.MapFS{"memory/memory.limit_in_bytes": file("9223372036854771712")}, most},
		"noise":                    {"x\n0:a\n\n0::/../..\n", fstest.MapFS{"memory.max": file("?")}, most},
	} {
		require.Equal(t, c.want, groupLimit(c.files, c.groups, most), name)
	}
	require.Positive(t, Available())
	require.Equal(t, Available()/2, Limit(0))
	require.EqualValues(t, 7, Limit(7))
}
