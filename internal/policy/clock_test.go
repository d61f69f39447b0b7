package policy

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// limited finds limits of the clock in tests. On a busy machine such a limit fails a test of right code: a test counts work, or time of the
// processor (internal/robustness), or waits without a limit (modeltest.Wait).
var limited = regexp.MustCompile(`\.(Eventually|EventuallyWithT|Never|WithTimeout|WithDeadline|AfterFunc|NewTimer|` +
	`Set(?:Read|Write)?Deadline)\(|\btime\.(After|Tick|NewTicker)\(`)

// clocked are the tests that use the clock, each with the reason why a busy machine does not fail them.
var clocked = map[string]string{
	"cmd/rlxc/hostile_unix_test.go":       "an attacker gives up, which ends the attack",
	"hub/transfers_test.go":               "the clock is that of testing/synctest",
	"internal/page/browser/pages_test.go": "pages of a separate module, opened in a browser that may hang",
	"planner/tables_test.go":              "the heap is looked at every 2 ms, and printed",
	"server/load_test.go":                 "a client leaves after a while, whatever has happened by then",
}

// TestNoTestIsJudgedByTheClock finds tests that have limits of the clock.
func TestNoTestIsJudgedByTheClock(t *testing.T) {
	t.Chdir(root)
	listed, err := exec.Command("git", "ls-files", "-z", "*_test.go").Output()
	require.NoError(t, err)
	names := strings.Split(strings.TrimRight(string(listed), "\x00"), "\x00")
	require.Greater(t, len(names), 200)
	found := map[string]bool{}
	for _, name := range names {
		content, err := os.ReadFile(name)
		if os.IsNotExist(err) {
			continue // deleted, not yet committed
		}
		require.NoError(t, err)
		if call := limited.Find(content); call != nil {
			found[name] = true
			require.NotEmpty(t, clocked[name], "%s calls %s: count work or time of the processor, or wait by modeltest.Wait", name, call)
		}
	}
	for name := range clocked {
		require.True(t, found[name], "%s uses no clock: remove its line", name)
	}
}
