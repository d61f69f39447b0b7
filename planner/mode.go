package planner

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Mode is an algorithm that places buffers.
type Mode uint8

const (
	Auto     Mode = iota // heuristics, then the search while the plan is above the lower bound
	Disabled             // separate memory for each buffer
	Remap                // pools of equal device, dtype and rounded size
	TLSF                 // an allocator replayed ahead of time, an arena for each lane of a device
	BestFit              // large buffers first, each in the gap that fits best
	Optimal              // a search that stops at the lower bound or at its budget
	numModes
)

// modes holds one row a mode. place fills the offsets of one space.
var modes = [numModes]struct {
	name    string
	aliases []string
	place   func(*space, *Options)
}{
	Auto:     {"auto", nil, placeAuto},
	Disabled: {"disabled", []string{"0", "off", "none"}, placeApart},
	Remap:    {"remap", []string{"pool"}, placeRemap},
	TLSF:     {"arena", nil, placeTLSF},
	BestFit:  {"best-fit", nil, placeBestFit},
	Optimal:  {"optimal", nil, placeOptimal},
}

// Modes lists all modes in the order in which tables show them.
func Modes() []Mode { return []Mode{Disabled, Remap, TLSF, BestFit, Optimal, Auto} }

// String returns the name that ParseMode accepts.
func (m Mode) String() string {
	if m < numModes {
		return modes[m].name
	}
	return fmt.Sprintf("Mode(%d)", m)
}

// ParseMode returns the mode with a name or alias. The empty text means Auto. It fails if the name is unknown.
func ParseMode(text string) (Mode, error) {
	if text == "" {
		return Auto, nil
	}
	var names []string
	for m, row := range modes {
		for _, name := range append([]string{row.name}, row.aliases...) {
			if name == text {
				return Mode(m), nil
			}
		}
		names = append(names, row.name)
	}
	return 0, fmt.Errorf("unknown planner mode %q: use one of %s", text, strings.Join(names, ", "))
}

// MarshalText writes the name of the mode. It fails if the mode is unknown.
func (m Mode) MarshalText() ([]byte, error) {
	if m >= numModes {
		return nil, fmt.Errorf("unknown planner mode %d", m)
	}
	return []byte(m.String()), nil
}

// UnmarshalText is ParseMode. It fails if the name is unknown.
func (m *Mode) UnmarshalText(text []byte) error {
	parsed, err := ParseMode(string(text))
	*m = parsed
	return err
}

// The environment variables that FromEnv reads.
const (
	EnvMode    = "RLXC_MEMORY_PLANNER"
	EnvNoReuse = "RLXC_ARENA_NO_REUSE"
	// EnvNoReuseSource is the name of EnvNoReuse in the sources that rlxc's planner follows. Scripts set it.
	EnvNoReuseSource = "RLX_ARENA_NO_REUSE"
)

// FromEnv returns o with the settings of environment variables: RLXC_MEMORY_PLANNER, a mode, and RLXC_ARENA_NO_REUSE or
// RLX_ARENA_NO_REUSE, which is true or 1 for separate memory for each buffer, or false, 0 or unset. Solve does not read the environment.
// FromEnv fails if a variable has another value.
func FromEnv(o Options) (Options, error) {
	if text, ok := os.LookupEnv(EnvMode); ok && text != "" {
		mode, err := ParseMode(text)
		if err != nil {
			return o, fmt.Errorf("%s: %w", EnvMode, err)
		}
		o.Mode = mode
	}
	for _, name := range []string{EnvNoReuse, EnvNoReuseSource} {
		text := os.Getenv(name)
		if text == "" {
			continue
		}
		on, err := strconv.ParseBool(text)
		if err != nil {
			return o, fmt.Errorf("%s=%q: use true or false, or 1 or 0", name, text)
		}
		o.ArenaNoReuse = o.ArenaNoReuse || on
	}
	return o, nil
}
