package memory

import (
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Available is the number of bytes that this process may take: the machine's memory, or less where a control group of Linux has
// a limit (a container, a service); 0 where it cannot be known.
var Available = sync.OnceValue(func() int64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	machine := int64(info.Totalram) * int64(info.Unit)
	groups, _ := os.ReadFile("/proc/self/cgroup")
	return min(machine, groupLimit(os.DirFS("/sys/fs/cgroup"), string(groups), machine))
})

// groupLimit is the smallest limit of the groups that a process is in, and of those above them; most where there is none. groups
// is /proc/self/cgroup, files what is mounted at /sys/fs/cgroup (Linux, cgroup-v1/memory and cgroup-v2).
func groupLimit(files fs.FS, groups string, most int64) int64 {
	for line := range strings.Lines(groups) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		root, file := ".", "memory.max" // version 2: one hierarchy
		switch {
		case parts[0] == "0" && parts[1] == "":
		case strings.Contains(","+parts[1]+",", ",memory,"):
			root, file = "memory", "memory.limit_in_bytes"
		default:
			continue
		}
		for group := path.Clean("/" + parts[2]); ; group = path.Dir(group) {
			text, _ := fs.ReadFile(files, path.Join(root, group[1:], file)) // "max", or none, bounds nothing
			if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && n > 0 {
				most = min(most, n)
			}
			if group == "/" {
				break
			}
		}
	}
	return most
}
