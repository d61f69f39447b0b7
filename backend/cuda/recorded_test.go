package cuda

import (
	"encoding/binary"
	"flag"
	"fmt"
	"hash/crc32"
	"testing"

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
	found := map[string]string{}
	onFakes(t, func(t *testing.T, d *Device, fake *drivertest.Driver) {
		eachCase(t, func(name string, g *ir.Graph, b ir.Binding) {
			key := fmt.Sprintf("%s, %d, s=%d", name, fake.Capability, b["s"])
			found[key] = backendtest.Commands(t, d, d.Runtime, g, b, describe)
		})
	})
	recorded.Keys(t, "testdata/launches.txt", *update, found)
}
