package cpu

import (
	"fmt"

	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/ir"
)

// Open is exported to tests: others find the backend by its name.
var Open = openDevice

// Steps describes a program: of each step the op, the parts of each phase and bytes of scratch, and the arena.
func Steps(p backend.Program, planned *backend.Planned) (text string) {
	q := p.(*program)
	for i := range q.steps {
		text += " " + ir.OpName(q.steps[i].node.Op)
		for st := &q.steps[i]; st != nil; st = st.then {
			text += fmt.Sprint(" ", st.parts)
		}
		for _, b := range planned.Scratch[i] {
			text += fmt.Sprintf(" (%d)", planned.Problem.Buffers[b].Size)
		}
	}
	return fmt.Sprint(text, " in ", q.layout.Size())
}
