package trace

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/sigma-scheduler/sigma/binpack"
)

// MachineNames translates between names of machines and their lines and
// indices. A line of one machine gives it its own name, a line of several or
// without limit names them <line>-00000 and so on, with at least five digits.
type MachineNames struct {
	instance *binpack.Instance
	line     map[string]int32
}

// NewMachineNames prepares the names of an instance's machines.
func NewMachineNames(instance *binpack.Instance) *MachineNames {
	n := &MachineNames{instance, make(map[string]int32, len(instance.Machines))}
	for i, m := range instance.Machines {
		n.line[m.Name] = int32(i)
	}
	return n
}

// MachineName is the name of the machine at an index of a line of machines.csv.
func MachineName(instance *binpack.Instance, line, index int32) string {
	m := &instance.Machines[line]
	if m.Count == 1 {
		return m.Name
	}
	return fmt.Sprintf("%s-%05d", m.Name, index)
}

// MachineName is the name of the machine at an index of a line of machines.csv.
func (t *Trace) MachineName(line, index int32) string {
	return MachineName(t.Instance, line, index)
}

// Name is the name of the machine at an index of a line of machines.csv.
func (n *MachineNames) Name(line, index int32) string {
	return MachineName(n.instance, line, index)
}

// Parse returns the line and the index of the machine called name.
func (n *MachineNames) Parse(name string) (line, index int32, err error) {
	if line, ok := n.line[name]; ok && n.instance.Machines[line].Count == 1 {
		return line, 0, nil
	}
	base, index, ok := cutIndex(name)
	line, known := n.line[base]
	if !ok || !known || n.instance.Machines[line].Count == 1 {
		return 0, 0, fmt.Errorf("unknown machine")
	}
	if count := n.instance.Machines[line].Count; count != binpack.Unlimited && int(index) >= count {
		return 0, 0, fmt.Errorf("machine index %d out of range: %s has %d", index, base, count)
	}
	return line, index, nil
}

// cutIndex splits the name of one of several machines.
func cutIndex(name string) (base string, index int32, ok bool) {
	dash := strings.LastIndexByte(name, '-')
	if dash < 0 {
		return "", 0, false
	}
	digits := name[dash+1:]
	n, err := strconv.ParseUint(digits, 10, 31)
	// Five digits or as many as needed: no two texts name the same machine.
	if err != nil || len(digits) < 5 || len(digits) > 5 && digits[0] == '0' {
		return "", 0, false
	}
	return name[:dash], int32(n), true
}
