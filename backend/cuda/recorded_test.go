package cuda

import (
	"encoding/binary"
	"flag"
	"fmt"
	"hash/crc32"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/backendtest"
	"github.com/rlxc/rlxc/internal/drivertest"
	"github.com/rlxc/rlxc/internal/gpu"
	"github.com/rlxc/rlxc/internal/recorded"
	"github.com/rlxc/rlxc/ir"
)

var update = flag.Bool("update", false, "write testdata/launches.txt anew")

// describe lists launches: kernels with blocks, threads and shared memory, and a sum of the parameters, in which only the addresses of
// constants are left out.
func describe(b gpu.Binder) (list []string) {
	for _, l := range b.(*binder).launches {
		params := append([]byte(nil), l.params...)
		for _, i := range l.fields {
			if a := binary.NativeEndian.Uint64(params[i:]); a != 0 && address(a)&inSegment == 0 {
				binary.NativeEndian.PutUint64(params[i:], 1)
			}
		}
		maps := fmt.Sprint(len(l.maps))
		for _, m := range l.maps {
			if m.at&inSegment == 0 {
				m.at = 1
			}
			maps += fmt.Sprint(m)
		}
		list = append(list, fmt.Sprintf("%s %v/%d/%d %08x", l.kernel, l.grid.Blocks, l.grid.Threads, l.grid.Shared,
			crc32.ChecksumIEEE(append(params, maps...))))
	}
	return list
}

// TestRecordedLaunches: what is launched for every case is as recorded. After a change: go test ./backend/cuda -run RecordedLaunches
// -update
func TestRecordedLaunches(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	found := map[string]string{}
	for _, capability := range []int{90, 75} {
		t.Run(fmt.Sprint(capability), func(t *testing.T) {
			fake := drivertest.New(t)
			fake.Capability = capability
			d := open(t, backend.Options{})
			for name, text := range cases() {
				for _, s := range []int{1, 34} {
					g, err := ir.Parse(`graph "case" ` + text)
					require.NoError(t, err, name)
					key := fmt.Sprintf("%s, %d, s=%d", name, capability, s)
					found[key] = backendtest.Commands(t, d, d.Runtime, g, ir.Binding{"s": s}, describe)
				}
			}
		})
	}
	recorded.Keys(t, "testdata/launches.txt", *update, found)
}
