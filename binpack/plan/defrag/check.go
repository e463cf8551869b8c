package defrag

import (
	"fmt"

	"github.com/sigma-scheduler/sigma/binpack"
)

// Check carries out moves with the independent slow checker ([binpack.Checker]). The error names the
// first step that breaks a constraint, or that moves an item from a machine that it is not on.
func Check(inst *binpack.Instance, items []Item, moves []Move) error {
	c := binpack.NewChecker(inst)
	where, devices := make([]Position, len(items)), make([][]binpack.Device, len(items))
	for i, it := range items {
		where[i], devices[i] = Position{it.Line, it.Index}, it.Devices
		if it.Line < 0 {
			where[i] = Nowhere
			continue
		}
		if err := c.Initial(it.App, it.Line, it.Index, it.Devices); err != nil {
			return err
		}
	}
	for first := 0; first < len(moves); {
		end := first + 1
		for end < len(moves) && moves[end].Step == moves[first].Step {
			end++
		}
		step := moves[first:end]
		for _, m := range step {
			if where[m.Item] != m.From {
				return fmt.Errorf("step %d: item %d stands elsewhere", m.Step, m.Item)
			}
			if items[m.Item].Fixed && m.From != Nowhere {
				return fmt.Errorf("step %d: item %d must not move", m.Step, m.Item)
			}
			if m.From == Nowhere {
				continue
			}
			if err := c.Remove(items[m.Item].App, m.From.Line, m.From.Index, devices[m.Item]); err != nil {
				return fmt.Errorf("step %d: %w", m.Step, err)
			}
		}
		for _, m := range step {
			if err := c.Place(items[m.Item].App, m.To.Line, m.To.Index, m.Devices); err != nil {
				return fmt.Errorf("step %d: %w", m.Step, err)
			}
			where[m.Item], devices[m.Item] = m.To, m.Devices
		}
		first = end
	}
	return nil
}
